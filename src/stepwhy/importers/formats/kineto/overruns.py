"""Device work whose recorded end is wrong: it lasts over much that ran after it on its stream.

A stream runs one piece of work after another. Only those of one graph launch run side by side, and
a kernel may begin shortly before the one before it ends. ROCm's profiler at times writes ends that
are seconds late, and a stream that idles seems busy.

Source: AMD-AGI/TraceLens, "over-counts kernel wall-time when dur overflows the next same-track
slice"; Perfetto, too, ends such slices where the next one begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.trace import among
from stepwhy.trace.kinds import BUSY_KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Block = dict[str, NDArray[Any]]

LONG_NS: Final = 10_000_000
"""Ends are late by far more; what is shorter is not looked at."""

FEWEST: Final = 8
"""Pieces of other launches that one encloses; a few could be records of another kind."""

_MOST_SEARCHED: Final = 1024
"""Pieces, from the first of another launch on, among which those that one encloses are counted.

One after another runs on a stream, so that a late end encloses the very next ones. Where thousands
overlap, the number of comparisons would otherwise be the square of theirs.
"""


def cut_overruns(blocks: list[Block]) -> int:
    """End device work where the next begins if it encloses much of that; how many were cut.

    Args:
        blocks: Columns of slices, `schema`'s; durations are changed.
    """
    work = [among(block["kind"], BUSY_KINDS) for block in blocks]
    long = [is_work & (b["dur_ns"] >= LONG_NS) for b, is_work in zip(blocks, work, strict=True)]
    tracks = {t for b, rows in zip(blocks, long, strict=True) for t in b["track"][rows].tolist()}
    return sum(_cut_on(track, blocks, work) for track in sorted(tracks))


def _cut_on(track: int, blocks: list[Block], work: list[NDArray[np.bool_]]) -> int:
    rows = [np.flatnonzero(w & (b["track"] == track)) for b, w in zip(blocks, work, strict=True)]
    start, dur, correlation = (
        np.concatenate([b[name][r] for b, r in zip(blocks, rows, strict=True)])
        for name in ("start_ns", "dur_ns", "correlation")
    )
    order = np.argsort(start, kind="stable")
    begins, ends, launch = start[order], (start + dur)[order], correlation[order]
    behind = np.searchsorted(begins, ends)
    many = np.flatnonzero((dur[order] >= LONG_NS) & (behind - np.arange(len(order)) > FEWEST))
    first = _next_other(launch)
    cut = 0
    for at in many.tolist():
        other = int(first[at])
        inside = slice(other, min(int(behind[at]), other + _MOST_SEARCHED))
        is_enclosed = (launch[inside] != launch[at]) & (ends[inside] <= ends[at])
        if np.count_nonzero(is_enclosed) >= FEWEST:
            dur[order[at]] = begins[other] - begins[at]
            cut += 1
    if cut:
        _write(dur, blocks, rows)
    return cut


def _next_other(launch: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row of the first piece of another launch after each, or the number of rows; (rows,)."""
    changes = np.append(np.flatnonzero(launch[1:] != launch[:-1]) + 1, len(launch))
    next_other: NDArray[np.int64] = changes[
        np.searchsorted(changes, np.arange(len(launch)), side="right")
    ]
    return next_other


def _write(dur: NDArray[np.int64], blocks: list[Block], rows: list[NDArray[np.int64]]) -> None:
    done = 0
    for block, own in zip(blocks, rows, strict=True):
        block["dur_ns"] = block["dur_ns"].copy()
        block["dur_ns"][own] = dur[done : done + len(own)]
        done += len(own)
