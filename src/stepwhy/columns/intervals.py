"""Sets of time as sorted, disjoint half-open intervals, in integer nanoseconds.

Written by hand because closedness to the nanosecond is the product's promise, and a sweep over
sorted edges in NumPy takes milliseconds for a million slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Times = NDArray[np.int64]

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
        """The union of arbitrary intervals; those without length vanish."""
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
    def covered(cls, begins: Times, ends: Times) -> Intervals:
        """The time at which more has begun than has ended; edges in any order, as many of both."""
        if not len(begins):
            return cls.empty()
        edges = np.concatenate([begins, ends])
        order = np.argsort(edges, kind="stable")
        edges = edges[order]
        step = np.where(order < len(begins), np.int8(1), np.int8(-1))
        is_inside = np.cumsum(step, dtype=np.int32) > 0
        edges, is_inside = _changes(edges, is_inside)
        return cls(edges[is_inside], edges[1:][is_inside[:-1]])

    @classmethod
    def union(cls, sets: Sequence[Intervals]) -> Intervals:
        """The union of several sets."""
        filled = [one for one in sets if len(one)]
        if len(filled) < 2:
            return filled[0] if filled else cls.empty()
        return cls.of(
            np.concatenate([one.starts for one in filled]),
            np.concatenate([one.ends for one in filled]),
        )

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
        # Each of the few with each of the many that it meets.
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

    def gaps_up_to(self, longest_ns: int) -> Intervals:
        """The gaps between consecutive intervals that are not longer than this."""
        starts, ends = self.ends[:-1], self.starts[1:]
        short = ends - starts <= longest_ns
        return Intervals(starts[short], ends[short])


class Measure:
    """How much of a set of time lies before any time; prepared once, for many questions.

    Args:
        one: The set.
    """

    def __init__(self, one: Intervals) -> None:
        self._one = one
        # Length of all intervals before each, and of all, ns; (n + 1,).
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
        """How much of another set lies in this one, ns; in time of the other set's size."""
        return int(self.within(other.starts, other.ends).sum())


def first_of(sets: Sequence[Intervals]) -> list[Intervals]:
    """Of each set the time that lies in none before it: disjoint sets with the same union.

    One sweep over the edges of all sets, many of which come together.

    Args:
        sets: 1 to 16 sets.
    """
    edges = np.concatenate([np.stack([one.starts, one.ends], axis=1).ravel() for one in sets])
    if not len(edges):
        return list(sets)
    order = np.argsort(edges, kind="stable")
    edges = edges[order]
    # Bit i is set where set i has been entered and not left.
    flags = np.repeat(_BITS[: len(sets)], [2 * len(one) for one in sets])
    owner = _lowest_bit(len(sets))[np.bitwise_xor.accumulate(flags[order])]
    edges, owner = _changes(edges, owner)
    # At the last edge all sets are left, so that it ends the one before and begins none.
    owned = (np.flatnonzero(owner[:-1] == number) for number in range(len(sets)))
    return [Intervals(edges[mine], edges[mine + 1]) for mine in owned]


_BITS = np.left_shift(1, np.arange(16)).astype(np.uint16)


def _lowest_bit(count: int) -> NDArray[np.int8]:
    """Number of the lowest bit that is set in each number of so many bits, -1 in 0."""
    lowest = np.full(1 << count, -1, dtype=np.int8)
    for bit in range(count):
        lowest[1 << bit :: 2 << bit] = bit
    return lowest


def _changes(edges: Times, state: NDArray[State]) -> tuple[Times, NDArray[State]]:
    """The edges after which the state is another one; of edges at one time, the last counts."""
    last = np.append(edges[1:] > edges[:-1], True)
    edges, state = edges[last], state[last]
    changed = np.append(True, state[1:] != state[:-1])
    return edges[changed], state[changed]


__all__ = ["Intervals", "Measure", "first_of"]
