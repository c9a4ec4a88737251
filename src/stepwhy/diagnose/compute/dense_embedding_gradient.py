"""The gradient of an embedding table has all of its rows, although a batch uses few of them.

## What it means
A batch looks up some hundred rows of a table, but the gradient is a tensor of the size of the whole
table, nearly all of it zeros, and the optimizer updates every row. In PyTorch, this is the default
of `nn.Embedding`. In TensorFlow 1, it happens if rows are not looked up in the variable itself but
in a tensor that is computed from it, or if the whole table is regularised.

## Why it costs
Each step fills, adds and updates the whole table, with its moments. That takes the longer, the more
rows the table has, whatever the size of the batch.

## How it is measured
The cost is the time to make the dense gradient, and that of the optimizer. In TensorFlow 1,
operations of the backward pass whose result is as large as such a gradient count as well: they pass
it on, as through the slice or the sum from which the rows were looked up. The saving is up to
a fifth more: other operations find their data in the caches again. Small tables and models
that mostly consist of other layers do not count: there, the gradient of the table is made in a
small part of the step.

## Fix
Keep the gradient sparse, and update only the rows that were used.

## Fix risk
An optimizer of sparse gradients leaves the moments of unused rows as they are. Weight decay of the
whole table is then no longer applied in each step.

## When it abstains
If operations of the backward pass are not recorded, on accelerators, and in frameworks other than
PyTorch and TensorFlow 1.
"""

from __future__ import annotations

import numpy as np

from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL, Kind, Phase

RULE = Rule(
    __name__,
    name="Dense gradients of embedding tables",
    found="Keep the gradient of the embedding sparse: every step updates the whole table",
    clear="Gradients of embeddings take a small part of the step",
    needs=(("host-ops", "graph-ops"), ("steps",)),
    refines="unfused-optimizer",
    least_share=0.30,  # of the step, with the optimizer; below it other parameters may cost as much
    most_saved=1.2,  # of the cost; what the tables displace from the caches is read again as well
    least_saved=0.4,  # of the cost; the optimizer also updates the other layers
    change="update only the rows that were used",
    edit=Edit("ops", "replaced"),
)

LARGE = 1 << 20  # bytes; smaller gradients may be of any layer
ALIKE = 0.01  # of a size; a slice of a table lacks a row or two
MADE = 0.05  # of the step, to make the gradient; of small tables it takes less

# Source: operator names of PyTorch (aten/src/ATen/native/Embedding.cpp), and the operation with
# which TensorFlow converts an `IndexedSlices` to a tensor (indexed_slices.py).
_OF_TORCH = regex(r"aten::embedding_dense_backward|aten::_embedding_bag_dense_backward")
_OF_TENSORFLOW = regex(r"UnsortedSegmentSum")
# Source: `torch.nn.Embedding`: the optimizers that work with sparse gradients.
_TAKES_SPARSE = regex(r"Optimizer\.step#(SGD|Adagrad|SparseAdam)\.step")
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time of dense gradients of embeddings, and of the optimizer."""
    if facts.has_accelerator:
        return RULE.not_applicable("The run uses an accelerator: see dominant-op.")
    backward = facts.slices(Kind.OP, Kind.KERNEL, steady=True)
    backward = backward[facts.phases[backward] == Phase.BACKWARD]
    if not len(backward) and "whole-step" in facts.trace.meta.signals:
        return RULE.not_applicable("The graph only predicts: no operation of a backward pass ran.")
    if not len(backward):
        return RULE.no_data("backward-ops", "No operation of a backward pass is recorded.")
    made = _dense_gradients(facts, backward)
    if made is None:
        return RULE.not_applicable("The run uses neither PyTorch nor a session of TensorFlow 1.")
    made_ns = on_scale(facts, mean_within(facts, time_of(facts, made)))
    updating = facts.slices(Kind.OP, Kind.KERNEL, Kind.FRAMEWORK, steady=True)
    updating = updating[facts.phases[updating] == Phase.OPTIMIZER]
    updated_ns = on_scale(facts, mean_within(facts, time_of(facts, updating)))
    evidence = (
        Evidence("time to make dense gradients", made_ns, "ns"),
        Evidence("time of the optimizer", updated_ns, "ns"),
        *times(facts, "time of the operation", by_name(facts, made)[:_SHOWN]),
        *times_at_lines(facts, made),
    )
    cost = min(made_ns + updated_ns, facts.wall_ns)
    is_short = made_ns < MADE * facts.wall_ns
    return RULE.judge(facts, cost, evidence, _fix(facts, updating), shown=2, unless=is_short)


def _fix(facts: Facts, updating: AnyRows) -> Fix:
    """The fix by framework, and by whether the optimizer takes sparse gradients."""
    if not is_pytorch(facts):
        return RULE.fix("tensorflow")
    names = facts.trace.slices.name[updating]
    takes_sparse = facts.trace.matches(names, _TAKES_SPARSE.match).any()
    return RULE.fix("same-optimizer" if takes_sparse else "torch")


def _dense_gradients(facts: Facts, backward: AnyRows) -> AnyRows | None:
    """The operations that make a dense gradient; None in other frameworks."""
    if is_pytorch(facts):
        pattern = _OF_TORCH
    elif (facts.trace.slices.scope[backward] != NULL).any():
        pattern = _OF_TENSORFLOW
    else:
        return None
    names = facts.trace.slices.name[backward]
    found: AnyRows = backward[facts.trace.matches(names, pattern.fullmatch)]
    return found if pattern is _OF_TORCH else _with_passed_on(facts, backward, found)


def _with_passed_on(facts: Facts, backward: AnyRows, made: AnyRows) -> AnyRows:
    """With the operations that pass a gradient of the whole table on, as through a slice of it."""
    sizes = facts.trace.slices.bytes
    tables = np.unique(sizes[made])
    tables = tables[tables >= LARGE]
    if not len(tables):
        return made
    of_table = np.abs(sizes[backward][:, None] / tables - 1).min(axis=1) <= ALIKE
    found: AnyRows = backward[of_table | np.isin(backward, made)]
    return found
