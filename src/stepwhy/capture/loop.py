"""What the observers of one framework share: the log, the profiler's window, compile time.

TensorFlow 2 and JAX have no run call and no optimizer that every program goes through. Either
somebody tells where steps end (`StepLog`: Keras' `fit`), or the calls of compiled functions are
logged and the reader finds the steps in them (`CallLog`).
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, TypeVar

from stepwhy.capture import lifetime
from stepwhy.capture.clock import now_ns
from stepwhy.capture.rhythm import Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.capture.recorder import Recorder
    from stepwhy.capture.xplane_window import StepWindow

T = TypeVar("T")

# A function that was called less often may be set-up; a process that only sets up has no loop.
_FEWEST_CALLS = 3
# One that is called less often than this, relative to the most frequent, is not in every step.
_LEAST_FREQUENCY = 0.5
# A program that keeps making functions does not fill the memory: further kinds count as one.
_MOST_KINDS = 512
_NONE = -1
# Steps to leave alone, as for the other frameworks: the first ones pay for compilation.
_EARLIEST_STEP = 4


class CompileTime:
    """Time spent tracing and compiling since it was last taken.

    Nested pieces count once: pieces arrive when they end, so a later one that began earlier
    contains them.
    """

    def __init__(self) -> None:
        self._pieces: list[tuple[int, int, str]] = []

    def add(self, event: str, start_ns: int, end_ns: int) -> None:
        """Add a piece that ends now.

        Args:
            event: What was done, in the framework's words.
            start_ns: When it began.
            end_ns: When it ended.
        """
        while self._pieces and self._pieces[-1][0] >= start_ns:
            self._pieces.pop()
        self._pieces.append((start_ns, end_ns, event))

    def began_ns(self) -> int | None:
        """When the first piece began; None without any."""
        return self._pieces[0][0] if self._pieces else None

    def take(self) -> str:
        """What the log says about it: the end of a JSON object's members, '' without any."""
        if not self._pieces:
            return ""
        by_event: dict[str, int] = {}
        for start_ns, end_ns, event in self._pieces:
            by_event[event] = by_event.get(event, 0) + end_ns - start_ns
        self._pieces = []
        total_ns = sum(by_event.values())
        return f',"compile_ns":{total_ns},"compiled":{json.dumps(by_event, separators=(",", ":"))}'


class InputWait:
    """Time in which the driving thread waited for batches since it was last taken."""

    def __init__(self) -> None:
        self._waited_ns = 0

    def add(self, duration_ns: int) -> None:
        """Add a wait, in ns."""
        self._waited_ns += duration_ns

    def take(self) -> int | None:
        """The wait in ns; None where none was seen, which is not to say that there was none."""
        waited_ns, self._waited_ns = self._waited_ns, 0
        return waited_ns or None


class Loop:
    """The log and the window of one process.

    Args:
        recorder: Where lines go.
        window: The profiler's window.

    Attributes:
        compile_time: Of the step under way.
        input_wait: Of the step under way.
        lines: How many lines were logged.
        told: Whether somebody tells where steps end, so that calls are parts of steps.
    """

    def __init__(self, recorder: Recorder, window: StepWindow) -> None:
        self.recorder = recorder
        self.window = window
        self.told: Callable[[], object] = nobody
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Begin as in a process that has seen no step (after a fork)."""
        self.compile_time = CompileTime()
        self.input_wait = InputWait()
        self.lines = 0
        self.window.forget()
        self._main = threading.main_thread().ident
        self._driver: int | None = None

    def drives(self) -> bool:
        """Whether the calling thread drives the loop, given that it calls compiled functions.

        The main one does; the first other one to call does as long as the main one never has.
        Input pipelines and servers call compiled functions too, in threads of their own.
        """
        current = threading.get_ident()
        if current == self._main or self._driver is None:
            self._driver = current
        return current == self._driver

    def driven_here(self) -> bool:
        """Whether the calling thread is the one that drives the loop, or may yet be."""
        return threading.get_ident() == (self._driver or self._main)

    def line(self, kind: str, start_ns: int, end_ns: int, wait_ns: int | None) -> str:
        """One line of the log, which takes the compile time."""
        self.lines += 1
        return (
            f'{{"kind":{kind},"start_ns":{start_ns},"end_ns":{end_ns},'
            f'"profiled":{int(self.window.touched)},'
            f'"input_wait_ns":{"null" if wait_ns is None else wait_ns}{self.compile_time.take()}}}'
        )

    def guard(self, work: Callable[[], T]) -> T | None:
        """Do a piece of the observer's work; when it fails, step aside for good.

        Returns:
            What the work returns; None when it failed, or did not begin.
        """
        if not self.recorder.alive:
            return None
        try:
            return work()
        except Exception as error:
            self.window.abandon()
            self.recorder.step_aside(error)
            return None


def nobody() -> None:
    """The `told` of a loop that nobody tells where its steps end."""


class StepLog:
    """Logs steps whose ends are known.

    Args:
        loop: What is shared.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._rhythm = Rhythm()
        self._start_ns = 0
        self._steps = 0

    def begin(self) -> None:
        """A run of steps begins: the first one starts here."""
        self._loop.input_wait.take()
        self._start_ns = now_ns()

    def begin_work(self) -> None:
        """The work of a step begins; its start may lie before that."""
        self._loop.window.begin_step()

    def end_step(self, wait_ns: int | None) -> None:
        """A step ends here and the next one begins.

        Args:
            wait_ns: How long it waited for input; None where that cannot be seen.
        """
        if not self._start_ns:
            return
        loop, start_ns, end_ns = self._loop, self._start_ns, now_ns()
        if not loop.window.touched:
            self._rhythm.add(end_ns - start_ns)
        loop.recorder.step(loop.line('"step"', start_ns, end_ns, wait_ns))
        self._steps += 1
        self._start_ns = end_ns
        ready = self._steps >= _EARLIEST_STEP and self._rhythm.settled()
        loop.window.next_step(loop.lines, start=ready)

    def end(self) -> None:
        """The run of steps is over: what follows belongs to none."""
        self._start_ns = 0
        self._loop.window.check_age()


