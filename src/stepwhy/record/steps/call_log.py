"""Log calls of compiled functions, and find the function whose calls mark the steps.

Between two calls the training evicts this code from the CPU caches, where each call of another
function takes a microsecond. While steps are only timed, the start and end of each call are
therefore only noted, and many are worked up at once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from stepwhy.record.core import registry
from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.pacing import WritePace
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps.loop import EARLIEST_STEP, ahead_member, no_marker
from stepwhy.record.steps.meters import input_wait_member
from stepwhy.record.steps.run_times import RunTimes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.steps.loop import Loop

# A function called less often may be set-up code, and a process that only sets up has no loop.
_FEWEST_CALLS = 3
# A function called less often than this, relative to the most frequent, is not in every step.
_LEAST_FREQUENCY = 0.5
_LEAST_UPDATE = 0.01  # of other calls: one that takes less is not that of the loop
# Further kinds count as one, to limit memory in a program that keeps creating functions.
_MOST_KINDS = 512
# Steps in which the device is asked if it is behind, which takes microseconds. In a longer run, the
# queue that is left at its end is a small part of the work.
_MOST_FOLLOWED = 2000
MOST_NOTES = 512  # calls, before they are worked up
_NONE = -1


class LightCalls:
    """What a call needs that is only noted: as few objects as possible, as they are in no cache.

    Attributes:
        noted: The end of each call of `function`; number, start (0 if it counts from the end of the
            last call), end, and further members of the log line of each other call. Always the same
            list.
        function: Returns the function whose calls mark the steps, if that is known.
        thread: The thread that drives the loop.
        until_ns: Until when nothing else is due; 0 if no calls are only noted.
    """

    __slots__ = ("function", "noted", "thread", "until_ns")

    def __init__(self) -> None:
        self.noted: list[int | tuple[int, int, int, str]] = []
        self.end()

    def begin(self, until_ns: int) -> None:
        """Calls of this thread are only noted from here on."""
        self.thread, self.until_ns = threading.get_ident(), until_ns

    def end(self) -> None:
        """No call is only noted from here on."""
        self.function: Callable[[], Any] = _unknown
        self.thread = self.until_ns = 0


def _unknown() -> None:
    """The function whose calls mark the steps, where it is not known."""


class CallLog:
    """Log calls of compiled functions.

    A step lasts from one call of the kind that marks the steps to the next. The line of a call has
    the input wait since the call before, and whether the device still worked on earlier calls when
    it began; if it marks a step, also the thread's CPU time. The log ends with a line of kind
    'drained' if the program then waited until the device had finished.

    Attributes:
        loop: The loop of the process.
        anchor: Number of the kind of calls that mark the steps; -1 for none yet.
        light: The calls that are only noted, see `begin_note` and `note`.
    """

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._numbers: dict[object, int] = {}
        self._run_times: list[RunTimes] = []
        self._updates: set[int] = set()
        self._number = _NONE
        self.light = LightCalls()
        loop.latest.append(self._latest)
        self.forget()
        lifetime.on_begin(self.forget)
        lifetime.on_end(self._log_drained)
        # Run before the handlers above, and those of the recorder: in reverse order.
        lifetime.on_end(self._work_up_notes)
        lifetime.on_flush(self._work_up_notes)
        registry.count("calls", lambda: self._most)

    def forget(self) -> None:
        """Start over, as in a new process (after a fork), but remember the numbers of kinds."""
        self._run_times = [RunTimes() for _ in self._run_times]
        self._most = 0
        self.anchor = _NONE
        self._early: list[str] | None = []
        self._inside = False
        self._start_ns = self._last_end_ns = self._steps = self._step_start_ns = 0
        self._members = self._ahead = ""
        self._drained_ns = 0
        self.light.noted.clear()
        self.light.end()
        self.loop.compile_time.on_add = self.light.end
        self._pace = WritePace()

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

    def updates(self, number: int = _NONE) -> None:
        """A kind of calls, by default that of the current one, computes gradients: it leads."""
        if number != _NONE or self._inside:
            self._updates.add(self._number if number == _NONE else number)

    @property
    def step(self) -> int:
        """Number of the current step: of those that calls mark, else of those with known ends."""
        return self._steps or self.loop.lines

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

    def note(self, number: int, start_ns: int = 0, more: str = "") -> bool:
        """A call has ended in a step that is only timed: note it, and nothing else.

        Args:
            number: Number of its kind.
            start_ns: When it began; 0 if it counts from the end of the last call.
            more: Further members of its log line.

        Returns:
            False if something else is due, so that `ended` has to decide about it. A call whose
            start is known is always noted.
        """
        end_ns = now_ns()
        if not start_ns and not self._may_note(end_ns):
            return False
        self.light.noted.append((number, start_ns, end_ns, more))
        if len(self.light.noted) >= MOST_NOTES:
            self.light.end()
        return True

    def begin_note(self) -> int:
        """When a call begins that is only noted; 0 if `begin` has to decide about it."""
        start_ns = now_ns()
        if not self._may_note(start_ns):
            return 0
        self._inside = True
        return start_ns

    def end_note(self, number: int, start_ns: int, *, failed: bool) -> None:
        """End a call that `begin_note` has begun; never raises.

        Args:
            number: Number of its kind.
            start_ns: When it began.
            failed: Whether it raised.
        """
        self._inside = False
        self.note(number, start_ns, ',"failed":1' if failed else "")

    def _may_note(self, time_ns: int) -> bool:
        """Whether a call that begins or ends now may only be noted."""
        light = self.light
        return (
            time_ns < light.until_ns
            and not self._inside
            and self.loop.marker is no_marker
            and threading.get_ident() == light.thread
        )

    def _begin_notes(self, time_ns: int) -> None:
        """A light step has begun: decide whether calls that follow are only noted."""
        loop = self.loop
        # The device is asked in each step until `follows` is False.
        if loop.only_timed_until_ns > time_ns and not self.follows:
            self.light.begin(min(loop.only_timed_until_ns, self._pace.next_ns(time_ns)))

    def _work_up_notes(self) -> None:
        """Log the calls that were only noted, as if each had been passed to `begin` or `ended`."""
        noted = self.light.noted[:]
        del self.light.noted[: len(noted)]
        self.light.end()
        if not noted:
            return
        lines = []
        for note in noted:
            number, began_ns, end_ns, more = (
                (self.anchor, 0, note, "") if isinstance(note, int) else note
            )
            start_ns = began_ns or self._last_end_ns
            if number == self.anchor:
                self._end_step(began_ns or end_ns)
            self._run_times[number].add(end_ns - start_ns)
            self._last_end_ns = end_ns
            more += ',"update":1' * (number in self._updates)
            lines.append(
                f'{{"kind":"call","signature":{number},"start_ns":{start_ns},"end_ns":{end_ns},'
                f'"profiled":0,"light":1{more}}}'
            )
            self._most = max(self._most, self._run_times[number].count)
        self._drained_ns = 0
        self.loop.lines += len(lines)
        self.loop.recorder.steps(lines)

    def begin(self, number: int) -> bool:
        """Begin a call; returns whether it is logged."""
        if not self.may_begin() or not self.loop.drives():
            return False
        if self.light.noted:
            self._work_up_notes()
        self._start_ns = start_ns = now_ns()
        loop = self.loop
        quiet, marks = loop.light, self._marks(number)
        if marks:
            self._next_step(start_ns)
            self._advance_window(start_ns)
        self._note(marks=marks, quiet=quiet or loop.light)
        if self.follows:
            self._members += ahead_member(loop.ahead())
        self._inside, self._number = True, number
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
            if self._marks(number):
                self._begin_notes(end_ns)
        except Exception as error:
            self.loop.stop(error)

    def ended(self, number: int) -> None:
        """Log a call whose start was not seen: it counts from the end of the last call."""
        if not self.may_begin() or not self.loop.drives():
            return
        if self.light.noted:
            self._work_up_notes()
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
            self._begin_notes(end_ns)

    def launched(self, output: object) -> None:
        """A call has returned what the device may still compute; never raises."""
        if self.follows:
            self.loop.guard(lambda: self.loop.launched(output))

    def _latest(self) -> tuple[int, int]:
        """When the last call ended, or the current one began (0: none), and how many are noted."""
        noted = self.light.noted[:]  # any thread may ask: the list may be emptied meanwhile
        last = noted[-1] if noted else 0
        end_ns = last if isinstance(last, int) else last[2]
        return max(end_ns, self._last_end_ns, self._start_ns), len(noted)

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
        """End a step, begin the next one, and decide how that is observed."""
        self._end_step(time_ns)
        self.loop.pace(time_ns)

    def _end_step(self, time_ns: int) -> None:
        """End a step and begin the next one."""
        if self._step_start_ns:
            self.loop.compare(self._step_start_ns, time_ns)
        self._step_start_ns = time_ns
        self._steps += 1

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
        self._choose_anchor(number)
        if number != self.anchor:
            loop.window.check_age()
        members = self._members + ',"update":1' * (number in self._updates)
        line = loop.line(f'"call","signature":{number}', start_ns, end_ns, members)
        if self._early is None:
            loop.recorder.step(line)
            return
        self._early.append(line)
        if run_times.count >= _FEWEST_CALLS:
            early, self._early = self._early, None
            for each in early:
                loop.recorder.step(each)

    def _choose_anchor(self, number: int) -> None:
        """Let this kind mark the steps if it comes before the current one."""
        if number != self.anchor and not self.loop.window.running and self._leads(number):
            self.anchor = number
            self._step_start_ns = 0
            self.loop.change.restart()

    def _leads(self, number: int) -> bool:
        """Whether a kind that updates displaces one that does not, or one takes more time."""
        if self.anchor == _NONE:
            return True
        times, anchor = self._run_times[number], self._run_times[self.anchor]
        updates = {kind for kind in self._updates if self._run_times[kind].count}
        if (number in updates) != (self.anchor in updates):
            update, other = (times, anchor) if number in updates else (anchor, times)
            return (update.total_ns >= _LEAST_UPDATE * other.total_ns) == (update is times)
        most = max((self._run_times[kind].count for kind in updates), default=self._most)
        if times.count < _LEAST_FREQUENCY * most:
            return False
        return times.total_ns > anchor.total_ns or anchor.count < _LEAST_FREQUENCY * most
