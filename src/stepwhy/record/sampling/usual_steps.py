"""When a process took steps as it takes them without stepwhy, by its log of steps.

In a profiled step, a sample may show stepwhy itself, such as a profiler that starts, a trace that
is written, or a dispatch mode that looks at each operation. For every framework, the log says which
steps these were, once they have ended.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.base.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOG = "steps.jsonl"
# A line has some 100 bytes.
_LATEST_BYTES = 1 << 16
SECONDS_BYTES = 4 << 20
"""Enough of a log for some seconds of the fastest loops."""

_PROFILED = b'"profiled":1'
# A sample is up to one interval old, and py-spy's clock begins up to 10 ms earlier or later than
# `periods` assumes.
_MARGIN_NS = 20_000_000
# Shorter parts have too few samples to be counted.
_SHORTEST_NS = 100_000_000


class LoggedSteps(NamedTuple):
    """The latest steps of a process.

    Args:
        until_ns: End of the last one; None if none is logged.
        profiled: Start and end in ns of each profiled one, in order.
    """

    until_ns: int | None = None
    profiled: Sequence[tuple[int, int]] = ()

    def is_usual_after(self, time_ns: int) -> bool:
        """Whether the last step ended after a time, and was not profiled."""
        last_ns = self.until_ns or 0
        return last_ns > time_ns and all(end_ns < last_ns for _, end_ns in self.profiled)

    def usual_parts(self, start_ns: int, end_ns: int) -> list[tuple[int, int]]:
        """The parts of a period in which no step was profiled.

        Args:
            start_ns: Start of the period.
            end_ns: Its end.

        Returns:
            Start and end of each in ns, in order; the period itself if it has no profiled step.
        """
        within = [(a, b) for a, b in self.profiled if a < end_ns and b > start_ns]
        if not within:
            return [(start_ns, end_ns)]
        starts = [start_ns, *(b + _MARGIN_NS for _, b in within)]
        ends = [*(a - _MARGIN_NS for a, _ in within), end_ns]
        parts = zip(starts, ends, strict=True)
        return [(a, b) for a, b in parts if b - a >= _SHORTEST_NS]


def logged_steps(folder: Path, most_bytes: int = _LATEST_BYTES) -> LoggedSteps:
    """The latest steps of a process; none if its log is missing or damaged.

    Args:
        folder: Its folder.
        most_bytes: How much of the log to read.
    """
    try:
        lines = _tail(folder / LOG, most_bytes)
        (*_, (_, until_ns)) = map(_times, lines[-1:])
        return LoggedSteps(until_ns, [_times(line) for line in lines if _PROFILED in line])
    except (OSError, ValueError, KeyError, TypeError):
        return LoggedSteps()


def _times(line: bytes) -> tuple[int, int]:
    """Start and end of the step of a line."""
    step = json.loads(line)
    return int(step["start_ns"]), int(step["end_ns"])


def _tail(path: Path, most_bytes: int) -> list[bytes]:
    """The last whole lines of a log.

    Raises:
        OSError: There is none, or it cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as log:
        start = max(log.seek(0, os.SEEK_END) - most_bytes, 0)
        log.seek(start)
        return log.read(most_bytes).split(b"\n")[1 if start else 0 : -1]
