"""Finds the start and end of each traced run of the graph in a tfprof profile.

A profile groups runs by the step number that the program passed to it. Several runs can have the
same number, because TensorFlow accepts a number twice.

Source: `Profiler.add_step` of `model_analyzer.py`; `ExecStep` of `tfprof_node.cc`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.groups import rows_by_group
from stepwhy.read.shared.tensorflow.rows import RowKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from stepwhy.read.shared.tensorflow.entries import Entries


class Span(NamedTuple):
    """One run of the graph, from the start of its first op to the end of its last, ns."""

    start_ns: int
    end_ns: int
    name: str


def step_spans(
    entries: Entries, steps: NDArray[np.signedinteger[Any]], numbers: Collection[int]
) -> list[Span]:
    """The traced runs of the graph in order of time; none if two of them overlap.

    Args:
        entries: The runs of all ops.
        steps: Index into `numbers` of each entry's step; (entries,).
        numbers: The step numbers.
    """
    parts = rows_by_group(steps, len(numbers))[1]
    is_op = entries.is_kind(RowKind.OPS)
    spans = sorted(
        span
        for step, members in zip(numbers, parts, strict=True)
        for span in _spans(step, entries, members, take(is_op, members))
    )
    overlap = any(later.start_ns < earlier.end_ns for earlier, later in pairwise(spans))
    return [] if overlap else spans


def _spans(
    step: int, entries: Entries, members: NDArray[np.int32], is_op: NDArray[np.bool_]
) -> Iterator[Span]:
    """The runs with the same step number: as many as the op that ran least often.

    Only ops in a loop run more than once in a run of the graph, and the last op is not in a loop.
    """
    start_ns = take(entries["start_ns"], members)
    end_ns = start_ns + take(entries["dur_ns"], members)
    begins = _begins(take(entries["node"], members[is_op]), start_ns[is_op])
    part = np.maximum(np.searchsorted(begins, start_ns, side="right") - 1, 0)
    # Damaged times may be equal, so that the first of two runs is empty.
    order = np.argsort(part, kind="stable")
    runs, first = np.unique(part[order], return_index=True)
    starts = np.minimum.reduceat(start_ns[order], first).tolist()
    ends = np.maximum.reduceat(end_ns[order], first).tolist()
    for run, start, end in zip(runs.tolist(), starts, ends, strict=True):
        name = f"step {step}" if len(begins) == 1 else f"step {step}, run {run + 1}"
        yield Span(start, end, name)


def _begins(
    nodes: NDArray[np.signedinteger[Any]], start_ns: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Start of each run; (runs,).

    Args:
        nodes: Node of every op that ran; (ops,).
        start_ns: Start of every op; (ops,).
    """
    if not len(nodes):
        return np.zeros(1, dtype=np.int64)
    order = np.lexsort((start_ns, nodes))
    _, counts = np.unique(nodes, return_counts=True)
    alike = np.repeat(counts == counts.min(), counts)
    starts: NDArray[np.int64] = start_ns[order][alike].reshape(-1, counts.min()).min(axis=0)
    return starts
