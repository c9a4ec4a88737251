"""Divide a step of the driving thread into operations and the lines of the program between them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepwhy.record.windows.line_file import Row

# Source: torch/csrc/autograd/engine.cpp.
_ENGINE = "autograd::engine::evaluate_function: "
# Operators have a namespace. Without one, or in those of the backward pass, a function only
# surrounds those that it calls, as `analyse.lines.driver_lines` has it.
_NAMESPACE = "::"
_OF_BACKWARD = ("autograd::", "torch::autograd::")


class Event(NamedTuple):
    """An operation or an annotation that the profiler has recorded.

    Args:
        start, end: ns, on the clock of the marks.
        name: Its name.
        is_op: False for an annotation.
    """

    start: int
    end: int
    name: str
    is_op: bool


class Marks(NamedTuple):
    """When the thread came to another line; see `LineClock`.

    Args:
        times: ns, ascending; (marks,).
        places: The line from then on; (marks,).
        depths: Frames of the program from then on; (marks,).
        costs: What noting took of the time from then on until the next, ns; (marks,).
        inside: Number of the module that runs from then on, `NOWHERE` for none; (marks,).
    """

    times: Sequence[int]
    places: Sequence[int]
    depths: Sequence[int]
    costs: Sequence[float]
    inside: Sequence[int]

    def at(self, time: int) -> int:
        """The mark that holds at a time; the first one before it."""
        return max(bisect_right(self.times, time) - 1, 0)


class _Part(NamedTuple):
    """A row, and the mark during which it passes between operations; `_NO_MARK` in one."""

    row: Row
    mark: int


_NO_MARK = -1


class Operations:
    """The operations of a thread that are in no other one, and the calls of the backward engine.

    Args:
        events: What the profiler has recorded of the thread.

    Attributes:
        units: Start, end and name of each operation, in order, without overlap.
        calls: Start and end of each node that the engine evaluates, in order of their starts.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = sorted(events, key=lambda e: (e.start, -e.end, e.is_op))
        parents = list(self._parents())
        self.calls = [(e.start, e.end) for e in self._events if e.name.startswith(_ENGINE)]
        self.units = list(self._units(parents))

    def _parents(self) -> Iterator[int]:
        """Index of the innermost event around each; -1 outermost."""
        opened: list[int] = []
        for number, event in enumerate(self._events):
            while opened and self._events[opened[-1]].end <= event.start:
                opened.pop()
            yield opened[-1] if opened else -1
            opened.append(number)

    def _units(self, parents: Sequence[int]) -> Iterator[tuple[int, int, str]]:
        events = self._events
        callers = {parent for parent, event in zip(parents, events, strict=True) if event.is_op}
        inside = [False] * len(events)  # whether it is in a unit
        end = 0
        for number, (event, parent) in enumerate(zip(events, parents, strict=True)):
            inside[number] = parent >= 0 and inside[parent]
            if not event.is_op or inside[number]:
                continue
            # A call of the engine, a node, or a function of other code.
            if number in callers and not is_unit(event.name):
                continue
            inside[number] = True
            start = max(event.start, end)
            end = max(event.end, start)
            yield start, end, event.name


def is_unit(name: str) -> bool:
    """Whether an operation is of the line that calls it, whatever it calls itself, by its name."""
    return _NAMESPACE in name and not name.startswith(_OF_BACKWARD)


