"""Sets of time as sorted, disjoint half-open intervals, in integer nanoseconds.

No library is used: the parts of a step must add up to the nanosecond, and a sweep over sorted edges
in NumPy takes milliseconds for a million slices.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import CHUNK, chunks
from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.memory import give_back_after
from stepwhy.base.columns.null import NULL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts, Times


State = TypeVar("State", bound=np.generic)

_LIMITS = np.iinfo(np.int64)


class Intervals(msgspec.Struct, frozen=True):
    """A set of time.

    Args:
        starts: Starts, ascending, shape (n,), ns.
        ends: Ends, shape (n,), ns; `starts[i] < ends[i] < starts[i + 1]`.
    """

    starts: Times
    ends: Times

    @classmethod
    def empty(cls) -> Intervals:
        """The empty set."""
        none = np.empty(0, dtype=np.int64)
        return cls(none, none)

    @classmethod
    def of(cls, starts: Times, ends: Times) -> Intervals:
        """The union of arbitrary intervals; empty ones are ignored."""
        lasting = ends > starts
        if not lasting.all():
            starts, ends = starts[lasting], ends[lasting]
        if (starts[1:] < starts[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        if (starts[1:] > ends[:-1]).all():
            return cls(starts, ends)
        reach = np.maximum.accumulate(ends)
        last = np.append(starts[1:] > reach[:-1], True)
        return cls(starts[np.append(True, last[:-1])], reach[last])

    @classmethod
    def of_slices(cls, start_ns: AnyInts, dur_ns: AnyInts, rows: AnyInts) -> Intervals:
        """The union of the given slices.

        Args:
            start_ns: Starts, ascending, ns; (slices,).
            dur_ns: Durations, ns; (slices,).
            rows: Rows of the slices to unite; (rows,).
        """
        give_back_after(len(rows))
        if (rows[1:] < rows[:-1]).any():
            rows = np.sort(rows)
        joined, reach = _Joined(), int(_LIMITS.min)
        for chunk in chunks(len(rows)):
            starts = start_ns[rows[chunk]]
            part = cls.of(starts, starts + dur_ns[rows[chunk]]).between(reach, int(_LIMITS.max))
            reach = int(part.ends.max(initial=reach))
            joined.append(part)
        return joined.all()

    @classmethod
    def covered(cls, begins: Times, ends: Times) -> Intervals:
        """The times at which more intervals have begun than have ended.

        Args:
            begins: Starts of intervals, in any order; sorted in place; ns; (edges,).
            ends: Ends of intervals, likewise; (edges,).
        """
        for edges in (begins, ends):
            edges.sort(kind="stable")
        joined = _Joined()
        cuts = [int(_LIMITS.min), *begins[CHUNK::CHUNK].tolist(), int(_LIMITS.max)]
        for window in pairwise(cuts):
            (first, last), (since, until) = (np.searchsorted(x, window) for x in (begins, ends))
            joined.append(
                _covered(begins[first:last], ends[since:until], int(first - since), window)
            )
        return joined.all()

    @classmethod
    def union(cls, sets: Sequence[Intervals]) -> Intervals:
        """The union of several sets."""
        filled = [one for one in sets if len(one)]
        if len(filled) < 2:
            return filled[0] if filled else cls.empty()
        give_back_after(sum(map(len, filled)))
        joined = _Joined()
        for window in _windows(filled):
            starts, ends = (
                np.concatenate([getattr(one, end) for one in window]) for end in ("starts", "ends")
            )
            joined.append(cls.of(starts, ends))
        return joined.all()

    @classmethod
    def single(cls, start: int, end: int) -> Intervals:
        """One interval, or the empty set when it has no length."""
        return cls.of(np.asarray([start], dtype=np.int64), np.asarray([end], dtype=np.int64))

    def __len__(self) -> int:
        """Number of disjoint intervals."""
        return len(self.starts)

    @property
    def total_ns(self) -> int:
        """Length of the whole set, ns."""
        return int((self.ends - self.starts).sum())

    def __or__(self, other: Intervals) -> Intervals:
        """Union."""
        return Intervals.union((self, other))

    def __and__(self, other: Intervals) -> Intervals:
        """Intersection."""
        few, many = sorted((self, other), key=len)
        first = np.searchsorted(many.ends, few.starts, side="right")
        count = np.searchsorted(many.starts, few.ends) - first
        # All overlapping pairs of intervals of the two sets.
        one = np.repeat(np.arange(len(few)), count)
        other_one = np.arange(len(one)) + np.repeat(first - (np.cumsum(count) - count), count)
        return Intervals(
            np.maximum(few.starts[one], many.starts[other_one]),
            np.minimum(few.ends[one], many.ends[other_one]),
        )

    def __sub__(self, other: Intervals) -> Intervals:
        """Difference."""
        if not len(self) or not len(other):
            return self
        starts, ends = np.append(_LIMITS.min, other.ends), np.append(other.starts, _LIMITS.max)
        return self & Intervals(starts, ends)

    def before(self, times: Times) -> Times:
        """How much of the set lies before each of the given times, ns."""
        return Measure(self).before(times)

    def within(self, starts: Times, ends: Times) -> Times:
        """How much of the set lies in each of the windows [start, end), ns."""
        return Measure(self).within(starts, ends)

    def between(self, start: int, end: int) -> Intervals:
        """The part of the set inside a window [start, end)."""
        first = np.searchsorted(self.ends, start, side="right")
        last = np.searchsorted(self.starts, end)
        return Intervals(
            np.maximum(self.starts[first:last], start), np.minimum(self.ends[first:last], end)
        )

    def gaps_up_to(self, longest_ns: int) -> Intervals:
        """The gaps between consecutive intervals that are at most `longest_ns` long."""
        starts, ends = self.ends[:-1], self.starts[1:]
        short = ends - starts <= longest_ns
        return Intervals(starts[short], ends[short])


class Measure:
    """How much of a set of time lies before any time; prepared once, for many queries.

    Args:
        one: The set.
    """

    def __init__(self, one: Intervals) -> None:
        self._one = one
        # Total length of the intervals before each one, and of all, ns; (n + 1,).
        self._complete = np.append(0, np.cumsum(one.ends - one.starts))

    @property
    def total_ns(self) -> int:
        """Length of the set, ns."""
        return int(self._complete[-1])

    def before(self, times: Times) -> Times:
        """How much of the set lies before each of the given times, ns."""
        if not len(self._one):
            return np.zeros(len(times), dtype=np.int64)
        index = np.searchsorted(self._one.starts, times, side="right")
        previous = np.maximum(index - 1, 0)
        overhang = np.maximum(self._one.ends[previous] - times, 0) * (index > 0)
        result: Times = self._complete[index] - overhang
        return result

    def within(self, starts: Times, ends: Times) -> Times:
        """How much of the set lies in each of the windows [start, end), ns."""
        return self.before(ends) - self.before(starts)

    def common_ns(self, other: Intervals) -> int:
        """Length of the intersection with another set, ns; fast if the other set is small."""
        return int(self.within(other.starts, other.ends).sum())


def first_of(sets: Sequence[Intervals]) -> list[Intervals]:
    """Each set without the sets before it in the list: disjoint sets with the same union.

    Args:
        sets: 1 to 16 sets.
    """
    others = [_Joined() for _ in sets[1:]]
    for window in _windows(sets):
        for joined, part in zip(others, _first_of(window)[1:], strict=True):
            joined.append(part)
    give_back_after(sum(map(len, sets)))
    return [sets[0], *(joined.all() for joined in others)]  # nothing comes before the first


def _first_of(sets: Sequence[Intervals]) -> list[Intervals]:
    """Run `first_of` in one sweep over the edges of all sets."""
    edges = np.concatenate([np.stack([one.starts, one.ends], axis=1).ravel() for one in sets])
    if not len(edges):
        return list(sets)
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    # Bit i is set where set i has been entered and not left.
    flags = np.repeat(_BITS[: len(sets)], [2 * len(one) for one in sets])
    count = len(sets)
    # Position of the lowest set bit of every number of so many bits, -1 for 0.
    lowest_bit = np.full(1 << count, -1, dtype=np.int8)
    for bit in range(count):
        lowest_bit[1 << bit :: 2 << bit] = bit
    owner = lowest_bit[np.bitwise_xor.accumulate(flags[order])]
    edges, owner = _changes(edges, owner)
    # All sets are left at the last edge, so no interval begins there.
    owned = (np.flatnonzero(owner[:-1] == number) for number in range(len(sets)))
    return [Intervals(edges[mine], edges[mine + 1]) for mine in owned]


_BITS = np.left_shift(1, np.arange(16)).astype(np.uint16)


def _changes(edges: Times, state: NDArray[State]) -> tuple[Times, NDArray[State]]:
    """The edges at which the state changes; of several edges at one time, the last counts."""
    last = np.append(edges[1:] > edges[:-1], True)
    edges, state = edges[last], state[last]
    changed = np.append(True, state[1:] != state[:-1])
    return edges[changed], state[changed]


def _covered(begins: Times, ends: Times, depth: int, window: tuple[int, int]) -> Intervals:
    """Run `Intervals.covered` in a window at whose start `depth` intervals are open."""
    edges = np.concatenate([begins, ends])
    order = np.argsort(edges, kind="stable")
    step = np.where(order < len(begins), np.int8(1), np.int8(-1))
    is_inside = np.cumsum(step, dtype=np.int32) > -depth
    edges, is_inside = _changes(
        np.concatenate([window[:1], edges[order], window[1:]]),
        np.concatenate([[depth > 0], is_inside, [False]]),
    )
    return Intervals(edges[is_inside], edges[1:][is_inside[:-1]])


# Largest number of sets that are cut into windows, which takes time per window and set.
_MOST_CUT = 16


def _windows(sets: Sequence[Intervals]) -> Iterator[Sequence[Intervals]]:
    """Cut sets at common times, so that each window holds about a chunk of intervals."""
    largest, total = max(sets, key=len), sum(map(len, sets))
    if total <= CHUNK or len(sets) > _MOST_CUT:
        yield sets
        return
    step = max(len(largest) * CHUNK // total, 1)
    cuts = largest.starts[step::step].tolist()
    for window in pairwise([int(_LIMITS.min), *cuts, int(_LIMITS.max)]):
        yield [one.between(*window) for one in sets]


class _Joined:
    """Concatenates consecutive sets, merging intervals that touch where two sets meet."""

    def __init__(self) -> None:
        self._starts, self._ends = Growing(np.int64), Growing(np.int64)
        self._last = Intervals.empty()

    def append(self, part: Intervals) -> None:
        """Append a set that begins where the sets so far end, or later."""
        if not len(part):
            return
        last = self._last
        touches = int(len(last) > 0 and last.ends[-1] == part.starts[0])
        self._ends.append(last.ends[: len(last) - touches])
        self._starts.append(part.starts[touches:])
        self._last = part

    def all(self) -> Intervals:
        """All sets; nothing can be appended afterwards."""
        self._ends.append(self._last.ends)
        return Intervals(self._starts.values(), self._ends.values())


def windows_at(times: Times, starts: Times, ends: Times) -> NDArray[np.int32]:
    """Number of the window [start, end) around each time, NULL outside of all; (times,).

    Args:
        times: In any order, ns; (times,).
        starts: Starts of disjoint windows, ascending, ns; (windows,).
        ends: Ends of the windows, ns; (windows,).
    """
    found = np.full(len(times), NULL, dtype=np.int32)
    for chunk in chunks(len(times) if len(starts) else 0):
        place = np.searchsorted(starts, times[chunk], side="right") - 1
        inside = (place >= 0) & (times[chunk] < ends[place])
        found[chunk][inside] = place[inside]
    return found
