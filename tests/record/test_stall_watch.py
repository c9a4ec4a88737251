"""Where a process stands in a step that takes much longer than usual, with a fake clock."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.steps import stall_watch
from stepwhy.record.steps.stall_watch import (
    STALL_FILE,
    STALL_VARIABLE,
    StallWatch,
    Standing,
    inside_of,
    lines_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

S = 10**9


class Recorder:
    """Keeps what is noted."""

    def __init__(self) -> None:
        self.noted: list[dict[str, Any]] = []

    def note(self, name: str, value: dict[str, Any]) -> None:
        assert name == STALL_FILE
        self.noted.append(dict(value))


class Program:
    """A program whose step and clock a test sets."""

    def __init__(self, collectives: Callable[[], dict[str, Any]] = lambda: {"entries": []}) -> None:
        self.now_ns = 1000 * S
        self.standing: Standing | None = Standing(1000 * S, 7, (S, S, S, 2 * S), 0)
        self.recorder = Recorder()
        self.watch = StallWatch(
            self.recorder,  # type: ignore[arg-type]
            lambda: self.standing,
            collectives,
            lambda: self.now_ns,
        )

    def look(self, after_s: float) -> float:
        self.now_ns = 1000 * S + round(after_s * S)
        return self.watch.look()


def test_nothing_is_written_before_it_is_due() -> None:
    program = Program()
    assert program.look(12) == pytest.approx(18)
    assert program.look(29.99) == pytest.approx(0.05)
    assert program.recorder.noted == []


def test_where_it_stands_is_written_when_it_is_due_and_later_again() -> None:
    program = Program()
    assert program.look(30) == pytest.approx(30)
    first, second = program.recorder.noted
    assert (first["recorder"], second["recorder"]) == (None, {"entries": []})
    assert (first["since_ns"], first["time_ns"], first["steps"]) == (1000 * S, 1030 * S, 7)
    assert first["usual_ns"] == S
    assert program.look(59) == pytest.approx(1)
    assert program.look(60) == pytest.approx(60)
    assert len(program.recorder.noted) == 4


def test_long_steps_are_usual_where_the_median_is_long() -> None:
    program = Program()
    program.standing = Standing(1000 * S, 7, (5 * S,) * 9, 0)
    assert program.look(49) == pytest.approx(1)
    program.look(50)
    assert len(program.recorder.noted) == 2


def test_the_next_step_starts_over() -> None:
    program = Program()
    program.look(30)
    program.standing = Standing(1031 * S, 8, (), 0)
    assert program.look(40) == pytest.approx(21)
    assert len(program.recorder.noted) == 2


def test_without_a_step_nothing_is_written() -> None:
    program = Program()
    program.standing = None
    assert program.look(500) == pytest.approx(30)
    assert program.recorder.noted == []


def test_too_few_steps_have_no_median() -> None:
    program = Program()
    program.standing = Standing(1000 * S, 2, (9 * S, 9 * S), 0)
    program.look(30)
    assert program.recorder.noted[0]["usual_ns"] is None


def test_without_a_record_of_collectives_it_is_written_once() -> None:
    program = Program()
    program.watch._collectives = None
    program.look(30)
    assert [one["recorder"] for one in program.recorder.noted] == [None]


def test_a_recorder_that_fails_leaves_the_place() -> None:
    def broken() -> dict[str, Any]:
        raise AttributeError("_dump_fr_trace")

    program = Program(broken)
    program.look(30)
    assert [one["recorder"] for one in program.recorder.noted] == [None]


@pytest.mark.parametrize(("text", "due_s"), [("2.5", 20), ("", 30), ("x", 30), ("-1", 30)])
def test_the_shortest_stall_may_be_set(
    monkeypatch: pytest.MonkeyPatch, text: str, due_s: int
) -> None:
    monkeypatch.setenv(STALL_VARIABLE, text)
    program = Program()
    program.standing = Standing(1000 * S, 7, (2 * S,) * 4, 0)
    assert program.look(0) == pytest.approx(due_s)


def test_the_thread_looks_until_it_is_stopped_and_gets_no_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked, masks = threading.Event(), []
    monkeypatch.setenv(STALL_VARIABLE, "0.001")

    def standing() -> None:
        masks.append(stall_watch.signal.pthread_sigmask(stall_watch.signal.SIG_BLOCK, ()))
        looked.set()

    before = stall_watch.signal.pthread_sigmask(stall_watch.signal.SIG_BLOCK, ())
    watch = StallWatch(Recorder(), standing, dict)  # type: ignore[arg-type]
    threads = threading.enumerate()
    watch.start()
    watch.start()
    assert threading.enumerate() == threads  # programs join all others
    assert looked.wait(20)
    watch.stop()
    assert stall_watch.signal.SIGINT in masks[0]
    assert stall_watch.signal.pthread_sigmask(stall_watch.signal.SIG_BLOCK, ()) == before


def test_lines_are_those_of_the_program_outermost_first() -> None:
    def inner() -> list[str]:
        return lines_of(threading.get_ident())

    *_, caller, innermost = inner()
    name = sys._getframe().f_code.co_name
    assert caller.endswith(f": {name}")
    assert innermost.endswith(": inner")
    assert lines_of(-1) == []


def test_what_the_innermost_line_has_called_is_named_with_its_package() -> None:
    def called_by_library() -> str:
        return inside_of(threading.get_ident())

    assert called_by_library() == ""
    # The observer's own wrapper has the name of what it wraps.
    names: dict[str, Any] = {
        "__name__": "stepwhy.record.jax.waits",
        "look": inside_of,
        "me": threading.get_ident,
    }
    source = "def wait(original):\n    return look(me())\n"
    exec(compile(source, sys.modules["json"].__file__ or "", "exec"), names)  # noqa: S102

    def block_until_ready() -> None:
        """The original."""

    assert names["wait"](block_until_ready) == "jax: block_until_ready"
    names["__name__"] = "numpy.linalg"
    assert names["wait"](block_until_ready) == "numpy: wait"


def test_what_a_decorator_has_made_has_the_name_of_what_it_decorates() -> None:
    names: dict[str, Any] = {"__name__": "keras.src", "look": inside_of, "me": threading.get_ident}
    source = """
def fit():
    return look(me())
def filtered(function):
    def error_handler():
        return function()
    return error_handler
"""
    exec(compile(source, sys.modules["json"].__file__ or "", "exec"), names)  # noqa: S102
    assert names["filtered"](names["fit"])() == "keras: fit"
    assert names["filtered"](lambda: inside_of(threading.get_ident()))() == ""
