"""Logging calls of compiled functions, and finding the one that marks the steps."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.loop import EARLIEST_STEP, waited
from stepwhy.capture.process import lifetime, registry
from stepwhy.capture.run_times import Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.capture.loop import Loop

# A function that was called less often may be set-up; a process that only sets up has no loop.
_FEWEST_CALLS = 3
# One that is called less often than this, relative to the most frequent, is not in every step.
_LEAST_FREQUENCY = 0.5
# A program that keeps making functions does not fill the memory: further kinds count as one.
_MOST_KINDS = 512
_NONE = -1


class CallLog:
    """Logs calls of compiled functions.

    A step lasts from one call of the kind that marks the steps to the next. What was waited since
    the call before is told with a call, and with one that marks a step what the thread computed.

    Attributes:
        loop: What is shared.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._numbers: dict[object, int] = {}
        self._rhythms: list[Rhythm] = []
        self.forget()
        lifetime.on_begin(self.forget)
        registry.count("calls", lambda: self._most)

    def forget(self) -> None:
        """Begin as in a process that has called nothing; the numbers of kinds are remembered."""
        self._rhythms = [Rhythm() for _ in self._rhythms]
        self._most = 0
        self._anchor = _NONE
        self._held: list[str] | None = []
        self._inside = False
        self._start_ns = 0
        self._last_end_ns = 0
        self._steps = 0
        self._step_start_ns = 0
        self._more = ""

    def number(self, kind: object) -> int:
        """The number of a kind of calls.

        Args:
            kind: What calls of one kind have in common; hashable.
        """
        if kind not in self._numbers and len(self._numbers) >= _MOST_KINDS:
            kind = None
        number = self._numbers.setdefault(kind, len(self._numbers))
        if number == len(self._rhythms):
            self._rhythms.append(Rhythm())
        return number

    def may_begin(self) -> bool:
        """Whether a call that begins may be one to log: not within another, nor in a told step."""
        return not self._inside and self.loop.recorder.alive and self.loop.told() is None

    def begin(self, number: int) -> bool:
        """A call begins; whether it is one to log."""
        if not self.may_begin() or not self.loop.drives():
            return False
        self._start_ns = start_ns = now_ns()
        loop = self.loop
        quiet, marks = loop.light, self._marks(number)
        if marks:
            self._turn(start_ns)
            self._let_profile(start_ns)
        self._note(marks=marks, quiet=quiet or loop.light)
        self._inside = True
        return True

    def end(self, number: int, *, failed: bool = False) -> None:
        """The call that `begin` let through has ended; never raises.

        Args:
            number: Of its kind.
            failed: Whether it raised.
        """
        self._inside = False
        end_ns = now_ns()
        if not self.loop.recorder.alive:
            return
        if failed:
            self._more += ',"failed":1'
        try:
            self._log(number, self._start_ns, end_ns)
        except Exception as error:
            self.loop.step_aside(error)

    def ended(self, number: int) -> None:
        """A call has ended whose begin was not seen: it counts from the end of the last one."""
        if not self.may_begin() or not self.loop.drives():
            return
        loop, end_ns = self.loop, now_ns()
        start_ns = self._last_end_ns or loop.compile_time.began_ns() or end_ns
        quiet, marks = loop.light, self._marks(number)
        if marks:
            self._turn(end_ns)
        self._note(marks=marks, quiet=quiet or loop.light)
        self._log(number, start_ns, end_ns)
        if marks:
            self._let_profile(end_ns)

    def _marks(self, number: int) -> bool:
        """Whether a call of this kind marks a step: not beside a `fit`, which it evaluates."""
        return number == self._anchor and self.loop.noted < _FEWEST_CALLS

    def _turn(self, time_ns: int) -> None:
        """A step ends and the next one begins."""
        if self._step_start_ns:
            self.loop.weigh(self._step_start_ns, time_ns)
        self._step_start_ns = time_ns
        self._steps += 1
        self.loop.pace(self._steps)

    def _let_profile(self, time_ns: int) -> None:
        """Let the profiler take its turn in the step that has begun."""
        rhythm = self._rhythms[self._anchor]
        ready = rhythm.count > EARLIEST_STEP and rhythm.settled()
        self.loop.next_step(self._steps, time_ns, ready=ready)
        self.loop.window.begin_step()

    def _note(self, *, marks: bool, quiet: bool) -> None:
        """What the line will tell of the time before the call; nothing of light steps.

        Args:
            marks: Whether the call marks the steps: it tells the CPU time since the last such one.
            quiet: Whether the time before it, or after it, belongs to a light step.
        """
        loop = self.loop
        if quiet:
            self._more = ',"light":1' if loop.light else ""
            return
        wait_ns = loop.input_wait.take()
        self._more = loop.seen(wait_ns) if marks else waited(wait_ns)

    def _log(self, number: int, start_ns: int, end_ns: int) -> None:
        """Log a call and weigh its kind."""
        loop, rhythm = self.loop, self._rhythms[number]
        rhythm.add(end_ns - start_ns)
        self._last_end_ns = end_ns
        self._most = max(self._most, rhythm.count)
        self._choose(number, rhythm)
        if number != self._anchor:
            loop.window.check_age()
        line = loop.line(f'"call","signature":{number}', start_ns, end_ns, self._more)
        if self._held is None:
            loop.recorder.step(line)
            return
        self._held.append(line)
        if rhythm.count >= _FEWEST_CALLS:
            held, self._held = self._held, None
            for each in held:
                loop.recorder.step(each)

    def _choose(self, number: int, rhythm: Rhythm) -> None:
        """Take this kind for the one that marks the steps if it outweighs the present one."""
        if number == self._anchor or self.loop.window.running:
            return
        if rhythm.count < _LEAST_FREQUENCY * self._most:
            return
        anchor = self._rhythms[self._anchor] if self._anchor != _NONE else None
        if (
            anchor is None
            or rhythm.total_ns > anchor.total_ns
            or anchor.count < _LEAST_FREQUENCY * self._most
        ):
            self._anchor = number
            self._step_start_ns = 0
            self.loop.change.restart()


def observe_method(
    owner: Any,
    name: str,
    calls: CallLog,
    number_of: Callable[[Any], int],
    outside: Callable[[], bool],
) -> None:
    """Log the outermost calls of a method, by the number of its object's kind.

    Args:
        owner: Its class.
        name: Its name.
        calls: Where calls go.
        number_of: Gives an object the number of its kind.
        outside: Whether a call computes something; otherwise it is being traced.
    """
    original = getattr(owner, name)

    def begin(self: Any) -> int | None:
        try:
            if not outside():
                return None
            number = number_of(self)
            return number if calls.begin(number) else None
        except Exception as error:
            calls.loop.step_aside(error)
            return None

    @functools.wraps(original)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        number = begin(self) if calls.may_begin() else None
        if number is None:
            return original(self, *args, **kwargs)
        failed = True
        try:
            result = original(self, *args, **kwargs)
            failed = False
            return result
        finally:
            calls.end(number, failed=failed)

    setattr(owner, name, observed)
