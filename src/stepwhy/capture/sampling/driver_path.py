"""Where the main thread of a program was in its own code, and when.

Source: py-spy's `record --format chrometrace`: an array of events that begin ("B") and end ("E")
frames, outermost first, with times in microseconds since the record began. With `--threads`, a
frame without a file, 'thread (ID)', encloses those of each thread. Forks share a thread id with
their parent, so this is used for single processes only.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from stepwhy.capture.user_code import UserFiles

    Event = dict[str, Any]

# Lines of a stack, from the outermost, that say where a step is.
_DEEPEST = 12
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
    threads: defaultdict[int, list[Event]] = defaultdict(list)
    try:
        for event in json.loads(record):
            if event["ph"] in "BE":
                threads[event["tid"]].append(event)
        own = [part for events in threads.values() for part in _parts(events, pid, files)]
    except (ValueError, KeyError, TypeError, IndexError):
        return []
    groups = ((lines, list(group)) for lines, group in groupby(own, lambda visit: visit.lines))
    return [Visit(group[0].start_us, group[-1].end_us, lines) for lines, group in groups]


def _parts(events: Sequence[Event], pid: int, files: UserFiles) -> Iterator[Visit]:
    """The times between two events in which a thread is the main thread."""
    stack: list[Event] = []
    since = 0
    for event in events:
        time = int(event["ts"])
        if time > since and _is_main(stack, pid):
            yield Visit(since, time, _lines(stack, files))
        since = time
        if event["ph"] == "B":
            stack.append(event)
        else:
            stack.pop()


def _is_main(stack: Sequence[Event], pid: int) -> bool:
    named = _THREAD.match(stack[0]["name"]) if stack else None
    return named is not None and int(named[1]) == pid


def _lines(stack: Sequence[Event], files: UserFiles) -> tuple[str, ...]:
    """The lines of the program in a stack, without those of deep recursion."""
    calls = [event for event in stack if event["args"]["filename"]]
    named = ((files.user_name(event["args"]["filename"]), event) for event in calls)
    lines = [f"{name}({e['args']['line']}): {e['name']}" for name, e in named if name is not None]
    return tuple(lines[:_DEEPEST])


__all__ = ["Visit", "driver_path"]
