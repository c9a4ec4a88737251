"""Batches are padded further than to their longest row, and the padding is computed with.

## What it means
Some columns of a batch of tokens hold the same value in every row: even the longest row of the
batch ends before them. They come from padding each batch to a fixed length, such as the most that
the model can take.

## Why it costs
Every layer computes these columns as it does the others, forward and backward: with 84 of 128
columns, about two thirds of the work. Attention, which compares each column with each, takes the
square.

## How it is measured
In one step after the traced ones, `stepwhy run` looks at the indices of embeddings, and notes how
many columns at one end hold one value in all rows. Positions, and inputs whose values never differ,
do not count; of several inputs of one shape, the one with the fewest such columns does. Of
features, such as the frames of a recording, the columns at the end count that are zero in all rows,
if lengths or a mask that the step reads say that no row is longer. What `nn.Embedding`, or a module
with features, is called with in the four steps after it counts as well, since lengths differ from
batch to batch: the mean stands for all. The cost is the time of the operations of the traced steps
on tensors that have these columns as a dimension, as far as it falls to the padding. A batch in
which the longest row fills all columns is not padded too far, however short the others are.

The evidence names the operation that makes the padded indices in the step, or what the data set's
`__getitem__` pads with, and lines that give a length the number of columns.

A few batches stand for all, so that the saving is a range.

## Fix
Pad each batch to its own longest row, when it is put together.

## Fix risk
The result is the same where the model ignores the padding, by a mask. Positions that are counted
from the end, or pooling over all columns without a mask, give other results. Programs that are
compiled for one shape compile again for others: pad to a few lengths there.

## When it abstains
Without a step that was looked at: in traces of other profilers, in runs with `torch.compile`, CUDA
graphs, several processes, or subclasses of tensors. Does not apply outside of PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepwhy.analyse.program.semantic_ops import Matched, matched_ops, shares_of, work_ns
from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.not_needed.shared.semantics import without_semantics
from stepwhy.diagnose.shared.measure import by_string, on_scale, times
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.settings import maker_lines
from stepwhy.trace import NULL, Phase

RULE = Rule(
    __name__,
    name="Columns that are padding in every row of a batch",
    found="Pad batches to their longest row: the rest is computed for nothing",
    clear="Little or no time goes into columns that are padding in every row",
    needs=(("device-time",), ("host-ops",), ("steps",)),
    refines="dominant-op",
    least_share=0.05,  # of the step; below it the gain is less than the variation between batches
    # Of the cost. A few batches stand for all, and launching operations takes the same time.
    least_saved=0.6,
    # Of the cost: with less memory, results fit into caches that were too small; measured in the
    # lab.
    most_saved=1.2,
    change="pad to the longest row",
    edit=Edit("ops", "replaced"),
)

_PER_MILLE = 1000
_SHOWN = 3


def diagnose(facts: Facts) -> Finding:
    """Judge the time of operations on columns that are padding in every row."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Padding is recognised only in PyTorch.")
    abstention = without_semantics(RULE, facts)
    if abstention is not None:
        return abstention
    inputs = facts.trace.index_inputs
    padded = np.flatnonzero(inputs.padded > 0)
    if not len(padded):
        return RULE.nothing()
    if (facts.trace.step_ops.padding == NULL).any():
        return RULE.incomplete("semantic-step", "Which operations compute padding was not kept.")
    matched = matched_ops(facts)
    times_ns = _padded_ns(facts, matched)
    cost = on_scale(facts, facts.mean_ns(int(times_ns.sum())))
    evidence = (
        Evidence("share of the step in padding", cost / facts.wall_ns, "fraction"),
        *maker_lines(facts, "padding"),
        *_columns(facts, padded),
        *times(facts, "time for padding in the operation",
               by_string(facts, facts.trace.slices.name[matched.rows], times_ns)[:_SHOWN]),
    )  # fmt: skip
    return RULE.judge(facts, cost, evidence, RULE.fix(), shown=2)


def _padded_ns(facts: Facts, matched: Matched) -> Ints:
    """Time of each matched operation that falls to padding, ns; (matched,)."""
    shares = shares_of(facts, matched, facts.trace.step_ops.padding) / _PER_MILLE
    # Tables of positions have as many rows as there are columns.
    shares[facts.phases[matched.rows] == Phase.OPTIMIZER] = 0
    found: Ints = np.rint(shares * work_ns(facts, matched)).astype(np.int64)
    return found


def _columns(facts: Facts, padded: Ints) -> Iterator[Evidence]:
    """How many columns are padding, by the line that looks them up."""
    inputs, text = facts.trace.index_inputs, facts.trace.string
    for row in padded[np.argsort(-inputs.padded[padded], kind="stable")][:_SHOWN].tolist():
        where = text(int(inputs.line[row])) or text(int(inputs.op[row]))
        columns, count = int(inputs.columns[row]), int(inputs.padded[row])
        side = "first" if inputs.at_start[row] else "last"
        what = f"{side} columns that are the same in all {int(inputs.rows[row]):,} rows"
        yield Evidence(what, count, "count", where)
        yield Evidence("columns of the batch", columns, "count", where)