class StepRows:
    """The rows of steps.

    Args:
        operations: The operations of the thread.
        marks: Its lines.
    """

    def __init__(self, operations: Operations, marks: Marks) -> None:
        self._operations, self._marks = operations, marks
        self._call_times, self._call_depths = self._innermost_calls()

    def _innermost_calls(self) -> tuple[list[int], list[int]]:
        """When the innermost call of the engine changes, and how deep the program was at its start.

        The depth is -1 outside of calls.
        """
        times, depths, opened = [], [], [(-1, -1)]
        starts = [
            (start, end, self._marks.depths[self._marks.at(start)])
            for start, end in self._operations.calls
        ]
        for start, end, depth in starts:
            while len(opened) > 1 and opened[-1][0] <= start:
                times.append(opened.pop()[0])
                depths.append(opened[-1][1])
            opened.append((end, depth))
            times.append(start)
            depths.append(depth)
        while len(opened) > 1:
            times.append(opened.pop()[0])
            depths.append(opened[-1][1])
        return times, depths

    def of(self, start: int, end: int) -> list[Row]:
        """Consecutive rows that cover a step; they sum to its time without the cost of the marks.

        Args:
            start: Start of the step, ns on the clock of the marks.
            end: Its end.
        """
        rows: list[_Part] = []
        time = start
        units = self._operations.units
        for begin, stop, name in units[max(bisect_left(units, (start,)) - 1, 0) :]:
            if begin >= end:
                break
            if begin < start and stop <= start:
                continue
            self._add_gap(rows, time, begin)
            place, dur, engine = self._in_unit(max(begin, start), min(stop, end))
            module = self._marks.inside[self._marks.at(max(begin, start))]
            rows.append(_Part((name, place, dur, engine, module), _NO_MARK))
            time = min(stop, end)
        self._add_gap(rows, time, end)
        return _merged(self._without_marks(rows))

    def _without_marks(self, parts: Sequence[_Part]) -> Iterator[Row]:
        """The rows without the cost of the marks, which is between operations."""
        between: Counter[int] = Counter()
        for part in parts:
            between[part.mark] += part.row[2]
        costs = self._marks.costs
        for (op, place, dur, engine, module), mark in parts:
            share = 0.0 if mark == _NO_MARK else min(costs[mark] / between[mark], 1.0)
            yield op, place, round(dur * (1 - share)), engine, module

    def _engine(self, time: int, depth: int) -> int:
        """1 inside a call of the engine, unless that has entered code of the program since."""
        number = bisect_right(self._call_times, time) - 1
        return int(number >= 0 and self._call_depths[number] == depth)

    def _in_unit(self, start: int, end: int) -> tuple[int, int, int]:
        """Place, duration and engine of an operation.

        An operation is of the line that calls it. One that calls code of the program for most of
        its time, such as the backward pass of a function that does no operations, is of the
        longest line of that.
        """
        marks = self._marks
        first = marks.at(start)
        depth = marks.depths[first]
        if marks.at(end) > first:
            deeper: Counter[int] = Counter()
            for number, begin, stop in self._spans(start, end):
                if marks.depths[number] > depth:
                    deeper[marks.places[number]] += stop - begin
            if 2 * deeper.total() > end - start:
                return deeper.most_common(1)[0][0], end - start, 0
        return marks.places[first], end - start, self._engine(start, depth)

    def _spans(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Marks that hold in a period, each with its start and end in that."""
        times = self._marks.times
        number = self._marks.at(start)
        while start < end:
            later = times[number + 1] if number + 1 < len(times) else end
            stop = min(max(later, start), end)
            if stop > start:
                yield number, start, stop
            start, number = stop, number + 1

    def _add_gap(self, rows: list[_Part], start: int, end: int) -> None:
        """Add the time between two operations, by line."""
        for number, begin, stop in self._spans(start, end):
            place, depth = self._marks.places[number], self._marks.depths[number]
            first = bisect_right(self._call_times, begin)
            last = bisect_left(self._call_times, stop)
            cuts = [begin, *self._call_times[first:last], stop]
            for cut, following in pairwise(cuts):
                if following > cut:
                    engine, module = self._engine(cut, depth), self._marks.inside[number]
                    row = None, place, following - cut, engine, module
                    rows.append(_Part(row, number))


def _merged(rows: Iterable[Row]) -> list[Row]:
    """The rows, with one for those of a line and a module between two operations."""
    found: list[Row] = []
    for row in rows:
        op, place, dur, *rest = row
        if found and op is None and found[-1][:2] == (None, place) and [*found[-1][3:]] == rest:
            found[-1] = (None, place, found[-1][2] + dur, *found[-1][3:])
        else:
            found.append(row)
    return found
