"""Limits of a window of profiled steps: number of steps, seconds and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.steps.meters import resident_bytes
from stepwhy.record.windows.traced_window import WindowTooLargeError

if TYPE_CHECKING:
    from pathlib import Path

# Enough to see repetition; a step can take a megabyte in the trace.
ACTIVE_STEPS = 4
# In steps of this length, the profiler's own start-up does not show.
_NO_WARM_UP_NS = 2_000_000_000
_MOST_NS = 10_000_000_000
# One step may take longer than the rest of a window, but no training is profiled for a minute.
_LONGEST_STEP_NS = 30_000_000_000
# The profiler keeps up to a kilobyte for each op until the window ends.
_MOST_GROWTH = 512 << 20
_MOST_FILE = 512 << 20


class MemoryGrewError(WindowTooLargeError):
    """The process grew too much during a window: by what it recorded, or by the training."""


def warm_up_steps(step_ns: int) -> int:
    """Steps that the profiler runs before those that are kept.

    Args:
        step_ns: Length of the last unprofiled step.

    Raises:
        WindowTooLargeError: One step takes longer than a window may.
    """
    if step_ns > _LONGEST_STEP_NS:
        raise WindowTooLargeError(f"one step takes more than {_LONGEST_STEP_NS // 10**9} s")
    return 0 if step_ns >= _NO_WARM_UP_NS else 1


class Budget:
    """Resources used by a window since the start of its first kept step."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._start_bytes = resident_bytes()
        self._steps = 0

    def spend(self, now_ns: int) -> bool:
        """Count a step of the window that has ended.

        Returns:
            Whether another step like those before still fits.

        Raises:
            MemoryGrewError: The first step takes too much memory, or a later one far too much.
        """
        self._steps += 1
        growth = resident_bytes() - self._start_bytes
        # What the steps before the last one took was in bounds, and is there to be kept.
        if growth > (_MOST_GROWTH if self._steps == 1 else 2 * _MOST_GROWTH):
            raise MemoryGrewError(f"it took more than {_MOST_GROWTH >> 20} MiB of memory")
        ahead = (self._steps + 1) / self._steps
        return (
            self._steps < ACTIVE_STEPS
            and (now_ns - self._start_ns) * ahead <= _MOST_NS
            and growth * ahead <= _MOST_GROWTH
        )


def check_file(path: Path) -> None:
    """Check the size of a written trace.

    Raises:
        WindowTooLargeError: It is larger than a trace may be.
    """
    if path.stat().st_size > _MOST_FILE:
        raise WindowTooLargeError(f"its trace is larger than {_MOST_FILE >> 20} MiB")
