"""The partition of steps by line, against programs that note how long their own lines take."""

from __future__ import annotations

import gc
import re
import sys
import time
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.record.torch.line_programs import PROGRAMS, run

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.torch.line_rows import Event, Marks, Operations, StepRows
from stepwhy.record.torch.line_window import LineWindow
from stepwhy.record.windows.line_clock import LineClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.record.torch.line_programs import Nap

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(sys.gettrace() is not None, reason="something else traces the tests"),
]


class Loop:
    """Passes the steps of a program to a line clock, as the observer of steps does."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recorder = Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")
        self.kept: list[Mapping[str, Any]] = []
        self.ends: list[int] = []
        monkeypatch.setattr(recorder, "keep", lambda _, value: self.kept.append(value))
        self.window = LineWindow(recorder)
        self.window._due_step = 1

    def boundary(self) -> None:
        self.ends.append(now_ns())
        step = len(self.ends)
        self.window.next_step(step, ready=True, step_ns=1000, end_ns=self.ends[-1])


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    pytest.importorskip("torch")
    return Loop(tmp_path, monkeypatch)


def by_line(noted: Mapping[str, Any], step: Mapping[str, Any]) -> Counter[int]:
    """Time of each line of the program in a step, ns."""
    times: Counter[int] = Counter()
    for line, dur_ns in zip(step["line"], step["dur_ns"], strict=True):
        found = re.search(r"program.py\((\d+)\)", noted["strings"][line]) if line >= 0 else None
        if found:
            times[int(found[1])] += dur_ns
    return times


def napped(naps: list[Nap], start_ns: int, end_ns: int) -> Counter[int]:
    """The same as the program has noted it."""
    from stepwhy.record.core.clock import EPOCH_OFFSET_NS

    times: Counter[int] = Counter()
    for line, begin_ns, stop_ns in naps:
        if start_ns <= begin_ns + EPOCH_OFFSET_NS < end_ns:
            times[line] += stop_ns - begin_ns
    return times


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_each_line_has_its_time(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(LineClock, "costs", lambda clock: [0.0] * len(clock.times))
    naps = run(name, str(tmp_path / "program.py"), loop.boundary)
    assert sys.gettrace() is None
    (noted,) = loop.kept
    assert [step["step"] for step in noted["steps"]] == [2, 3]
    for step in noted["steps"]:
        start_ns, end_ns = loop.ends[step["step"] - 1 : step["step"] + 1]
        # Without what the window did when the step began.
        assert sum(step["dur_ns"]) <= end_ns - start_ns
        times, expected = by_line(noted, step), napped(naps, start_ns, end_ns)
        assert expected
        # The lines sum to the step, so that time that one lacks would be at another.
        for line, time_ns in expected.items():
            assert times[line] >= time_ns, (line, times)


def test_what_the_clock_takes_is_left_out() -> None:
    marks = Marks(
        times=[0, 40, 70], places=[1, 2, 1], depths=[1, 1, 1], costs=[8, 40, 10], inside=[3, 3, -1]
    )
    operations = Operations([Event(10, 30, "aten::mm", True)])
    assert StepRows(operations, marks).of(0, 100) == [
        (None, 1, 6, 0, 3),  # of 10 and 10 ns around the operation
        ("aten::mm", 1, 20, 0, 3),
        (None, 1, 6, 0, 3),
        (None, 2, 0, 0, 3),  # no time is negative
        (None, 1, 20, 0, -1),
    ]


MODELS = """
class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

    def forward(self, x):
        return self.inner(x) * 3


class Failing(torch.nn.Module):
    def forward(self, x):
        raise ValueError(x)


part, failing = Part(), Failing()


def step():
    x = torch.ones(4)
    part(x)
    try:
        failing(x)
    except ValueError:
        x.exp()
