"""Facts about the run of a MegaScan file, and notes on its limits."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stepwhy.base.units import format_fraction, format_ns
from stepwhy.read.formats.megascan.iterations import guesses_gaps
from stepwhy.trace import NULL, Meta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.read.formats.megascan.iterations import Iteration
    from stepwhy.read.formats.megascan.ranges import Ranges

FORMAT = "megascan"

_WHOLE_PASSES = (
    "MegaScan times whole passes on the GPU: it does not record which kernels run in them, or "
    "whether the GPU idles inside of them."
)
_GAPS = (
    "Exchanges between pipeline stages were not recorded: the time between the passes of a stage "
    "counts as exchange and as wait for other stages. A host that launches too late would look the "
    "same."
)
_SEVERAL_RUNS = (
    "this file overlays two runs of the same ranks, for comparison by eye. Use the file of one run"
)
_CUT = "The trace file is truncated: later events are missing."


def meta_of_rank(rank: int, ranges: Ranges, *, complete: bool) -> Meta:
    """Facts about the one rank of a raw file.

    Args:
        rank: Its rank, NULL if not recorded.
        ranges: Its ranges.
        complete: Whether the file is complete.
    """
    return _meta(ranges, [], rank=rank, signals=("passes",), complete=complete)


def meta_of_ranks(
    ranges: Ranges,
    iterations: Sequence[Iteration],
    *,
    several_runs: bool,
    complete: bool,
) -> Meta:
    """Facts about a file of several ranks.

    Args:
        ranges: Ranges of all ranks.
        iterations: Iterations of all ranks, if their ends had to be guessed.
        several_runs: Whether the file overlays two runs.
        complete: Whether the file is complete.
    """
    notes = [_idle(ranges), _describe_gaps(iterations)]
    meta = _meta(ranges, notes, rank=NULL, signals=("passes", "ranks"), complete=complete)
    return replace(meta, limit=_SEVERAL_RUNS if several_runs else "")


def _meta(
    ranges: Ranges,
    notes: Sequence[str],
    *,
    rank: int,
    signals: tuple[str, ...],
    complete: bool,
) -> Meta:
    gaps = _GAPS if guesses_gaps(ranges) else ""
    texts = (*notes, _WHOLE_PASSES, gaps, "" if complete else _CUT)
    # The pipeline stage of each rank that has one.
    rows = np.flatnonzero((ranges.stage != NULL) & (ranges.rank != NULL))
    ranks, firsts = np.unique(ranges.rank[rows], return_index=True)
    stages = tuple(zip(ranks.tolist(), ranges.stage[rows[firsts]].tolist(), strict=True))
    return Meta(
        format=FORMAT,
        framework="pytorch",
        rank=rank,
        stages=stages,
        signals=frozenset(signals),
        device_expected=True,
        notes=tuple(note for note in texts if note),
    )


def _idle(ranges: Ranges) -> str:
    """One sentence on the idle time of the ranks, outside of all ranges."""
    span = int(ranges.end_ns.max() - ranges.start_ns.min())
    idle = {rank: 1 - busy / span for rank, busy in _busy(ranges).items()} if span else {}
    if len(idle) < 2:
        return ""
    least, most = min(idle, key=lambda r: idle[r]), max(idle, key=lambda r: idle[r])
    return (
        f"Rank {least} has the most work: it is idle for {format_fraction(idle[least])} of the "
        f"recorded time, rank {most} for {format_fraction(idle[most])}."
    )


def _busy(ranges: Ranges) -> dict[int, int]:
    """Time covered by the ranges of each rank, ns, in the order of their first ranges."""
    order = np.lexsort((ranges.start_ns, ranges.rank))
    cuts = np.flatnonzero(np.diff(ranges.rank[order])) + 1
    groups = sorted(
        np.split(order, cuts), key=lambda rows: (int(ranges.start_ns[rows[0]]), int(rows[0]))
    )
    return {int(ranges.rank[rows[0]]): _covered(ranges, rows) for rows in groups}


def _covered(ranges: Ranges, rows: NDArray[np.int64]) -> int:
    """Time covered by any of the ranges, which are ordered by start, ns."""
    starts, ends = ranges.start_ns[rows], ranges.end_ns[rows]
    reached = np.maximum.accumulate(ends)
    starts[1:] = np.maximum(starts[1:], reached[:-1])
    return int(np.maximum(ends - starts, 0).sum())


def _describe_gaps(iterations: Sequence[Iteration]) -> str:
    """One sentence on the time between iterations; '' if there is none."""
    windows = sorted({(i.start_ns, i.end_ns) for i in iterations})
    if len(windows) < 2:
        return ""
    gaps = sorted(after[0] - before[1] for before, after in pairwise(windows))
    middle = gaps[len(gaps) // 2]
    if middle <= 0:
        return ""
    return (
        "The file does not record the ends of iterations: a step lasts from its first range to its "
        f"last on any rank. The time until the next one begins, {format_ns(middle)} in the median, "
        "is in no step; gradients and weights are updated there."
    )
