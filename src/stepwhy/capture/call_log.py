"""Log calls of compiled functions, and find the function whose calls mark the steps."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.capture import registry
from stepwhy.capture.clock import now_ns
from stepwhy.capture.loop import EARLIEST_STEP, ahead_member, input_wait_member
from stepwhy.capture.process import lifetime
from stepwhy.capture.run_times import RunTimes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.capture.loop import Loop

# A function called less often may be set-up code, and a process that only sets up has no loop.
_FEWEST_CALLS = 3
# A function called less often than this, relative to the most frequent, is not in every step.
_LEAST_FREQUENCY = 0.5
# Further kinds count as one, to limit memory in a program that keeps creating functions.
_MOST_KINDS = 512
# Steps in which the device is asked if it is behind, which takes microseconds. In a longer run, the
# queue that is left at its end is a small part of the work.
_MOST_FOLLOWED = 2000
_NONE = -1


class CallLog:
    """Log calls of compiled functions.

    A step lasts from one call of the kind that marks the steps to the next. The line of a call has
    the input wait since the call before, and whether the device still worked on earlier calls when
    it began; if it marks a step, also the thread's CPU time. The log ends with a line of kind
    'drained' if the program then waited until the device had finished.

    Attributes:
        loop: The loop of this process.
        anchor: Number of the kind of calls that mark the steps; -1 for none yet.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._numbers: dict[object, int] = {}
        self._run_times: list[RunTimes] = []
        self.forget()
        lifetime.on_begin(self.forget)
        lifetime.on_end(self._log_drained)
        registry.count("calls", lambda: self._most)

    def forget(self) -> None:
        """Start over, as in a new process (after a fork), but remember the numbers of kinds."""
        self._run_times = [RunTimes() for _ in self._run_times]
        self._most = 0
        self.anchor = _NONE
        self._early: list[str] | None = []
        self._inside = False
        self._start_ns = 0
        self._last_end_ns = 0
        self._steps = 0
        self._step_start_ns = 0
        self._members = ""
        self._ahead = ""
        self._drained_ns = 0

    def number(self, kind: object) -> int:
        """The number of a kind of calls.

        Args:
            kind: Key that calls of one kind share; hashable.
        """
        if kind not in self._numbers and len(self._numbers) >= _MOST_KINDS:
            kind = None
        number = self._numbers.setdefault(kind, len(self._numbers))
        if number == len(self._run_times):
            self._run_times.append(RunTimes())
        return number

    @property
    def follows(self) -> bool:
        """Whether to note if the device is behind: in the first steps, and in traced ones."""
        return self._steps < _MOST_FOLLOWED or self.loop.window.running

    def may_begin(self) -> bool:
        """Whether a call may be logged: not within another call, nor in a marked step."""
        loop = self.loop
        return (
            not (loop.only_notes or self._inside) and loop.recorder.alive and loop.marker() is None
        )

    def begin(self, number: int) -> bool:
        """Begin a call; returns whether it is logged."""
        if not self.may_begin() or not self.loop.drives():
            return False
        self._start_ns = start_ns = now_ns()
        loop = self.loop
        quiet, marks = loop.light, self._marks(number)
        if marks:
            self._next_step(start_ns)
            self._advance_window(start_ns)
        self._note(marks=marks, quiet=quiet or loop.light)
        if self.follows:
            self._members += ahead_member(loop.ahead())
        self._inside = True
        return True

    def end(self, number: int, *, failed: bool = False) -> None:
        """End a call for which `begin` returned True; never raises.

        Args:
            number: Number of its kind.
            failed: Whether it raised.
        """
        self._inside = False
        end_ns = now_ns()
        self._ahead = ""
        if not self.loop.recorder.alive:
            return
        if failed:
            self._members += ',"failed":1'
        try:
            self._log(number, self._start_ns, end_ns)
        except Exception as error:
            self.loop.stop(error)

    def ended(self, number: int) -> None:
        """Log a call whose start was not seen: it counts from the end of the last call."""
        if not self.may_begin() or not self.loop.drives():
            return
        loop, end_ns = self.loop, now_ns()
        start_ns = self._last_end_ns or loop.compile_time.began_ns() or end_ns
        quiet, marks = loop.light, self._marks(number)
        if marks:
            self._next_step(end_ns)
        self._note(marks=marks, quiet=quiet or loop.light)
        self._members += self._ahead
        self._ahead = ahead_member(loop.ahead()) if self.follows else ""
        self._log(number, start_ns, end_ns)
        if marks:
            self._advance_window(end_ns)

    def launched(self, output: object) -> None:
        """A call has returned what the device may still compute; never raises."""
        if self.follows:
            self.loop.guard(lambda: self.loop.launched(output))

    def drained(self) -> None:
        """The program has waited until the device had finished all calls."""
        self._drained_ns = now_ns()

    def _log_drained(self) -> None:
        """Log the wait that followed the last call."""
        time_ns, self._drained_ns = self._drained_ns, 0
        if time_ns and self._early is None and self.loop.known_steps < _FEWEST_CALLS:
            self.loop.recorder.step(self.loop.line('"drained"', time_ns, time_ns, ""))
            self.loop.window.end_last_step(time_ns)

    def _marks(self, number: int) -> bool:
        """Whether a call of this kind marks a step; with `fit`, calls outside of steps evaluate."""
        return number == self.anchor and self.loop.known_steps < _FEWEST_CALLS

    def _next_step(self, time_ns: int) -> None:
        """End a step and begin the next one."""
        if self._step_start_ns:
            self.loop.compare(self._step_start_ns, time_ns)
        self._step_start_ns = time_ns
        self._steps += 1
        self.loop.pace(time_ns)

    def _advance_window(self, time_ns: int) -> None:
        """Tell the profiler window that a step has begun."""
        run_times = self._run_times[self.anchor]
        ready = run_times.count > EARLIEST_STEP and run_times.settled()
        self.loop.next_step(self._steps, time_ns, ready=ready)
        self.loop.window.begin_step()

    def _note(self, *, marks: bool, quiet: bool) -> None:
        """Read the meters for the time before the call; not in light steps.

        Args:
            marks: Whether the call marks a step: its line then has CPU time, too.
            quiet: Whether the time before or after it belongs to a light step.
        """
        loop = self.loop
        if quiet:
            self._members = ',"light":1' if loop.light else ""
            return
        wait_ns = loop.input_wait.take()
        self._members = loop.measured(wait_ns) if marks else input_wait_member(wait_ns)

    def _log(self, number: int, start_ns: int, end_ns: int) -> None:
        """Log a call, and add it to the run times of its kind."""
        loop, run_times = self.loop, self._run_times[number]
        run_times.add(end_ns - start_ns)
        self._last_end_ns = end_ns
        self._drained_ns = 0
        if not self._most:
            registry.began("calls")
        self._most = max(self._most, run_times.count)
        self._choose_anchor(number, run_times)
        if number != self.anchor:
            loop.window.check_age()
        line = loop.line(f'"call","signature":{number}', start_ns, end_ns, self._members)
        if self._early is None:
            loop.recorder.step(line)
            return
        self._early.append(line)
        if run_times.count >= _FEWEST_CALLS:
            early, self._early = self._early, None
            for each in early:
                loop.recorder.step(each)

    def _choose_anchor(self, number: int, run_times: RunTimes) -> None:
        """Let this kind mark the steps if it takes more time than the current one."""
        if number == self.anchor or self.loop.window.running:
            return
        if run_times.count < _LEAST_FREQUENCY * self._most:
            return
        anchor = self._run_times[self.anchor] if self.anchor != _NONE else None
        if (
            anchor is None
            or run_times.total_ns > anchor.total_ns
            or anchor.count < _LEAST_FREQUENCY * self._most
        ):
            self.anchor = number
            self._step_start_ns = 0
            self.loop.change.restart()


def observe_method(
    owner: Any,
    name: str,
    calls: CallLog,
    number_of: Callable[[Any], int],
    computes: Callable[[], bool],
) -> None:
    """Log the outermost calls of a method, by the kind of its object.

    Args:
        owner: Class of the method.
        name: Name of the method.
        calls: Log of the calls.
        number_of: Returns the number of an object's kind.
        computes: Whether a call would compute; otherwise it is being traced.
    """
    original = getattr(owner, name)

    def begin(self: Any) -> int | None:
        try:
            if not computes():
                return None
            number = number_of(self)
            return number if calls.begin(number) else None
        except Exception as error:
            calls.loop.stop(error)
            return None

    @functools.wraps(original)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        loop = calls.loop
        number = begin(self) if not loop.only_notes and calls.may_begin() else None
        if number is None:
            return original(self, *args, **kwargs)
        failed = True
        try:
            result = original(self, *args, **kwargs)
            failed = False
            calls.launched(result)
            return result
        finally:
            calls.end(number, failed=failed)

    setattr(owner, name, observed)
