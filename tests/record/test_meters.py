"""The meters of a step."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING

import pytest

from stepwhy.record.steps import meters
from stepwhy.record.steps.meters import (
    UNKNOWN,
    CompileTime,
    InputWait,
    ProcessLoad,
    ThreadTime,
    load_members,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_nested_compile_times_count_once() -> None:
    time = CompileTime()
    time.add("trace inner", 20, 30)
    time.add("trace outer", 10, 50)
    time.add("lower", 50, 60)
    assert time.began_ns() == 10
    found = json.loads("{" + time.take()[1:] + "}")
    assert found == {"compile_ns": 50, "compiled": {"trace outer": 40, "lower": 10}}
    assert time.take() == ""


def test_reading_a_wait_resets_it() -> None:
    wait = InputWait()
    wait.add(3)
    wait.add(4)
    assert [wait.take(), wait.take()] == [7, UNKNOWN]


def test_without_a_wait_a_step_has_none_where_all_are_seen() -> None:
    wait = InputWait(sees_all=True)
    assert wait.take() == UNKNOWN
    thread = threading.Thread(target=wait.add, args=(5,))
    thread.start()
    thread.join()
    assert wait.take() == 0
    wait.add(3)
    assert [wait.take(), wait.take()] == [3, 0]


def test_cpu_time_of_a_thread_is_since_the_last_reading() -> None:
    time = ThreadTime()
    assert time.take() == UNKNOWN
    sum(range(10_000))
    assert time.take() > 0
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(time.take()))
    thread.start()
    thread.join()
    assert seen == [UNKNOWN]
    assert time.take() == UNKNOWN


def spin() -> int:
    return sum(range(200_000))


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(meters, "now_ns", clock)
    return clock


@pytest.fixture
def schedstat(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The kernel's file, with a wait of 200 ns so far."""
    file = tmp_path / "schedstat"
    file.write_text("1000 200 5\n")
    monkeypatch.setattr(meters, "_SCHEDSTAT", str(file))
    return file


def measured(load: ProcessLoad, clock: Clock, steps: int, step_ms: int) -> list[int]:
    """Numbers of the steps that were measured, of so many after the first boundary."""
    load.take()
    found = []
    for number in range(steps):
        clock.now += step_ms * 1_000_000
        if load.take()[0] != UNKNOWN:
            found.append(number)
    return found


@pytest.mark.parametrize(
    ("step_ms", "expected"), [(60, [0, 1, 2, 3]), (50, [0, 1, 2, 3]), (30, [0, 3]), (10, [0, 6])]
)
def test_every_long_step_and_some_short_ones_are_measured(
    clock: Clock, step_ms: int, expected: list[int]
) -> None:
    steps = 4 if step_ms > 20 else 8
    assert measured(ProcessLoad(), clock, steps, step_ms) == expected


def test_load_of_the_process_is_that_of_one_step_of_one_thread(clock: Clock) -> None:
    load = ProcessLoad()
    assert load.take() == (UNKNOWN, UNKNOWN)
    sum(range(200_000))
    clock.now += 100_000_000
    used_ns, waited_ns = load.take()
    assert used_ns > 0
    assert waited_ns >= UNKNOWN
    seen: list[tuple[int, int]] = []
    thread = threading.Thread(target=lambda: seen.append(load.take()))
    thread.start()
    thread.join()
    assert seen == [(UNKNOWN, UNKNOWN)]
    assert load.take() == (UNKNOWN, UNKNOWN)


def test_a_step_that_is_left_out_is_not_measured(clock: Clock) -> None:
    load = ProcessLoad()
    load.take()
    load.forget()
    clock.now += 100_000_000
    assert load.take() == (UNKNOWN, UNKNOWN)
    clock.now += 100_000_000
    assert load.take()[0] != UNKNOWN


def test_wait_for_a_core_is_read_from_the_kernel(clock: Clock, schedstat: Path) -> None:
    load = ProcessLoad()
    load.take()
    schedstat.write_text("2000 350 6\n")
    clock.now += 1
    assert load.take()[1] == 150


@pytest.mark.usefixtures("schedstat")
def test_starting_over_keeps_the_file_unless_the_process_has_forked(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = ProcessLoad()
    load.take()
    file = load._file
    for _ in range(6):
        load.start_over()
        assert load.take() == (UNKNOWN, UNKNOWN)
        clock.now += 100_000_000
        assert load.take() != (UNKNOWN, UNKNOWN)
    assert load._file == file
    monkeypatch.setattr(os, "getpid", lambda: -1)
    load.start_over()
    load.take()
    assert load._file not in {file, UNKNOWN}


@pytest.mark.parametrize("content", [None, "", "no numbers here", "1 2"])
def test_wait_for_a_core_is_unknown_where_the_kernel_does_not_tell(
    schedstat: Path, content: str | None
) -> None:
    if content is None:
        schedstat.unlink()
    else:
        schedstat.write_text(content)
    load = ProcessLoad()
    load.take()
    assert load.take()[1] == UNKNOWN


def test_another_file_under_the_number_of_the_kernels_is_left_alone(
    schedstat: Path, tmp_path: Path
) -> None:
    """Daemons close all files, without knowing whose they are."""
    assert schedstat.exists()
    own = tmp_path / "own"
    load = ProcessLoad()
    load.take()
    own.write_text("the program's")
    handle = os.open(own, os.O_RDONLY)
    os.dup2(handle, load._file)
    number = load._file
    assert load.take()[1] == UNKNOWN
    assert os.read(number, 99) == b"the program's"
    os.close(handle)
    os.close(number)


def test_members_of_a_line_leave_out_what_is_unknown() -> None:
    assert load_members(UNKNOWN, UNKNOWN) == ""
    assert json.loads("{" + load_members(5, 0)[1:] + "}") == {
        "process_cpu_ns": 5,
        "run_delay_ns": 0,
    }