class CallLog:
    """Logs calls of compiled functions, and finds the one that marks the steps.

    Attributes:
        loop: What is shared.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._numbers: dict[object, int] = {}
        self._rhythms: list[Rhythm] = []
        self.forget()
        lifetime.on_begin(self.forget)

    def forget(self) -> None:
        """Begin as in a process that has called nothing; the numbers of kinds are remembered."""
        self._rhythms = [Rhythm() for _ in self._rhythms]
        self._most = 0
        self._anchor = _NONE
        self._held: list[str] | None = []
        self._inside = False
        self._start_ns = 0
        self._last_end_ns = 0

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
        """Whether a call that begins may be one to log; false within another one."""
        return not self._inside and self.loop.recorder.alive

    def begin(self, number: int) -> bool:
        """A call begins; whether it is one to log: not inside another one, nor of a told step."""
        loop = self.loop
        if not self.may_begin() or loop.told() is not None or not loop.drives():
            return False
        self._start_ns = now_ns()
        if number == self._anchor:
            self._next_step()
        self._inside = True
        return True

    def end(self, number: int) -> None:
        """The call that `begin` let through has ended, normally or not; never raises."""
        self._inside = False
        end_ns = now_ns()
        self.loop.guard(lambda: self._log(number, self._start_ns, end_ns))

    def ended(self, number: int) -> None:
        """A call has ended whose begin was not seen: it counts from the end of the last one."""
        loop = self.loop
        if not self.may_begin() or loop.told() is not None or not loop.drives():
            return
        end_ns = now_ns()
        start_ns = self._last_end_ns or loop.compile_time.began_ns() or end_ns
        self._log(number, start_ns, end_ns)
        if number == self._anchor:
            self._next_step()

    def _log(self, number: int, start_ns: int, end_ns: int) -> None:
        """Log a call and weigh its kind."""
        loop, rhythm = self.loop, self._rhythms[number]
        rhythm.add(end_ns - start_ns)
        self._last_end_ns = end_ns
        self._most = max(self._most, rhythm.count)
        self._choose(number, rhythm)
        if number != self._anchor:
            loop.window.check_age()
        wait_ns = loop.input_wait.take()
        line = loop.line(f'"call","signature":{number}', start_ns, end_ns, wait_ns)
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
        if self.loop.window.running or rhythm.count < _LEAST_FREQUENCY * self._most:
            return
        anchor = self._rhythms[self._anchor] if self._anchor != _NONE else None
        if (
            anchor is None
            or rhythm.total_ns > anchor.total_ns
            or anchor.count < _LEAST_FREQUENCY * self._most
        ):
            self._anchor = number

    def _next_step(self) -> None:
        """The call that marks the steps: let the profiler take its turn."""
        rhythm = self._rhythms[self._anchor]
        ready = rhythm.count > _EARLIEST_STEP and rhythm.settled()
        self.loop.window.next_step(self.loop.lines, start=ready)
        self.loop.window.begin_step()
