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
    begins, ends = start[order], (start + dur)[order]
    behind = np.searchsorted(begins, ends)
    many = np.flatnonzero((dur[order] >= LONG_NS) & (behind - np.arange(len(order)) > FEWEST))
    cut = 0
    for at in many.tolist():
        inside = slice(at + 1, int(behind[at]))
        others = np.flatnonzero(correlation[order[inside]] != correlation[order[at]])
        if int((ends[inside][others] <= ends[at]).sum()) >= FEWEST:
            dur[order[at]] = begins[inside][others[0]] - begins[at]
            cut += 1
    if cut:
        _write(dur, blocks, rows)
    return cut


def _write(dur: NDArray[np.int64], blocks: list[Block], rows: list[NDArray[np.int64]]) -> None:
    done = 0
    for block, own in zip(blocks, rows, strict=True):
        block["dur_ns"] = block["dur_ns"].copy()
        block["dur_ns"][own] = dur[done : done + len(own)]
        done += len(own)
