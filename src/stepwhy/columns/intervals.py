"""Sets of time as sorted, disjoint half-open intervals, in integer nanoseconds.

Written by hand because closedness to the nanosecond is the product's promise, and a sweep over
sorted edges in NumPy takes milliseconds for a million slices.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.columns.growing import Growing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Times = NDArray[np.int64]

# Intervals that are looked at at a time: their edges fit into a processor's cache.
_PIECE = 1 << 15
# A set with so many times fewer intervals than another is looked up, not merged with it.
_MUCH_FEWER = 8


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
        """The union of arbitrary intervals; those without length vanish."""
        if _are_apart(starts, ends):
            return cls(starts, ends)
        if any((starts[1:][p] < starts[:-1][p]).any() for p in _parts(len(starts) - 1)):
            order = np.argsort(starts, kind="stable")
            starts, ends = starts[order], ends[order]
        return cls.ascending([(starts, ends)])

    @classmethod
    def ascending(cls, pieces: Iterable[tuple[Times, Times]]) -> Intervals:
        """The union of intervals that come in the order of their starts.

        Args:
            pieces: Starts and ends, ns; (any,) each.
        """
        union = Union()
        for starts, ends in pieces:
            for part in _parts(len(starts)):
                union.add(starts[part], ends[part])
        return union.done()

    @classmethod
    def covered(cls, begins: Times, ends: Times) -> Intervals:
        """The time at which more has begun than has ended; edges in any order, as many of both."""
        edges = np.concatenate([begins, ends])
        order = np.argsort(edges, kind="stable")
        edges = edges[order]
        step = np.where(order < len(begins), np.int8(1), np.int8(-1))
        del order
        depth = np.cumsum(step, dtype=np.int32)
        last = np.append(edges[1:] > edges[:-1], True) if len(edges) else np.empty(0, dtype=bool)
        edges, inside = edges[last], depth[last] > 0
        changed = np.append(True, inside[1:] != inside[:-1]) if len(edges) else inside
        edges, inside = edges[changed], inside[changed]
        return cls(edges[inside], edges[1:][inside[:-1]])

    @classmethod
    def union(cls, sets: Sequence[Intervals]) -> Intervals:
        """The union of several sets."""
        filled = [one for one in sets if len(one)]
        if len(filled) < 2:
            return filled[0] if filled else cls.empty()
        return _in_stretches(filled, _union)

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
        return sum(int((self.ends[p] - self.starts[p]).sum()) for p in _parts(len(self)))

    def __or__(self, other: Intervals) -> Intervals:
        """Union."""
        return Intervals.union((self, other))

    def __and__(self, other: Intervals) -> Intervals:
        """Intersection."""
        if not len(self) or not len(other):
            return Intervals.empty()
        few, many = sorted((self, other), key=len)
        if _MUCH_FEWER * len(few) < len(many):
            return _clipped(many, few)
        return _in_stretches((self, other), lambda sets: _where(sets, lambda a, b: a & b))

    def __sub__(self, other: Intervals) -> Intervals:
        """Difference."""
        if not len(self) or not len(other):
            return self
        return _in_stretches((self, other), lambda sets: _where(sets, lambda a, b: a & ~b))

    def joined_with(self, pieces: Iterable[Intervals]) -> Intervals:
        """The union with sets each of which begins behind the one before it."""
        union, place = Union(), 0
        for piece in pieces:
            if len(piece):
                end = int(np.searchsorted(self.starts, piece.starts[-1], side="right"))
                both = _union((Intervals(self.starts[place:end], self.ends[place:end]), piece))
                union.add(both.starts, both.ends)
                place = end
        for part in _parts(len(self) - place):
            union.add(self.starts[place:][part], self.ends[place:][part])
        return union.done()

    def before(self, times: Times) -> Times:
        """How much of the set lies before each of the given times, ns."""
        return Measure(self).before(times)

    def within(self, starts: Times, ends: Times) -> Times:
        """How much of the set lies in each of the windows [start, end), ns."""
        return Measure(self).within(starts, ends)

    def gaps_up_to(self, longest_ns: int) -> Intervals:
        """The gaps between consecutive intervals that are not longer than this."""
        if len(self.starts) < 2:
            return Intervals.empty()
        starts, ends = self.ends[:-1], self.starts[1:]
        short = np.empty(len(starts), dtype=bool)
        for part in _parts(len(short)):
            short[part] = ends[part] - starts[part] <= longest_ns
        return Intervals(starts[short], ends[short])


class Measure:
    """How much of a set of time lies before any time; made once, it is asked in little time.

    Args:
        one: The set.
    """

    def __init__(self, one: Intervals) -> None:
        self._one = one
        # Length of all intervals before each, and of all, ns; (n + 1,).
        self._complete = np.empty(len(one) + 1, dtype=np.int64)
        self._complete[0] = 0
        for part in _parts(len(one)):
            sums = np.cumsum(one.ends[part] - one.starts[part])
            sums += self._complete[part.start]
            self._complete[part.start + 1 : part.stop + 1] = sums

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
        found = np.empty(len(starts), dtype=np.int64)
        for part in _parts(len(starts)):
            found[part] = self.before(ends[part])
            found[part] -= self.before(starts[part])
        return found

    def common_ns(self, other: Intervals) -> int:
        """How much of another set lies in this one, ns; in time of the other set's size."""
        return int(self.within(other.starts, other.ends).sum())


