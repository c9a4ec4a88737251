"""What the loops of all frameworks have: a pace, meters, and a look at changes and stalls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from stepwhy.record.core.pacing import ChangeDetector, StepPace
from stepwhy.record.steps.meters import InputWait, ProcessLoad, ThreadTime
from stepwhy.record.steps.stall_watch import StallWatch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.core.requests import Request
    from stepwhy.record.steps.stall_watch import Standing


class RequestedWindow(Protocol):
    """Operations of any loop on its window."""

    def reopen(self) -> None:
        """Allow one more window: the step time has changed for good."""

    def request(self, step: int) -> bool:
        """Open a window at a step, as was requested from outside; whether it will."""


class WatchedLoop:
    """A loop whose steps are logged by a subclass, which calls `forget` once it is complete.

    Args:
        recorder: Writes the lines.
        window: The profiler window.
        input_wait: Meter of the current step.
        collectives: Passed to `StallWatch`.

    Attributes:
        change: Detects when the step time has changed for good.
        thread_time: Meter of the current step.
        process_load: Meter of the current step.
        light: Whether the current step is only timed.
    """

    def __init__(
        self,
        recorder: Recorder,
        window: RequestedWindow,
        input_wait: InputWait,
        collectives: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self.recorder = recorder
        self.window = window
        self.input_wait = input_wait
        self.process_load = ProcessLoad()
        self._stalls = StallWatch(recorder, self._standing, collectives)
        recorder.requests.opens = self._request

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        self.change = ChangeDetector()
        self._pace = StepPace()
        self.input_wait.forget()
        self.thread_time = ThreadTime()
        self.process_load.start_over()
        self.light = False
        self._stalls.forget()

    def _standing(self) -> Standing | None:
        """The current step, for another thread; None while there is none."""
        raise NotImplementedError

    def _step_count(self) -> int:
        """Number of steps so far, by their lines in the log."""
        raise NotImplementedError

    def start_meters(self) -> None:
        """An observed step begins: what the meters have read so far belongs to none."""
        self.input_wait.take()
        self.thread_time.take()
        self.process_load.take()

    def compare(self, start_ns: int, end_ns: int) -> None:
        """Open another window if the step time has changed for good.

        Args:
            start_ns: When a step began that was not profiled.
            end_ns: When it ended.
        """
        if self.change.add(end_ns - start_ns):
            log_change(self.recorder, start_ns, end_ns)
            self.reopen()

    def reopen(self) -> None:
        """The step time has changed for good: open another window."""
        self.window.reopen()

    def _request(self, request: Request) -> bool:
        """Open a window, as was requested from outside; whether it will."""
        if not self.window.request(request.step):
            return False
        self._pace.observe()
        self.recorder.requested(request, self._step_count())
        return True


def log_change(recorder: Recorder, start_ns: int, end_ns: int) -> None:
    """Log that the step time has changed for good.

    Args:
        recorder: Writes the event.
        start_ns: When the step began in which that was noticed.
        end_ns: When it ended.
    """
    recorder.event("change", name="step", start_ns=start_ns, end_ns=end_ns)
