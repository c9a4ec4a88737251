"""Note when a thread comes to another line of the user's program.

The interpreter calls a trace function at each call, and inside frames of the program also at each
line and return. Frames of libraries are not traced, so that their time belongs to the line of the
program that called them. Of one function of a library, such as that which calls each module of a
model, it can be noted when it runs. A debugger or a coverage tool has a trace function of its own,
which is left alone: the clock does not start beside it, and stops when another one takes its place.

What the clock takes itself is measured when it starts, so that it can be left out. Otherwise a loop
of short lines, or a line that calls many functions of libraries, would seem to take longer.

Source: `sys.settrace` and "Data model: Frame objects" in the documentation of Python.
"""

from __future__ import annotations

import dis
import sys
from itertools import pairwise
from threading import get_ident
from time import perf_counter_ns
from types import BuiltinFunctionType
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import never_compiled
from stepwhy.record.core.user_code import UserFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType
    from typing import Any, Protocol

    Trace = Callable[[FrameType, str, Any], Any]

# One mark takes up to 1 µs.
_MOST_MARKS = 200_000
# A call of a library takes 0.2 µs more while the clock runs, and is no mark. So the clock gives up
# when the steps take this much longer than expected.
_MOST_EXTRA_NS = 500_000_000
# Place of a mark: number of the code, and the line in it.
_LINE_BITS = 32
_LINE = (1 << _LINE_BITS) - 1
# Code that a line of the program holds itself.
_NAMELESS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>"}
NOWHERE = -1
"""The place of time outside of all lines of the program."""
_TURNS, _ROUNDS = 100, 3

if TYPE_CHECKING:

    class WatchedCalls(Protocol):
        """Calls of one function of a library.

        Attributes:
            code: What the function runs; None if there is no such function.
            opened: Number of what each running call is about, outermost first, after `NOWHERE`.
        """

        code: CodeType | None
        opened: list[int]

        def enter(self, frame: FrameType) -> None:
            """A call begins."""

        def leave(self) -> None:
            """The innermost call ends."""


def is_in_use() -> bool:
    """Whether something traces the calling thread, or keeps others from it as debuggers do."""
    return sys.gettrace() is not None or type(sys.settrace) is not BuiltinFunctionType