class Union:
    """Grows by intervals that come in the order of their starts, whether they overlap or not."""

    def __init__(self) -> None:
        self._starts, self._ends = Growing(np.int64), Growing(np.int64)
        self._open = _Open()

    def add(self, starts: Times, ends: Times) -> None:
        """Take in intervals; those without length vanish."""
        self._append(self._open.add(starts, ends))

    def done(self) -> Intervals:
        """The union; nothing can be added to it any more."""
        self._append(self._open.rest())
        return Intervals(self._starts.values(), self._ends.values())

    def _append(self, over: Intervals) -> None:
        self._starts.append(over.starts)
        self._ends.append(over.ends)


class _Open:
    """The last interval of a union of intervals that come in the order of their starts."""

    def __init__(self) -> None:
        self._start = self._end = _NONE

    def add(self, starts: Times, ends: Times) -> Intervals:
        """Those intervals of the union that are over, when some more have come."""
        lasting = ends > starts
        if not lasting.all():
            starts, ends = starts[lasting], ends[lasting]
        if not len(starts):
            return Intervals.empty()
        reach = np.maximum.accumulate(ends)
        first = np.ones(len(starts), dtype=bool)
        if len(self._end):
            first[0] = starts[0] > self._end[0]
            np.maximum(reach, self._end, out=reach)
        first[1:] = starts[1:] > reach[:-1]
        begins = np.flatnonzero(first)
        before = self._end if first[0] else _NONE
        begun = np.concatenate([self._start, starts[begins]])
        over = np.concatenate([before, reach[begins[begins > 0] - 1]])
        self._start, self._end = begun[-1:], reach[-1:]
        return Intervals(begun[:-1], over)

    def rest(self) -> Intervals:
        """The last interval, if there is one."""
        return Intervals(self._start, self._end)


_NONE = np.empty(0, dtype=np.int64)


def gaps_between(pieces: Iterable[tuple[Times, Times]], longest_ns: int) -> Iterator[Intervals]:
    """The gaps in a union of intervals that are not longer than this, piece by piece.

    Args:
        pieces: Starts and ends of intervals, in the order of their starts, ns; (any,) each.
        longest_ns: How long a gap is at most.
    """
    union, end = _Open(), _NONE
    for starts, ends in pieces:
        over = union.add(starts, ends)
        yield _gaps(end, over, longest_ns)
        end = over.ends[-1:] if len(over) else end
    yield _gaps(end, union.rest(), longest_ns)


def _gaps(end: Times, following: Intervals, longest_ns: int) -> Intervals:
    """As `gaps_between`, of a set and the end of the interval before it, if there is one."""
    starts = np.concatenate([end, following.ends[:-1]])
    ends = following.starts if len(end) else following.starts[1:]
    short = ends - starts <= longest_ns
    return Intervals(starts[short], ends[short])


def _parts(count: int) -> Iterator[slice]:
    return (slice(first, min(first + _PIECE, count)) for first in range(0, count, _PIECE))


def _are_apart(starts: Times, ends: Times) -> bool:
    """Whether intervals are a set as they stand."""
    following, before = starts[1:], ends[:-1]
    return all((ends[p] > starts[p]).all() for p in _parts(len(starts))) and all(
        (following[p] > before[p]).all() for p in _parts(len(before))
    )


def _stretches(sets: Sequence[Intervals]) -> Iterator[list[Intervals]]:
    """The parts of sets in consecutive stretches of time, in which they have few intervals."""
    cuts = max(sets, key=len).starts[_PIECE::_PIECE].tolist()
    for begin, end in pairwise([None, *cuts, None]):
        yield [_between(one, begin, end) for one in sets]


def _in_stretches(
    sets: Sequence[Intervals], combine: Callable[[Sequence[Intervals]], Intervals]
) -> Intervals:
    """What sets are combined into, a stretch of time after another."""
    found = (combine(some) for some in _stretches(sets))
    return Intervals.ascending((one.starts, one.ends) for one in found)


