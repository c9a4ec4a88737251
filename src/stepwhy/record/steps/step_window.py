"""The profiler window of a loop, whichever profiler fills it."""

from __future__ import annotations

from typing import Protocol


class StepWindow(Protocol):
    """Operations of a loop on its window."""

    @property
    def touched(self) -> bool:
        """Whether the profiler started, ran or stopped in the current step."""

    @property
    def running(self) -> bool:
        """Whether the profiler runs."""

    @property
    def is_requested(self) -> bool:
        """Whether a window was requested from outside, and waits for its step."""

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open, continue or close the window."""

    def begin_step(self) -> None:
        """The work of the step begins."""

    def end_last_step(self, time_ns: int) -> None:
        """No further step comes, and the last one ended at this time."""

    def check_age(self) -> None:
        """Close a window that has been open for long; the next step may be far away."""

    def finish(self) -> None:
        """No further step comes: close the window."""

    def reopen(self) -> None:
        """Allow one more window: the step time has changed for good."""

    def request(self, step: int) -> bool:
        """Open a window at a step, as was requested from outside; whether it will."""

    def abandon(self) -> None:
        """Stop the profiler and keep nothing."""


class NoWindow:
    """The window of a loop that is not profiled."""

    touched = False
    running = False
    is_requested = False

    def forget(self) -> None:
        """Do nothing."""

    def next_step(self, step: int, *, start: bool) -> None:
        """Do nothing."""

    def begin_step(self) -> None:
        """Do nothing."""

    def end_last_step(self, time_ns: int) -> None:
        """Do nothing."""

    def check_age(self) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Do nothing."""

    def reopen(self) -> None:
        """Do nothing."""

    def request(self, step: int) -> bool:  # noqa: ARG002 - as of a window
        """No window opens."""
        return False

    def abandon(self) -> None:
        """Do nothing."""
