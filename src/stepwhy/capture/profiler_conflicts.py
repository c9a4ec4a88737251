"""Giving way to the training's own profiler: two cannot run at the same time.

While it runs, no window is opened. A window that is open when it starts is dropped, and another one
is tried later: twice as many steps later each time, as a profiler that records a few steps again
and again leaves no room for a window between them.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stepwhy.capture.recorder import Recorder

SLUG = "profiler-in-use"
_FIRST_WAIT = 16


class GiveWay:
    """Knows since when the training's own profiler stands in the way of a window.

    Args:
        recorder: Where the message goes; readers drop it when a window was kept after all.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Begin as in a process without a window (after a fork)."""
        self._wait = _FIRST_WAIT
        self._not_before = 0
        self._said = False

    def may_open(self, step: int) -> bool:
        """Whether a window may be tried again.

        Args:
            step: Number of the step that begins, from 0.
        """
        return step >= self._not_before

    def note(self, profiler: str, step: int) -> None:
        """The training's own profiler runs when a window is wanted; it is said once.

        Args:
            profiler: Its name.
            step: Number of the step that begins, from 0.
        """
        if self._said:
            return
        self._said = True
        self._recorder.message(
            "warning",
            SLUG,
            f"the training's own profiler ({profiler}) was on at step {step + 1:,}. Two cannot run "
            "at once, and it did not leave enough steps to trace once it had stopped",
        )

    def gave_way(self, profiler: str, step: int) -> None:
        """A window was dropped, or could not start, because the training's own profiler did.

        Args:
            profiler: Its name.
            step: Number of the step under way, from 0.
        """
        self.note(profiler, step)
        self._not_before = step + self._wait
        self._wait *= 2
