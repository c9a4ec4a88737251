"""One clock for everything that is written: a monotonic one, in nanoseconds since the epoch.

Frameworks stamp their traces with the epoch clock, which can be set back; durations must not. So
the distance between the two is read once per process and added to the monotonic clock.
"""

from __future__ import annotations

import time

_EPOCH_OFFSET_NS = time.time_ns() - time.perf_counter_ns()


def now_ns() -> int:
    """Nanoseconds since the epoch, never going back within a process."""
    return time.perf_counter_ns() + _EPOCH_OFFSET_NS


def clock_set_ns() -> int:
    """How far the machine's clock was set since the process started: forward, or back (< 0)."""
    return time.time_ns() - now_ns()
