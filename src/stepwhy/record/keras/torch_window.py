"""The window of Keras' `fit` on PyTorch, which wraps that of PyTorch loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.torch.window import ProfilerWindow

if TYPE_CHECKING:
    from stepwhy.record.core.recorder import Recorder


class TorchWindow:
    """Steps of `fit` under `torch.profiler`, which marks them itself; a `StepWindow`.

    Args:
        recorder: Writes the windows.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._window = ProfilerWindow(recorder)
        self._began_ns = 0

    @property
    def touched(self) -> bool:
        """Whether the profiler started, ran or stopped in the current step."""
        return self._window.touched

    @property
    def running(self) -> bool:
        """Whether the profiler runs."""
        return self._window.running

    def forget(self) -> None:
        """Start over, as in a process without a window (after a fork)."""
        self._window.forget()

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open, continue or close the window."""
        began_ns, self._began_ns = self._began_ns, now_ns()
        length_ns = self._began_ns - began_ns if began_ns else 0
        self._window.next_step(step, start=start, step_ns=length_ns)

    def begin_step(self) -> None:
        """Do nothing: PyTorch marks whole steps."""

    def end_last_step(self, time_ns: int) -> None:
        """Do nothing: PyTorch marks whole steps."""

    def check_age(self) -> None:
        """Do nothing: `finish` follows if no step comes."""

    def finish(self) -> None:
        """No further step comes: keep the window if it holds a complete step."""
        self._began_ns = 0
        self._window.finish()

    def reopen(self) -> None:
        """Allow one more window: the step time has changed for good."""
        self._window.reopen()

    @property
    def is_requested(self) -> bool:
        """Whether a window was requested from outside, and waits for its step."""
        return self._window.is_requested

    def request(self, step: int) -> bool:
        """Open a window at a step, as was requested from outside; whether it will."""
        return self._window.request(step)

    def abandon(self) -> None:
        """Stop the profiler and keep nothing."""
        self._window.abandon()
