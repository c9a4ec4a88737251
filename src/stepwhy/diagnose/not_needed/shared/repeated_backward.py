"""Backward passes of PyTorch that run the operations of an earlier pass again."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Kind, Phase, SampleRole

# Source: `profiler_record_function` in torch/csrc/autograd/engine.cpp.
_NODE = "autograd::engine::evaluate_function: "
_ACCUMULATES = f"{_NODE}torch::autograd::AccumulateGrad"
_BACKWARD = regex(r"torch: (?:\w+\.)?backward")
_MOSTLY = 0.5  # of the steps


class RepeatedBackward(msgspec.Struct, frozen=True):
    """Nodes of the backward pass that run more than once in the steady steps.

    Args:
        rows: The runs after the first one of each node; (rows,).
        passes: How often a node runs, at most.
        line: The line of the program that is most often in a call of `backward`; '' if unknown.
    """

    rows: AnyRows
    passes: int
    line: str


def repeated_backward(facts: Facts) -> RepeatedBackward | None:
    """What later passes of a step run again; None if nodes are not known by their number.

    Each thread counts its forward operations from the start. Where several threads run some, as
    those of data-parallel replicas, or that of a backward pass which computes activations again,
    nodes of different operations have the same number.

    Passes whose gradients are added to those of the pass before count. Gradients that are only
    computed, or that are differentiated again, do not: there each pass may have its own purpose.
    """
    slices = facts.trace.slices
    known = facts.is_steady & (slices.sequence != NULL) & facts.trace.is_kind(Kind.OP)
    nodes = facts.trace.matches(slices.name, lambda name: name.startswith(_NODE))
    rows = np.flatnonzero(known & nodes & (facts.phases == Phase.BACKWARD))
    forward = np.flatnonzero(known & (facts.phases == Phase.FORWARD))
    if not len(rows) or len(np.unique(slices.track[forward])) > 1:
        return None
    rows = rows[np.argsort(slices.start_ns[rows], kind="stable")]
    keys = np.stack([_steps(facts, rows), slices.sequence[rows], slices.name[rows]], axis=1)
    _, first, node, counts = np.unique(
        keys, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    is_again = np.ones(len(rows), dtype=np.bool_)
    is_again[first] = False
    nothing = RepeatedBackward(rows[:0], int(counts.max()), "")
    if not is_again.any() or len(rows_of_kinds(facts.trace, "gradient-use")):
        return nothing
    again, before = rows[is_again], rows[first[node.reshape(-1)[is_again]]]
    if not _adds_up(facts, again, before):
        return nothing
    return RepeatedBackward(np.sort(again), int(counts.max()), _line(facts))


def _steps(facts: Facts, rows: AnyRows) -> AnyRows:
    """The steady step in which each slice starts; (rows,)."""
    starts = facts.steps.starts[facts.steps.steady]
    found: AnyRows = np.searchsorted(starts, facts.trace.slices.start_ns[rows], side="right") - 1
    return found


def _adds_up(facts: Facts, again: AnyRows, before: AnyRows) -> bool:
    """Whether gradients are accumulated between the first two runs of a node, in most steps.

    Args:
        facts: Facts of the run.
        again: Later runs of nodes, by start; (rows,).
        before: The first run of each; (rows,).
    """
    slices, text = facts.trace.slices, facts.trace.strings_where({_ACCUMULATES})
    adding = np.sort(slices.start_ns[np.isin(slices.name, text)])
    _, earliest = np.unique(_steps(facts, again), return_index=True)
    low, high = (
        np.searchsorted(adding, slices.start_ns[each[earliest]]) for each in (before, again)
    )
    return int((high > low).sum()) >= _MOSTLY * facts.steady_count


def _line(facts: Facts) -> str:
    trace, samples = facts.sampled, facts.sampled.samples
    inside = trace.matches(samples.called, lambda called: bool(_BACKWARD.match(called)))
    inside &= (samples.role == SampleRole.DRIVER) & (samples.line != NULL)
    counts: Counter[int] = Counter()
    for row in np.flatnonzero(inside).tolist():
        counts[int(samples.line[row])] += int(samples.count[row])
    return trace.string(counts.most_common(1)[0][0]) if counts else ""
