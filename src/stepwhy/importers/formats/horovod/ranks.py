"""Which rank the others wait for, from the ticks of the negotiations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.importers.formats.horovod.exchanges import Role as Of
from stepwhy.importers.shared.chrome_pairs import whole_groups
from stepwhy.trace import NULL
from stepwhy.units import format_count, format_fraction, format_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.formats.horovod.exchanges import Pieces

    Ints = NDArray[np.int64]

# Fewer negotiations than this do not show what is usual.
_FEWEST_NEGOTIATIONS = 10
# The response cache leaves ticks to the first steps, which say nothing about the later ones.
_FEWEST_WITH_TICKS = 0.5
_CACHED = (
    "Only {known} say which rank becomes ready when: Horovod's response cache hides it. To see who "
    "is late, set HOROVOD_CACHE_CAPACITY=0 for a short run."
)
# A rank that is last in more than half of them is late by itself; below, they take turns.
_MOSTLY = 0.5


class _Negotiations(NamedTuple):
    """Who came last, how long after the one before, and how long after the first, ns."""

    last: Ints
    alone_ns: Ints
    spread_ns: Ints

    def __len__(self) -> int:
        return len(self.last)


def world_size(pieces: Pieces) -> int:
    """Number of ranks, NULL where the ticks do not show all of them."""
    ranks = np.unique(pieces.ranks[pieces.name[pieces.of(Of.TICK)]])
    return len(ranks) if len(ranks) > 1 and ranks[-1] == len(ranks) - 1 else NULL


def notes_on_ranks(pieces: Pieces) -> tuple[str, ...]:
    """What the reader has to know about the order in which ranks become ready."""
    count = len(pieces.of(Of.NEGOTIATION))
    if count < _FEWEST_NEGOTIATIONS:
        return ()
    negotiations = _negotiations(pieces)
    if len(negotiations) < _FEWEST_WITH_TICKS * count:
        known = f"{format_count(len(negotiations))} of {format_count(count)} negotiations"
        return (_CACHED.format(known=known),)
    return (_note_on_the_last(negotiations),)


def _note_on_the_last(negotiations: _Negotiations) -> str:
    rank, times = _most_common(negotiations.last)
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


def _most_common(values: Ints) -> tuple[int, int]:
    """The value that occurs most often, of several the first, and how often."""
    found, first, counts = np.unique(values, return_index=True, return_counts=True)
    best = np.lexsort((first, -counts))[0]
    return int(found[best]), int(counts[best])


def _median(values: Ints) -> float:
    """The middle value, or the mean of the two in the middle."""
    ordered = np.sort(values)
    low, high = int(ordered[(len(ordered) - 1) // 2]), int(ordered[len(ordered) // 2])
    return (low + high) / 2


def _negotiations(pieces: Pieces) -> _Negotiations:
    """The negotiations in which several ranks have reported, tensor by tensor."""
    of_ranks = (pieces.role == Of.NEGOTIATION) | (pieces.role == Of.TICK)
    some = np.flatnonzero(of_ranks).astype(np.int32)
    some = some[np.argsort(pieces.row[some], kind="stable")]
    parts = [_of_some(pieces, some[low:high]) for low, high in whole_groups(pieces.row[some])]
    return _Negotiations(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _of_some(pieces: Pieces, some: NDArray[np.int32]) -> _Negotiations:
    """The same of some tensors.

    A tick belongs to the first negotiation that ends after it, if that has begun before it.

    Args:
        pieces: All ranges.
        some: Negotiations and ticks of these tensors, by tensor and time.
    """
    is_tick = pieces.role[some] == Of.TICK
    ticks, asked = some[is_tick], some[~is_tick]
    time_ns = pieces.start_ns[ticks]
    rank = pieces.ranks[pieces.name[ticks]].astype(np.int64)
    # Times as ranks, so that tensor and time are one number.
    times = np.unique(time_ns)
    tensors = pieces.row.astype(np.int64)
    step = len(times) + 1
    keys = tensors[ticks] * step + np.searchsorted(times, time_ns)
    begins = tensors[asked] * step + np.searchsorted(times, pieces.start_ns[asked])
    ends = tensors[asked] * step + np.searchsorted(times, pieces.end_ns[asked], side="right")
    low, high = np.searchsorted(keys, begins), np.searchsorted(keys, ends)
    taken = np.maximum.accumulate(np.append(0, high))[:-1]
    low = np.maximum(low, taken)
    told = high - low > 1
    first, last = low[told], high[told] - 1
    return _Negotiations(
        rank[last], time_ns[last] - time_ns[last - 1], time_ns[last] - time_ns[first]
    )


__all__ = ["notes_on_ranks", "world_size"]
