"""The rank that the others wait for, from the ticks of negotiations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.units import format_count, format_fraction, format_ns
from stepwhy.read.formats.horovod.exchanges import RangeRole
from stepwhy.read.shared.chrome_pairs import whole_groups
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.formats.horovod.exchanges import Ranges


# Fewer negotiations are not representative.
_MIN_NEGOTIATIONS = 10
# With the response cache only the first steps have ticks, which are not representative.
_MIN_WITH_TICKS = 0.5
_CACHED = (
    "Only {known} say which rank becomes ready when: Horovod's response cache hides it. To see who "
    "is late, set HOROVOD_CACHE_CAPACITY=0 for a short run."
)
# A rank that is last in more than half of them is late by itself; below, they take turns.
_MOSTLY = 0.5


class _Negotiations(NamedTuple):
    """Last rank, and its delays after the previous and the first rank, ns; (negotiations,) each."""

    last: Ints
    alone_ns: Ints
    spread_ns: Ints

    def __len__(self) -> int:
        return len(self.last)


def world_size(ranges: Ranges) -> int:
    """Number of ranks, NULL if the ticks do not show all of them."""
    ranks = np.unique(ranges.ranks[ranges.name[ranges.of(RangeRole.TICK)]])
    return len(ranks) if len(ranks) > 1 and ranks[-1] == len(ranks) - 1 else NULL


def notes_on_ranks(ranges: Ranges) -> tuple[str, ...]:
    """Notes for the reader on the order in which ranks become ready."""
    count = len(ranges.of(RangeRole.NEGOTIATION))
    if count < _MIN_NEGOTIATIONS:
        return ()
    negotiations = _negotiations(ranges)
    if len(negotiations) < _MIN_WITH_TICKS * count:
        known = f"{format_count(len(negotiations))} of {format_count(count)} negotiations"
        return (_CACHED.format(known=known),)
    return (_note_on_the_last(negotiations),)


def _note_on_the_last(negotiations: _Negotiations) -> str:
    found, first, counts = np.unique(negotiations.last, return_index=True, return_counts=True)
    best = np.lexsort((first, -counts))[0]
    rank, times = int(found[best]), int(counts[best])
    share = format_fraction(times / len(negotiations))
    of_all = f"in {share} of {format_count(len(negotiations))} negotiations"
    if times <= _MOSTLY * len(negotiations):
        spread = format_ns(_median(negotiations.spread_ns))
        return (
            f"The ranks take turns in being last: rank {rank} most often, {of_all}. From the "
            f"first to the last one it takes a median of {spread}."
        )
    alone = format_ns(_median(negotiations.alone_ns[negotiations.last == rank]))
    return (
        f"Rank {rank} is the last to be ready {of_all}: all others then wait for it alone, for a "
        f"median of {alone}. Look for what that rank does more, or does slower."
    )


def _median(values: Ints) -> float:
    """The middle value, or the mean of the two in the middle."""
    ordered = np.sort(values)
    low, high = int(ordered[(len(ordered) - 1) // 2]), int(ordered[len(ordered) // 2])
    return (low + high) / 2


def _negotiations(ranges: Ranges) -> _Negotiations:
    """Negotiations with ticks of several ranks, grouped by tensor."""
    of_ranks = (ranges.role == RangeRole.NEGOTIATION) | (ranges.role == RangeRole.TICK)
    some = np.flatnonzero(of_ranks).astype(np.int32)
    some = some[np.argsort(ranges.row[some], kind="stable")]
    parts = [_select(ranges, some[low:high]) for low, high in whole_groups(ranges.row[some])]
    return _Negotiations(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _select(ranges: Ranges, some: NDArray[np.int32]) -> _Negotiations:
    """Negotiations of some tensors.

    A tick belongs to the first negotiation that ends after it, if that has begun before it.

    Args:
        ranges: All ranges.
        some: Negotiations and ticks of these tensors, by tensor and time.
    """
    is_tick = ranges.role[some] == RangeRole.TICK
    ticks, negotiations = some[is_tick], some[~is_tick]
    time_ns = ranges.start_ns[ticks]
    rank = ranges.ranks[ranges.name[ticks]].astype(np.int64)
    # Times as ranks, so that tensor and time are one number.
    times = np.unique(time_ns)
    tensors = ranges.row.astype(np.int64)
    step = len(times) + 1
    keys = tensors[ticks] * step + np.searchsorted(times, time_ns)
    begins = tensors[negotiations] * step + np.searchsorted(times, ranges.start_ns[negotiations])
    ends = tensors[negotiations] * step + np.searchsorted(
        times, ranges.end_ns[negotiations], side="right"
    )
    low, high = np.searchsorted(keys, begins), np.searchsorted(keys, ends)
    used = np.maximum.accumulate(np.append(0, high))[:-1]
    low = np.maximum(low, used)
    is_known = high - low > 1
    first, last = low[is_known], high[is_known] - 1
    return _Negotiations(
        rank[last], time_ns[last] - time_ns[last - 1], time_ns[last] - time_ns[first]
    )
