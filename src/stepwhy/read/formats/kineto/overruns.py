"""Device work whose recorded end is wrong because it overlaps many later operations.

A stream runs one operation at a time. Only the kernels of one graph launch run concurrently, and a
kernel may begin shortly before its predecessor ends. ROCm's profiler sometimes writes ends that are
seconds late, which makes an idle stream look busy.

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
"""Shorter operations are not checked; wrong ends are late by far more."""

FEWEST: Final = 8
"""Enclosed operations of other launches that prove a wrong end; a few could be annotations."""

_MAX_SEARCHED: Final = 1024
"""Operations after the first of another launch that are compared with a long one.

A late end encloses the very next operations. Without a limit, thousands of overlapping operations
would need a quadratic number of comparisons.
"""


def cut_overruns(blocks: list[Block]) -> int:
    """Cut each operation that encloses many of the following ones where the next begins.

    Args:
        blocks: Columns of slices, as in the schema; `dur_ns` is replaced where needed.

    Returns:
        Number of operations that were cut.
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
    after = np.searchsorted(begins, ends)
    many = np.flatnonzero((dur[order] >= LONG_NS) & (after - np.arange(len(order)) > FEWEST))
    following = _next_other(launch)
    cut = 0
    for at in many.tolist():
        other = int(following[at])
        inside = slice(other, min(int(after[at]), other + _MAX_SEARCHED))
        is_enclosed = (launch[inside] != launch[at]) & (ends[inside] <= ends[at])
        if np.count_nonzero(is_enclosed) >= FEWEST:
            dur[order[at]] = begins[other] - begins[at]
            cut += 1
    if cut:
        _write(dur, blocks, rows)
    return cut


def _next_other(launch: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row of the next operation of another launch, or the number of rows; (rows,)."""
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
