"""The window of Keras' `fit` on PyTorch: the one of PyTorch's own loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.torch.window import ProfilerWindow

if TYPE_CHECKING:
    from stepwhy.capture.recorder import Recorder


class TorchWindow:
    """Steps of `fit` under `torch.profiler`, which marks them itself; see `StepWindow`.

    Args:
        recorder: Where the windows go.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._window = ProfilerWindow(recorder)
        self._began_ns = 0

    @property
    def touched(self) -> bool:
        """Whether the profiler was at work in the step under way."""
        return self._window.touched

    @property
    def running(self) -> bool:
        """Whether the profiler runs."""
        return self._window._profiler is not None

    def forget(self) -> None:
        """Begin as in a process without a window (after a fork)."""
        self._window.forget()

    def next_step(self, step: int, *, start: bool) -> None:
        """A step begins: open the window, go on, or close it."""
        began_ns, self._began_ns = self._began_ns, now_ns()
        length_ns = self._began_ns - began_ns if began_ns else 0
        self._window.next_step(step, start=start, step_ns=length_ns)

    def begin_step(self) -> None:
        """The work of the step begins; PyTorch marks the whole step."""

    def check_age(self) -> None:
        """No step may come for a while; `finish` follows where none comes."""

    def finish(self) -> None:
        """No step comes: keep the window when it holds a complete one."""
        self._began_ns = 0
        self._window._finish_at_exit()

    def reopen(self) -> None:
        """The step time has changed for good: one more window may open."""
        self._window.again()

    def abandon(self) -> None:
        """Stop the profiler and keep nothing."""
        self._window.abandon()
