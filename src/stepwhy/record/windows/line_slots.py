"""The lines of a step, with a bound on how many rows describe it."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What the clock adds to a call, and to a change of the line: as much as the shortest lines take, of
# which a loop runs many; 0.25 µs where there are few.
_LEAST_MARKS = 20
_SHORTEST = 10  # of these lines, one in so many
_USUAL_NS, _MOST_NS = 250, 1_000
# A loop of the program visits its lines thousands of times per step. Visits within this part of a
# step are summed by line, so that the file stays small.
_SLOTS = 200
# Of a line that is visited so often, and usually for so short a time, a much longer visit is an
# interruption, which the marks make likelier than it is without them.
_OFTEN = 100
_SHORT_NS = 2_000
_INTERRUPTED = 10


class Slot(NamedTuple):
    """Time at one line.

    Args:
        place: The line, as `LineClock` numbers them.
        time_ns: How long the thread was there.
        calls: Number of calls and of changes of the line in that time.
    """

    place: int
    time_ns: int
    calls: int


class Marks(NamedTuple):
    """When a thread came to another line; see `LineClock`.

    Args:
        times: ns, ascending; (marks,).
        places: The line from then on; (marks,).
        calls: Number of calls of other code until then; (marks,).
    """

    times: Sequence[int]
    places: Sequence[int]
    calls: Sequence[int]

    def each_ns(self) -> int:
        """What the clock adds to a call, and to a change of the line."""
        pairs = zip(pairwise(self.times), pairwise(self.calls), strict=True)
        spans = sorted(end - start for (start, end), (before, after) in pairs if before == after)
        if len(spans) < _LEAST_MARKS:
            return _USUAL_NS
        return min(spans[len(spans) // _SHORTEST], _MOST_NS)

    def longest_ns(self) -> dict[int, int]:
        """How long a visit of some lines takes at most, without an interruption."""
        spans: dict[int, list[int]] = {}
        for number, (start, end) in enumerate(pairwise(self.times)):
            spans.setdefault(self.places[number], []).append(end - start)
        usual = {place: median(each) for place, each in spans.items() if len(each) >= _OFTEN}
        return {place: int(_INTERRUPTED * ns) for place, ns in usual.items() if ns <= _SHORT_NS}

    def visits(self, start: int, end: int) -> Iterator[Slot]:
        """The visits of lines in a period, in order."""
        first = max(bisect_right(self.times, start) - 1, 0)
        for number in range(first, len(self.times)):
            begin = max(self.times[number], start)
            if begin >= end:
                return
            is_last = number + 1 == len(self.times)
            stop = end if is_last else min(self.times[number + 1], end)
            calls = 0 if is_last else self.calls[number + 1] - self.calls[number]
            yield Slot(self.places[number], stop - begin, calls + 1)


def slots(marks: Marks, start: int, end: int) -> list[Slot]:
    """The time of a period by line, in the order of the visits.

    Args:
        marks: The lines.
        start: Start of the period, ns.
        end: Its end.
    """
    found: list[Slot] = []
    current: dict[int, Slot] = {}
    spent, most, longest = 0, (end - start) // _SLOTS, marks.longest_ns()
    for place, time_ns, calls in marks.visits(start, end):
        before = current.get(place, Slot(place, 0, 0))
        own_ns = min(time_ns, longest.get(place, time_ns))
        current[place] = Slot(place, before.time_ns + own_ns, before.calls + calls)
        spent += time_ns
        if spent > most:
            found += current.values()
            current, spent = {}, 0
    return found + list(current.values())
