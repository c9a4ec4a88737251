"""Where the threads of a program were, and when, from a record with times.

Source: py-spy's `record --format chrometrace`: an array of events that begin ("B") and end ("E")
frames, outermost first, with times in microseconds since the record began. With `--threads`, a
frame without a file, 'thread (ID)', encloses those of each thread. Forks share a thread id with
their parent, so this is used for single processes only.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from stepwhy.record.core.user_code import UserFiles

    Event = dict[str, Any]

# Lines of a stack, from the outermost, that say where a step is.
_DEEPEST = 12
_DAMAGED = (ValueError, KeyError, TypeError, IndexError)
_THREAD = re.compile(r"thread \((\d+)\)")


class Visit(NamedTuple):
    """A time in which the main thread stayed at the same lines of the program.

    Args:
        start_us, end_us: When, in microseconds since the record began.
        lines: The lines of the program on the stack, outermost first; () in other code.
    """

    start_us: int
    end_us: int
    lines: tuple[str, ...]


def driver_path(record: bytes, pid: int, files: UserFiles) -> list[Visit]:
    """The visits of the main thread in order; [] for a damaged record.

    Args:
        record: What py-spy has written.
        pid: The process; its main thread has the same id.
        files: Identifies the program's files.
    """
    try:
        threads = _threads(record)
        own = [part for events in threads for part in _parts(events, pid, files)]
    except _DAMAGED:
        return []
    groups = ((lines, list(group)) for lines, group in groupby(own, lambda visit: visit.lines))
    return [Visit(group[0].start_us, group[-1].end_us, lines) for lines, group in groups]


def counted(record: bytes, interval_us: float, within_us: tuple[float, float] | None = None) -> str:
    """The record as `record --format raw` writes it, with counts that follow from the times.

    Args:
        record: What py-spy has written.
        interval_us: Time between two samples, in microseconds.
        within_us: Start and end of the part that counts, in microseconds since the record began;
            None for all of it.

    Returns:
        One line per distinct stack, with its count; '' for a damaged record.
    """
    times_us: Counter[str] = Counter()
    first_us, last_us = within_us or (0.0, math.inf)
    try:
        for events in _threads(record):
            for start_us, end_us, stack in _stacks(events):
                inside_us = round(min(end_us, last_us) - max(start_us, first_us))
                if inside_us > 0:
                    times_us[";".join(map(_frame, stack))] += inside_us
    except _DAMAGED:
        return ""
    counts = ((stack, round(time_us / interval_us)) for stack, time_us in times_us.items())
    return "".join(f"{stack} {count}\n" for stack, count in counts if count)


def _frame(event: Event) -> str:
    """A frame as in a raw record; the one that names a thread has no file."""
    name, file = str(event["name"]), event["args"]["filename"]
    return f"{name} ({file}:{event['args']['line']})" if file else name


def _threads(record: bytes) -> list[list[Event]]:
    """The beginnings and ends of frames by thread."""
    threads: defaultdict[int, list[Event]] = defaultdict(list)
    for event in json.loads(record):
        if event["ph"] in "BE":
            threads[event["tid"]].append(event)
    return list(threads.values())


def _parts(events: Sequence[Event], pid: int, files: UserFiles) -> Iterator[Visit]:
    """The times between two events in which a thread is the main thread."""
    for start_us, end_us, stack in _stacks(events):
        named = _THREAD.match(stack[0]["name"]) if stack else None
        if named is not None and int(named[1]) == pid:
            yield Visit(start_us, end_us, _lines(stack, files))


def _stacks(events: Sequence[Event]) -> Iterator[tuple[int, int, list[Event]]]:
    """Start, end and frames of each time between two events of a thread; one list of frames."""
    stack: list[Event] = []
    since = 0
    for event in events:
        time = int(event["ts"])
        if time > since and stack:
            yield since, time, stack
        since = time
        if event["ph"] == "B":
            stack.append(event)
        else:
            stack.pop()


def _lines(stack: Sequence[Event], files: UserFiles) -> tuple[str, ...]:
    """The lines of the program in a stack, without those of deep recursion."""
    calls = [event for event in stack if event["args"]["filename"]]
    named = ((files.user_name(event["args"]["filename"]), event) for event in calls)
    lines = [f"{name}({e['args']['line']}): {e['name']}" for name, e in named if name is not None]
    return tuple(lines[:_DEEPEST])
