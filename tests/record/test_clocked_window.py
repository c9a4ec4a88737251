"""When the line clock runs after a traced window, and what it keeps, on a clock of the test's."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps.step_window import NoWindow
from stepwhy.record.windows import clocked_window, line_clock
from stepwhy.record.windows.clocked_window import ClockedWindow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    sys.gettrace() is not None, reason="something else traces the tests"
)

# No file of the program: its time is that of the line that calls it.
_TICK = """
def tick(units):
    now[0] += 1000 * units
"""
_STEPS = """
def helper():
    tick(30)
    tick(10)

def calls():
    for _ in range(50):
        tick(1)

for number in range(count):
    boundary(number)
    tick(100)
    helper()
    calls()
"""
_MANY_VISITS = """
for number in range(count):
    boundary(number)
    for _ in range(5000):
        tick(1)
        tick(2)
"""
_INTERRUPTED = """
for number in range(count):
    boundary(number)
    for i in range(400):
        tick(1)
        interrupted(i)
    tick(400)
"""
TIMES = {4: 10, 3: 30, 8: 50, 12: 100}
"""Time of each line of the program in a step, in units."""


class Window(NoWindow):
    """A window that has been written before the steps of the test."""

    kept = 1


class Loop:
    """Runs a program, and passes its steps to a window."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = [1]
        self.slower = 0
        monkeypatch.setattr(clocked_window, "perf_counter_ns", lambda: self.now[0])
        monkeypatch.setattr(line_clock, "perf_counter_ns", self.traced_ns)
        recorder = Recorder(str(tmp_path), "jax", "1.0", "jax-jit")
        self.kept: list[Mapping[str, Any]] = []
        monkeypatch.setattr(recorder, "keep", lambda _, value: self.kept.append(value))
        window: Any = Window()
        self.window = ClockedWindow(recorder, window)
        self.path = str(tmp_path / "program.py")
        self.touched: list[int] = []

    def traced_ns(self) -> int:
        """The time, after what the clock takes for a call or for another line."""
        self.now[0] += self.slower
        return self.now[0]

    def run(
        self,
        text: str = _STEPS,
        count: int = 20,
        also: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Run the steps of a program.

        Args:
            text: The program.
            count: Number of steps.
            also: Called at the start of each step.
        """
        known: dict[str, Any] = {"now": self.now}
        exec(compile(_TICK, "<tick>", "exec"), known)  # noqa: S102 - from above

        def boundary(number: int) -> None:
            self.window.next_step(number, start=True)
            if self.window.touched:
                self.touched.append(number)
            also(number)

        def interrupted(place: int) -> None:
            self.now[0] += 1000 * (500 if place == 7 else 0)

        program = {"tick": known["tick"], "boundary": boundary, "count": count}
        program["interrupted"] = interrupted
        exec(compile(text, self.path, "exec"), program)  # noqa: S102 - from above

    def times(self) -> list[Counter[int]]:
        """Time of each line in the steps that were kept, in units."""
        (noted,) = self.kept
        lines = [int(text.partition("(")[2].partition(")")[0]) for text in noted["strings"]]
        found = []
        for step in noted["steps"]:
            assert set(step["op"]) == {-1}
            times: Counter[int] = Counter()
            for line, dur_ns in zip(step["line"], step["dur_ns"], strict=True):
                times[lines[line]] += dur_ns
            found.append(Counter({line: round(ns / 1000) for line, ns in times.items()}))
        return found


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    return Loop(tmp_path, monkeypatch)


def test_three_steps_are_noted_some_steps_after_the_window(loop: Loop) -> None:
    loop.run()
    for times in loop.times():
        assert {line: times[line] for line in TIMES} == TIMES
    # The file is written in the step after them.
    assert loop.touched == [4, 5, 6, 7]
    assert [step["step"] for step in loop.kept[0]["steps"]] == [4, 5, 6]
    assert sys.gettrace() is None


def test_what_the_clock_adds_to_calls_is_subtracted(loop: Loop) -> None:
    loop.slower = 300
    loop.run()
    for times in loop.times():
        for line, units in TIMES.items():
            assert abs(times[line] - units) <= 2, (line, times)


def test_a_step_that_holds_something_else_is_left_out(loop: Loop) -> None:
    def evaluate(number: int) -> None:
        loop.now[0] += (number == 5) * 10_000_000

    loop.run(also=evaluate)
    assert [step["step"] for step in loop.kept[0]["steps"]] == [4, 6]


def test_many_visits_take_few_rows(loop: Loop) -> None:
    loop.run(_MANY_VISITS, count=12)
    for step, times in zip(loop.kept[0]["steps"], loop.times(), strict=True):
        assert len(step["line"]) <= 2000
        assert times[5] / times[6] == pytest.approx(1 / 2, abs=0.01)


def test_an_interruption_of_a_short_line_is_left_out(loop: Loop) -> None:
    loop.run(_INTERRUPTED, count=12)
    for times in loop.times():
        assert (times[5], times[7]) == (400, 400)
        assert times.total() == pytest.approx(800, abs=10)


def test_it_runs_once(loop: Loop) -> None:
    loop.run(count=100)
    assert loop.touched == [4, 5, 6, 7]
    assert not loop.window.running


def test_a_debugger_is_left_alone(loop: Loop) -> None:
    def debugger(*_: object) -> None:
        return None

    sys.settrace(debugger)
    try:
        loop.run()
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)
    assert not loop.kept
    assert not loop.touched


def test_complete_steps_are_kept_when_the_program_ends(loop: Loop) -> None:
    loop.run(count=7)
    loop.window.finish()
    assert [step["step"] for step in loop.kept[0]["steps"]] == [4, 5]
    assert sys.gettrace() is None


def test_it_runs_later_if_the_program_pauses_before_a_step_is_complete(loop: Loop) -> None:
    loop.run(count=5)
    loop.window.finish()
    assert not loop.kept
    loop.run()
    assert len(loop.kept) == 1
    assert len(loop.times()) == 3


def test_nothing_is_kept_of_an_abandoned_one(loop: Loop) -> None:
    def end(number: int) -> None:
        if number == 6:
            loop.window.abandon()

    loop.run(also=end)
    assert not loop.kept
    assert sys.gettrace() is None


def test_a_fork_starts_over(loop: Loop) -> None:
    loop.run(count=6)
    loop.window.forget()
    assert sys.gettrace() is None
    assert not loop.window.running
    loop.run()
    assert len(loop.kept) == 1


def test_long_steps_are_noted_once(loop: Loop) -> None:
    text = "for number in range(count):\n    boundary(number)\n    tick(300_000)\n"
    loop.run(text, count=12)
    assert loop.touched == [4, 5]
