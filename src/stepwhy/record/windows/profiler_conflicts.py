"""Conflicts with the training's own profiler: two profilers cannot run at the same time.

No window opens while the training profiles itself. If its profiler starts during a window, the
window is dropped and tried again later. The wait doubles each time, since a profiler that records a
few steps again and again leaves no room for a window in between.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepwhy.record.core.recorder import Recorder

SLUG = "profiler-in-use"
_FIRST_WAIT_STEPS = 16


class ProfilerConflict:
    """Decide when a window may be tried again after a conflict.

    Args:
        recorder: Receives the message; readers drop it if a window was kept after all.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        self._wait_steps = _FIRST_WAIT_STEPS
        self._not_before = 0
        self._reported = False

    def may_open(self, step: int) -> bool:
        """Whether a window may be tried.

        Args:
            step: Number of the step that begins, from 0.
        """
        return step >= self._not_before

    def report(self, profiler: str, step: int) -> None:
        """Report, once, that the training's own profiler runs when a window is due.

        Args:
            profiler: Name of that profiler.
            step: Number of the step that begins, from 0.
        """
        if self._reported:
            return
        self._reported = True
        self._recorder.message(
            "warning",
            SLUG,
            f"the training's own profiler ({profiler}) was on at step {step + 1:,}. Two cannot run "
            "at once, and it did not leave enough steps to trace once it had stopped",
        )

    def postpone(self, step: int) -> None:
        """Wait longer: a window was dropped, or could not start.

        Args:
            step: Number of the current step, from 0.
        """
        self._not_before = step + self._wait_steps
        self._wait_steps *= 2