"""


def test_each_operation_is_of_the_innermost_module(loop: Loop, tmp_path: Path) -> None:
    import torch

    program: dict[str, Any] = {"torch": torch}
    path = str(tmp_path / "program.py")
    exec(compile(MODELS, path, "exec"), program)  # noqa: S102 - from above
    kept = weakref.ref(program["part"])
    for _ in range(4):
        loop.boundary()
        program["step"]()
    loop.boundary()
    (noted,) = loop.kept
    names = [*noted["strings"], None]
    for step in noted["steps"]:
        rows = zip(step["op"], step["module"], strict=True)
        found = [(names[op], names[module]) for op, module in rows if op >= 0]
        assert found == [
            ("aten::ones", None),
            ("aten::linear", "Part.inner.0"),
            ("aten::relu", "Part.inner.1"),
            ("aten::mul", "Part"),
            ("aten::exp", None),
        ]
    program.clear()
    gc.collect()
    assert kept() is None  # modules that were named are let go


def test_a_step_that_holds_something_rare_does_not_end_the_attempts(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwhy.record.windows.line_clock._MOST_EXTRA_NS", 50_000_000)

    def boundary() -> None:
        loop.boundary()
        if len(loop.ends) == 2:  # such as an evaluation
            time.sleep(0.1)

    run("plain", str(tmp_path / "program.py"), boundary)
    assert not loop.kept
    for _ in range(12):
        loop.boundary()
    assert [len(noted["steps"]) for noted in loop.kept] == [2]


def test_a_mark_and_a_call_of_a_library_take_time() -> None:
    clock = LineClock()
    assert clock.start(10**9)
    clock.stop()
    assert clock.call_ns > 0
    assert clock.mark_ns > 0
    assert len(clock.times) == len(clock.costs())


def test_a_comprehension_is_part_of_its_line(tmp_path: Path) -> None:
    path = str(tmp_path / "program.py")
    source = "def step(x):\n    return sum(i for i in x), [i for i in x], max(x, key=lambda i: i)\n"
    program: dict[str, Any] = {}
    exec(compile(source, path, "exec"), program)  # noqa: S102 - from above
    clock = LineClock()
    assert clock.start(10**9)
    try:
        program["step"](range(100))
        assert clock.is_whole()
    finally:
        clock.stop()
    lines = {clock.line(place) or "" for place in clock.places}
    assert sum("program.py" in line for line in lines) == 1


def test_a_debugger_is_left_alone(loop: Loop, tmp_path: Path) -> None:
    def debugger(*_: object) -> None:
        return None

    sys.settrace(debugger)
    try:
        run("plain", str(tmp_path / "program.py"), loop.boundary)
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)
    assert not loop.kept


def test_a_debugger_that_starts_meanwhile_stays(loop: Loop, tmp_path: Path) -> None:
    def debugger(*_: object) -> None:
        return None

    def boundary() -> None:
        loop.boundary()
        if len(loop.ends) == 2:
            sys.settrace(debugger)

    try:
        run("plain", str(tmp_path / "program.py"), boundary)
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)
    assert not loop.kept
    assert not loop.window.touched


def test_a_debugger_that_guards_the_trace_function_is_left_alone(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[object] = []

    def warn(function: object) -> None:
        calls.append(function)

    monkeypatch.setattr(sys, "settrace", warn)
    run("plain", str(tmp_path / "program.py"), loop.boundary)
    assert not calls
    assert not loop.kept


def test_complete_steps_are_kept_when_the_program_ends(loop: Loop, tmp_path: Path) -> None:
    def boundary() -> None:
        loop.boundary()
        if len(loop.ends) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("plain", str(tmp_path / "program.py"), boundary)
    loop.window.finish()
    (noted,) = loop.kept
    assert [step["step"] for step in noted["steps"]] == [2]
    assert sys.gettrace() is None


def test_the_clock_follows_one_window_more_once_the_step_time_has_changed(
    loop: Loop, tmp_path: Path
) -> None:
    def boundary() -> None:
        loop.boundary()
        step = len(loop.ends)
        if step in {10, 30, 50}:
            loop.window.reopen()
        if step in {1, 9, 11, 31, 51}:
            loop.window.follow(step)

    loop.window._due_step = None
    run("plain", str(tmp_path / "program.py"), boundary)
    for _ in range(60):
        boundary()
    steps = [noted["steps"][0]["step"] for noted in loop.kept]
    assert len(steps) == 2
    assert steps[0] < 10
    assert 11 < steps[1] < 30


def test_a_recursion_down_to_the_limit_ends_as_without_the_clock() -> None:
    def depth(number: int) -> int:
        try:
            return depth(number + 1)
        except RecursionError:
            return number

    # Files that are seen first there take more frames to be recognised.
    space: dict[str, Any] = {}
    exec(compile("def leaf(): return 1", "/program/other.py", "exec"), space)  # noqa: S102

    def deep(number: int) -> int:
        return deep(number - 1) if number else space["leaf"]()

    alone = depth(0)
    clock = LineClock()
    assert clock.start(10**9)
    try:
        assert deep(alone - 12) == 1
        assert alone - depth(0) <= 3  # calling the clock takes a frame
    finally:
        clock.stop()
    assert sys.gettrace() is None


def test_a_step_that_ends_in_a_backward_pass_is_not_noted(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = iter([False, False, True, False, False, False])
    monkeypatch.setattr(
        "stepwhy.record.torch.line_window.graph_task", lambda: 0 if next(inside, False) else -1
    )
    programs = PROGRAMS["plain"].replace("range(4)", "range(6)")
    monkeypatch.setitem(PROGRAMS, "plain", programs)
    run("plain", str(tmp_path / "program.py"), loop.boundary)
    (noted,) = loop.kept
    assert [step["step"] for step in noted["steps"]] == [4, 5]
    for step in noted["steps"]:
        start_ns, end_ns = loop.ends[step["step"] - 1 : step["step"] + 1]
        assert sum(step["dur_ns"]) <= end_ns - start_ns


def test_arrays_can_be_resized_while_lines_are_noted() -> None:
    numpy = pytest.importorskip("numpy")

    def step() -> int:
        array = numpy.arange(3.0)
        array.resize(max(4, len(array)))
        return len(array)

    def loop() -> int:
        array = numpy.arange(3.0)
        clock.start(10**9)
        array.resize(5)
        return len(array)

    clock = LineClock()
    clock.start(10**9)
    try:
        assert step() == 4
    finally:
        clock.stop()
    try:
        assert loop() == 5
    finally:
        clock.stop()


def test_lines_that_resize_images_are_noted() -> None:
    class Image:
        def resize(self, size: int) -> int:
            return size

    def step(images: list[int]) -> None:
        images.append(Image().resize(len(images)))

    clock = LineClock()
    assert clock.start(10**9)
    step([])
    assert clock.is_whole()
    clock.stop()