class LineClock:
    """The lines of one thread, in order.

    Args:
        watched: Calls of a library that are noted as well.

    Attributes:
        times: When the thread came to another line, `perf_counter_ns`, ascending; (marks,).
        places: The line from then on, see `line`; (marks,).
        depths: Number of the program's frames on the stack from then on; (marks,).
        calls: Number of calls of other code until then; (marks,).
        inside: The innermost watched call from then on, `NOWHERE` for none; (marks,).
        mark_ns, call_ns: What a mark takes, and a call of other code in addition.
        gave_up: Whether there were too many marks, or the steps took too long.
    """

    def __init__(self, watched: WatchedCalls | None = None) -> None:
        self.times: list[int] = []
        self.places: list[int] = []
        self.depths: list[int] = []
        self.calls: list[int] = []
        self.inside: list[int] = []
        self.mark_ns = self.call_ns = 0.0
        self.gave_up = self._was_interrupted = False
        self._is_on = False
        self._files = UserFiles()
        self._stack: list[int] = []
        self._codes: list[CodeType] = []
        self._of_code: dict[int, tuple[int, Trace]] = {}
        self._deadline_ns = 0
        self._home = get_ident()
        self._watched = watched
        self._watched_code = watched.code if watched else None
        self._opened = watched.opened if watched else [NOWHERE]
        self._calls = 0
        # One object, to be recognised: each access to a method makes another.
        self._trace: Trace = self._enter

    def start(self, expected_ns: int) -> bool:
        """Start on the calling thread, unless something else traces it.

        Args:
            expected_ns: How long it is going to run.

        Returns:
            Whether it runs.
        """
        if is_in_use() or any(_resizes_arrays(each.f_code) for each in self._user_frames()):
            return False
        self._deadline_ns = perf_counter_ns() + expected_ns + _MOST_EXTRA_NS
        self._calibrate()
        for frame in reversed(list(self._user_frames())):
            base, local = self._code(frame.f_code)
            self._stack.append(base + (frame.f_lineno or 0))
            frame.f_trace = local
        self._note()
        self._is_on = True
        sys.settrace(self._trace)
        return True

    def _calibrate(self) -> None:
        """Measure what a mark, and a call of other code, takes on this thread."""
        local = self._local(0)
        self._stack.append(NOWHERE)
        self._is_on = True
        # Each turn of the loop is two lines.
        self.mark_ns = _extra_ns(_turns, lambda *_: local) / (2 * _TURNS)
        self.call_ns = _extra_ns(_call_often, self._trace) / _TURNS
        self._is_on = False
        self._calls = 0
        for noted in (self._stack, self.times, self.places, self.depths, self.calls, self.inside):
            noted.clear()

    def stop(self) -> None:
        """Stop on the calling thread; another trace function stays."""
        self._is_on = False
        self._stop_tracing()
        ours = {id(local) for _, local in self._of_code.values()}
        for frame in self._user_frames():
            if id(frame.f_trace) in ours:
                frame.f_trace = None

    @property
    def is_replaced(self) -> bool:
        """Whether something else traces the calling thread."""
        return sys.gettrace() not in {None, self._trace}

    @property
    def is_hopeless(self) -> bool:
        """Whether it could not run in later steps either.

        It could if a step held something rare, such as an evaluation, which took the time.
        """
        return (self.gave_up and not self._was_interrupted) or self.is_replaced

    def is_whole(self) -> bool:
        """Whether it has seen everything of the calling thread until now."""
        return (
            self._is_on
            and not self.gave_up
            and sys.gettrace() is self._trace
            and len(self._stack) == sum(1 for _ in self._user_frames())
        )

    def costs(self) -> list[float]:
        """What noting took from each mark until the next, ns; (marks,)."""
        calls = [*self.calls, self._calls]
        return [self.mark_ns + (b - a) * self.call_ns for a, b in pairwise(calls)]

    def line(self, place: int) -> str | None:
        """The line of a place, 'train.py(12): step'; None outside of the program."""
        if place == NOWHERE:
            return None
        code = self._codes[place >> _LINE_BITS]
        number = place & _LINE
        return f"{self._files.user_name(code.co_filename)}({number}): {code.co_name}"

    def _user_frames(self) -> Iterator[FrameType]:
        """The program's frames on the calling thread's stack, innermost first."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if self._files.user_name(frame.f_code.co_filename) is not None:
                yield frame
            frame = frame.f_back

    def _note(self) -> None:
        self.times.append(perf_counter_ns())
        self.places.append(self._stack[-1] if self._stack else NOWHERE)
        self.depths.append(len(self._stack))
        self.calls.append(self._calls)
        self.inside.append(self._opened[-1])

    def _code(self, code: CodeType) -> tuple[int, Trace]:
        """First place of a code, and the trace function of its frames."""
        found = self._of_code.get(id(code))
        if found is None:
            base = len(self._codes) << _LINE_BITS
            self._codes.append(code)  # which keeps its id its own
            found = self._of_code[id(code)] = base, self._local(base)
        return found

    @never_compiled
    def _enter(self, frame: FrameType, _event: str, _: Any) -> Trace | None:
        """A function is called, or a generator goes on."""
        code = frame.f_code
        if not self._is_on:
            self._stop_tracing()  # it was stopped on another thread
            return None
        try:
            if self._files.user_name(code.co_filename) is None:
                self._calls += 1
                if perf_counter_ns() > self._deadline_ns:
                    self._was_interrupted = sum(self.costs()) < _MOST_EXTRA_NS / 2
                    self._give_up()
                return self._enter_watched(frame) if code is self._watched_code else None
            is_new, (base, local) = id(code) not in self._of_code, self._code(code)
            if is_new and _resizes_arrays(code):
                self._give_up()
                return None
        except RecursionError:  # the program is about to reach the limit, but has not yet
            return None
        if get_ident() != self._home:  # the program traces its other threads like this one
            self._stop_tracing()
            return None
        number = frame.f_lineno or 0
        if self._is_part_of_line(code, number):
            return None
        self._stack.append(base + number)
        if number == code.co_firstlineno:
            self._stack[-1] = NOWHERE  # its first line is about to begin
        else:
            self._note()
        return local

    def _enter_watched(self, frame: FrameType) -> Trace | None:
        if self._watched is None or not self._is_on or get_ident() != self._home:
            return None
        self._watched.enter(frame)
        frame.f_trace_lines = False
        self._note()
        return self._in_watched

    @never_compiled
    def _in_watched(self, _frame: FrameType, event: str, _: Any) -> Trace | None:
        """A watched call goes on, or ends."""
        if not self._is_on or self._watched is None:
            return None
        if event == "return":
            self._watched.leave()
            self._note()
        return self._in_watched

    def _is_part_of_line(self, code: CodeType, number: int) -> bool:
        """Whether a code is a comprehension or a lambda within the line that calls it."""
        place = self._stack[-1] if self._stack else NOWHERE
        return (
            code.co_name in _NAMELESS
            and place & _LINE == number
            and place != NOWHERE
            and self._codes[place >> _LINE_BITS].co_filename == code.co_filename
            and {line for *_, line in code.co_lines()} <= {number, None}
        )

    def _give_up(self) -> None:
        self.gave_up, self._is_on = True, False
        self._stop_tracing()

    def _stop_tracing(self) -> None:
        """Trace the calling thread no longer; the function of something else stays."""
        if sys.gettrace() is self._trace:
            sys.settrace(None)

    def _local(self, base: int) -> Trace:
        """The trace function of the frames of one code; as fast as it can be."""
        stack, clock = self._stack, perf_counter_ns
        times, places, depths = self.times, self.places, self.depths
        calls, inside, opened = self.calls, self.inside, self._opened

        @never_compiled
        def local(frame: FrameType, event: str, _: Any) -> Any:
            if not self._is_on:
                return None
            if event == "line":
                place = base + (frame.f_lineno or 0)
                if not stack or stack[-1] == place:
                    return local
                stack[-1] = place
            elif event == "return" and stack:
                stack.pop()
                place = stack[-1] if stack else NOWHERE
            else:
                return local
            times.append(clock())
            places.append(place)
            depths.append(len(stack))
            calls.append(self._calls)
            inside.append(opened[-1])
            if len(times) > _MOST_MARKS:
                self._give_up()
            return local

        return local


def _resizes_arrays(code: CodeType) -> bool:
    """Whether a code calls `resize` without a use for what it returns, as that of NumPy's arrays.

    Python 3.11 refers to the object of a method in C that a traced thread calls once more, and
    NumPy resizes no array that something else refers to.
    """
    if sys.version_info >= (3, 12) or "resize" not in code.co_names:
        return False
    depth = 0  # of calls within the call of `resize`; 0 outside of it
    is_over = False
    for each in dis.get_instructions(code):
        if is_over and each.opname == "POP_TOP":
            return True
        is_over = False
        if depth or (each.opname == "LOAD_METHOD" and each.argval == "resize"):
            opens = each.opname in {"LOAD_METHOD", "PUSH_NULL"} or (
                each.opname == "LOAD_GLOBAL" and (each.arg or 0) & 1
            )
            closes = each.opname in {"CALL", "CALL_FUNCTION_EX"}
            depth += bool(opens) - closes
            is_over = closes and not depth
    return False


def _extra_ns(function: Callable[[], object], trace: Any) -> float:
    """How much longer a function takes while it is traced, ns; the least of several."""

    def run_ns() -> int:
        start = perf_counter_ns()
        function()
        return perf_counter_ns() - start

    usual = min(run_ns() for _ in range(_ROUNDS))
    sys.settrace(trace)
    try:
        traced = min([run_ns() for _ in range(_ROUNDS)])
    finally:
        sys.settrace(None)
    return max(traced - usual, 0)


def _turns() -> int:
    turn = 0
    while turn < _TURNS:
        turn += 1
    return turn


def _call_often() -> None:
    for _ in range(_TURNS):
        _call()


def _call() -> None:
    pass