def _clipped(many: Intervals, few: Intervals) -> Intervals:
    """The time in both of two sets, of which one has far fewer intervals."""
    found = Growing(np.int64), Growing(np.int64)
    for part in _parts(len(many)):
        starts, ends = many.starts[part], many.ends[part]
        first = np.searchsorted(few.ends, starts, side="right")
        count = np.searchsorted(few.starts, ends) - first
        one = np.repeat(np.arange(len(starts)), count)
        other = first[one] + np.arange(len(one)) - (np.cumsum(count) - count)[one]
        found[0].append(np.maximum(starts[one], few.starts[other]))
        found[1].append(np.minimum(ends[one], few.ends[other]))
    return Intervals(found[0].values(), found[1].values())


def _union(sets: Sequence[Intervals]) -> Intervals:
    return Intervals.of(
        np.concatenate([one.starts for one in sets]), np.concatenate([one.ends for one in sets])
    )


def first_of(sets: Sequence[Intervals]) -> list[Intervals]:
    """Of each set the time that lies in none before it: disjoint sets with the same union.

    Args:
        sets: 1 to 16 sets.
    """
    owned = [Union() for _ in sets[1:]]
    for some in _stretches(sets):
        for one, part in zip(owned, _first_of(some)[1:], strict=True):
            one.add(part.starts, part.ends)
    return [sets[0], *(one.done() for one in owned)]


def _between(one: Intervals, begin: int | None, end: int | None) -> Intervals:
    """The part of a set between two times; None: however early or late."""
    first = 0 if begin is None else int(np.searchsorted(one.ends, begin, side="right"))
    last = len(one) if end is None else int(np.searchsorted(one.starts, end))
    starts, ends = one.starts[first:last], one.ends[first:last]
    return Intervals(
        starts if begin is None else np.maximum(starts, begin),
        ends if end is None else np.minimum(ends, end),
    )


def _first_of(sets: Sequence[Intervals]) -> list[Intervals]:
    """As `first_of`, in one sweep over the edges of all sets, many of which come together."""
    edges = np.concatenate([_edges(one) for one in sets])
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    # Bit i is set where set i has been entered and not left.
    flags = np.repeat(_BITS[: len(sets)], [2 * len(one) for one in sets])
    held = np.bitwise_xor.accumulate(flags[order])
    del order, flags
    last = np.append(edges[1:] > edges[:-1], True) if len(edges) else np.empty(0, dtype=bool)
    edges, owner = edges[last], _lowest_bit(len(sets))[held[last]]
    changed = np.append(True, owner[1:] != owner[:-1]) if len(edges) else last
    edges, owner = edges[changed], owner[changed]
    # At the last edge all sets are left, so that it ends the one before and begins none.
    return [
        Intervals(edges[:-1][mine], edges[1:][mine])
        for mine in (owner[:-1] == number for number in range(len(sets)))
    ]


_BITS = np.left_shift(1, np.arange(16)).astype(np.uint16)


def _edges(one: Intervals) -> Times:
    """Starts and ends in turns, ascending; (2 n,)."""
    return np.stack([one.starts, one.ends], axis=1).reshape(-1)


def _lowest_bit(count: int) -> NDArray[np.int8]:
    """Number of the lowest bit that is set in each number of so many bits, -1 in 0."""
    lowest = np.full(1 << count, -1, dtype=np.int8)
    for bit in range(count):
        lowest[1 << bit :: 2 << bit] = bit
    return lowest


def _where(sets: Sequence[Intervals], keep: Callable[[Mask, Mask], Mask]) -> Intervals:
    """The set of times at which `keep(inside the first, inside the second)` holds."""
    a, b = sets
    edges = np.concatenate([a.starts, a.ends, b.starts, b.ends])
    if len(edges) < 2:
        return Intervals.empty()
    # Four ascending runs, which this sort merges: a hundred times as fast as `np.unique`.
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    # Each set is entered and left in turns. Equal edges have no time between them.
    inside = keep(_entered(order, 0, len(a)), _entered(order, 2 * len(a), len(b)))[:-1]
    return Intervals.of(edges[:-1][inside], edges[1:][inside])


def _entered(order: NDArray[np.int64], first: int, count: int) -> Mask:
    """Whether a set is entered after each edge.

    Args:
        order: Edges in the order of time, by their numbers; (edges,).
        first: Number of the set's first start; its starts come before its ends.
        count: Number of its starts.
    """
    steps = np.zeros(len(order), dtype=np.int8)
    steps[first : first + count] = 1
    steps[first + count : first + 2 * count] = -1
    entered: Mask = np.cumsum(steps[order], dtype=np.int8) > 0
    return entered
