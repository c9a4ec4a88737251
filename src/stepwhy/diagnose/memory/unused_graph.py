"""Layers run with gradients enabled, and no backward pass uses that.

## What it means
Autograd records each operation whose inputs need gradients, so that a backward pass can follow.
An evaluation, a metric or a target network inside of the step needs no backward pass, but is
recorded as well unless it runs under `no_grad`.

## Why it costs
What the layers have computed stays in memory as long as a result of them does. Recording takes a
microsecond per operation, which hardly matters: this finding is about memory, and states no time.

## How it is measured
Each operation that is recorded makes a node with a number, and the profiler shows which nodes run
in a backward pass. Layers whose node has not run by the end of the last recorded backward pass are
unused. Later steps may still use what the last ones have recorded, so the step of that pass and
those after it do not count, and neither does what half of the steps or fewer have. Operations
without such a number do not count: those under `no_grad`, of frozen layers or of inputs. Nor do
operations inside a backward pass, which layers that run again have.

It is found if unused layers take `SHARE` of the forward pass, or more. It has no cost, and comes
after all findings that have one.

## Fix
Run what is not trained under `torch.no_grad()` or `torch.inference_mode()`.

## Fix risk
None, unless the program calls `backward()` on these results in steps that were not recorded.

## When it abstains
Outside of PyTorch, if operations or their numbers are not recorded, if parts of the program are
compiled, since compilation records layers that do not run, and if the record has fewer than
`FEWEST_STEPS` steps before its last backward pass. How much memory it is, the record does not show.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.nesting import outermost
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.backward_nodes import is_node, is_operation
from stepwhy.diagnose.shared.program import is_compiled, is_pytorch
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule
from stepwhy.trace import NULL, Phase

RULE = Rule(
    __name__,
    name="Layers recorded for a backward pass that never comes",
    found="Run layers that need no backward pass under no_grad, to save memory",
    clear="What the forward pass records, a backward pass uses",
    needs=(("host-ops",), ("steps",)),
    is_deliberate=True,
)

SHARE = 0.1  # of the forward pass; a branch of a layer whose output is not used is smaller
FEWEST_STEPS = 2  # with one, it may be what happens once in many steps
_EVERY = 0.5  # of the steps, at least
_APART = 2.0  # times the median step, from the start of one to that of the next
_SHOWN = 3

# They keep their inputs for the backward pass; what is computed from their results is small.
_LAYER = regex(
    r"aten::(?:linear|addmm|mm|matmul|bmm|baddbmm|convolution|conv\d|einsum|lstm|gru|layer_norm"
    r"|native_layer_norm|batch_norm|native_batch_norm|group_norm|embedding"
    r"|scaled_dot_product_attention)\w*"
)


class _Layers(msgspec.Struct, frozen=True):
    """Recorded layers of the forward pass, before the last backward pass.

    Args:
        rows: The layers; (layers,).
        unused: Whether no backward pass runs their node; (layers,).
        step: Step of each; (layers,).
    """

    rows: AnyRows
    unused: Mask
    step: AnyRows


def diagnose(facts: Facts) -> Finding:
    """Judge layers of the forward pass whose nodes never run."""
    if not is_pytorch(facts):
        return RULE.not_applicable("Operations are recorded in enough detail only in PyTorch.")
    nodes = np.flatnonzero(is_node(facts) & (facts.trace.slices.sequence != NULL))
    if not len(nodes):
        return RULE.no_data("backward-ops", "No operation of a backward pass is recorded.")
    if is_compiled(facts):
        return RULE.incomplete("backward-ops", "Compilation records layers that it does not run.")
    layers = _layers(facts, nodes)
    if len(distinct(layers.step)) < FEWEST_STEPS:
        return RULE.incomplete("enough-steps", "Too few steps precede the last backward pass.")
    time = facts.trace.slices.dur_ns[layers.rows]
    share = float(time[layers.unused].sum() / max(time.sum(), 1))
    steps = len(distinct(layers.step))
    of_steps = len(distinct(layers.step[layers.unused])) / steps
    evidence = (
        Evidence("share of the layers' forward time that no backward pass uses", share, "fraction"),
        Evidence("layers recorded for nothing per step", int(layers.unused.sum()) / steps, "count"),
        Evidence("layers recorded per step", len(layers.rows) / steps, "count"),
        Evidence("steps with such layers", of_steps, "fraction"),
    )
    if share < SHARE or of_steps <= _EVERY:
        return RULE.nothing(evidence[:1])
    return RULE.finding(None, (*evidence, *_lines(facts, layers, steps)), RULE.fix())


def _layers(facts: Facts, nodes: AnyRows) -> _Layers:
    """Outermost layers with a number in whole steps before the last backward pass."""
    slices, steps = facts.trace.slices, facts.steps
    found = is_operation(facts) & (slices.sequence != NULL) & ~is_node(facts)
    found &= facts.phases != Phase.BACKWARD
    found[found] = facts.trace.matches(slices.name[found], _LAYER.fullmatch)
    rows = outermost(facts.nesting, np.flatnonzero(found))
    at = np.searchsorted(steps.starts, slices.start_ns[rows], side="right") - 1
    kept = (at >= 0) & (at < _last_backward(facts, nodes)[at])
    rows, at = rows[kept], at[kept]
    number, following = slices.sequence[rows], _following(facts, rows)
    ran = distinct(slices.sequence[nodes])
    used = np.searchsorted(ran, following) > np.searchsorted(ran, number)
    makes_nodes = following > number
    return _Layers(rows[makes_nodes], ~used[makes_nodes], at[makes_nodes])


def _last_backward(facts: Facts, nodes: AnyRows) -> AnyRows:
    """The last step with a backward pass that is recorded together with each step; (steps,)."""
    starts, ends = facts.steps.starts, facts.steps.ends
    # Between two windows of the profiler, steps are not recorded.
    is_apart = np.diff(starts) > _APART * np.median(ends - starts)
    window = np.append(0, np.cumsum(is_apart))
    at = np.searchsorted(starts, facts.trace.slices.start_ns[nodes], side="right") - 1
    last = np.full(window[-1] + 1, NULL, dtype=np.int64)
    np.maximum.at(last, window[at[at >= 0]], at[at >= 0])
    found: AnyRows = last[window]
    return found


def _following(facts: Facts, rows: AnyRows) -> Ints:
    """Number of the next node that can be made after each operation, NULL if unknown; (rows,).

    An operation shows the number that the next node gets, whether it makes one or not. So what an
    operation has made lies between its own number and that of the next operation of its thread.
    """
    slices, found = facts.trace.slices, np.full(len(rows), NULL, dtype=np.int64)
    shown = is_operation(facts) & (slices.sequence != NULL)
    shown &= ~is_node(facts) & (facts.phases != Phase.BACKWARD)
    for track in distinct(slices.track[rows]).tolist():
        own = np.flatnonzero(slices.track[rows] == track)
        others = np.flatnonzero(shown & (slices.track == track))
        after = np.searchsorted(slices.start_ns[others], facts.trace.ends(rows[own]))
        found[own] = np.append(slices.sequence[others], NULL)[after]
    return found


def _lines(facts: Facts, layers: _Layers, steps: int) -> Iterator[Evidence]:
    """The lines that run most of the unused layers."""
    lines = facts.derived(slice_lines)[layers.rows[layers.unused]]
    strings, counts = np.unique(lines[lines != NULL], return_counts=True)
    longest = sorted(zip((-counts).tolist(), strings.tolist(), strict=True))[:_SHOWN]
    for count, line in longest:
        yield Evidence("layers of them at", -count / steps, "count", facts.trace.string(line))
