"""The clock of everything that capture records: monotonic, in nanoseconds since the epoch.

Frameworks stamp traces with the epoch clock, which can be set back; durations must never be
negative. So the offset between both clocks is read once per process and added to the monotonic one.
"""

from __future__ import annotations

import time

from stepwhy.record.core.compiled_code import never_compiled

EPOCH_OFFSET_NS = time.time_ns() - time.perf_counter_ns()
"""What `now_ns` adds to `time.perf_counter_ns`; for code in which even a call is too long."""


@never_compiled
def now_ns() -> int:
    """Nanoseconds since the epoch, never going back within a process."""
    return time.perf_counter_ns() + EPOCH_OFFSET_NS


def clock_set_ns() -> int:
    """By how much the machine's clock was set since the process started, ns; negative if back."""
    return time.time_ns() - now_ns()
