"""When a window opens, which steps it marks, and what it writes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.windows import xplane_window
from stepwhy.record.windows.traced_window import ProfilerInUseError
from stepwhy.record.windows.xplane_window import XPlaneWindow, without_host_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# XSpace: planes (1) with one byte each, host names (4).
PLANE, HOST = b"\x0a\x01p", b"\x22\x04host"


class Profiler:
    name = "a.profiler"
    annotated = False

    def __init__(self) -> None:
        self.events: list[str] = []
        self.used = False
        self.conflict = False
        self.on_conflict: Callable[[], None] = lambda: None

    def busy(self) -> bool:
        return self.used

    def start(self, on_conflict: Callable[[], None]) -> None:
        if self.conflict:
            raise ProfilerInUseError
        self.events.append("start")
        self.on_conflict = on_conflict

    def stop(self) -> bytes:
        self.events.append("stop")
        return PLANE + HOST

    def write_beside(self, folder: Path) -> None:
        (folder / "sources.json").write_text("{}")

    def discard(self) -> None:
        self.events.append("discard")

    def mark(self, step: int) -> Callable[[], None]:
        self.events.append(f"begin {step}")
        return lambda: self.events.append(f"end {step}")


@pytest.fixture
def profiler() -> Profiler:
    return Profiler()


@pytest.fixture
def window(tmp_path: Path, profiler: Profiler) -> XPlaneWindow:
    return XPlaneWindow(Recorder(str(tmp_path), "jax", "1.0", "jax-jit"), profiler)


def run(window: XPlaneWindow, steps: range) -> list[int]:
    """Run steps that are ready for a window; returns which of them the profiler touched."""
    touched = []
    for step in steps:
        window.next_step(step, start=True)
        window.begin_step()
        if window.touched:
            touched.append(step)
    return touched


@pytest.fixture
def pending() -> set[int]:
    """The steps that begin before the device has finished the ones before them."""
    return set()


@pytest.fixture
def ahead(
    tmp_path: Path, profiler: Profiler, pending: set[int]
) -> Callable[[range], tuple[list[int], list[dict[str, Any]]]]:
    """Run steps of a host that runs ahead; returns the touched ones and the windows."""
    now = 0
    recorder = Recorder(str(tmp_path), "jax", "1.0", "jax-jit")
    window = XPlaneWindow(recorder, profiler, lambda: now in pending)

    def steps(numbers: range) -> tuple[list[int], list[dict[str, Any]]]:
        nonlocal now
        touched = []
        for now in numbers:
            touched += run(window, range(now, now + 1))
        return touched, kept(tmp_path)

    return steps


def kept(tmp_path: Path) -> list[dict[str, Any]]:
    folders = sorted((tmp_path / f"process-{os.getpid()}").glob("windows/*"))
    return [json.loads((folder / "window.json").read_text()) for folder in folders]


def messages(tmp_path: Path) -> list[str]:
    path = tmp_path / f"process-{os.getpid()}" / "messages.jsonl"
    return [json.loads(line)["slug"] for line in path.read_text().splitlines()]


def test_four_steps_after_one_of_warm_up_are_marked(
    window: XPlaneWindow, profiler: Profiler, tmp_path: Path
) -> None:
    # The step before the marked ones includes the start, the one after them the export.
    assert run(window, range(10, 30)) == [10, 11, 12, 13, 14, 15]
    marks = [f"{what} {step}" for step in (11, 12, 13, 14) for what in ("begin", "end")]
    assert profiler.events == ["start", *marks, "stop"]
    (about,) = kept(tmp_path)
    assert (about["kind"], about["first_step"], about["last_step"]) == ("xplane", 11, 14)
    assert 0 < about["start_ns"] < about["end_ns"]
    (trace,) = tmp_path.glob("process-*/windows/*/trace.xplane.pb")
    assert trace.read_bytes() == PLANE


def test_a_script_that_ends_inside_keeps_complete_steps(
    window: XPlaneWindow, profiler: Profiler, tmp_path: Path
) -> None:
    run(window, range(4))
    window.finish()
    assert [about["last_step"] for about in kept(tmp_path)] == [2]
    # The profiler stops before the mark of the unfinished step ends: the trace does not show it.
    assert profiler.events[-2:] == ["begin 3", "stop"]


def test_a_window_without_a_complete_step_is_not_kept(
    window: XPlaneWindow, profiler: Profiler, tmp_path: Path
) -> None:
    run(window, range(2))
    window.finish()
    assert profiler.events == ["start", "begin 1", "discard"]
    assert kept(tmp_path) == []
    # It is retried with the next sequence of steps.
    run(window, range(2, 9))
    assert [about["first_step"] for about in kept(tmp_path)] == [3]


def test_window_waits_for_the_own_profiler_of_the_training(
    window: XPlaneWindow, profiler: Profiler
) -> None:
    profiler.used = True
    assert run(window, range(5)) == []
    profiler.used = False
    assert run(window, range(5, 7)) == [5, 6]


def test_conflict_is_reported_once(
    window: XPlaneWindow, profiler: Profiler, tmp_path: Path
) -> None:
    profiler.conflict = True
    assert run(window, range(20)) == [0, 16]
    assert messages(tmp_path) == ["profiler-in-use"]
    profiler.conflict = False
    assert run(window, range(20, 60))[0] == 48


def test_window_yields_to_another_profiler(
    window: XPlaneWindow, profiler: Profiler, tmp_path: Path
) -> None:
    run(window, range(3))
    profiler.on_conflict()
    assert profiler.events[-1] == "discard"
    run(window, range(3, 9))
    assert kept(tmp_path) == []
    assert messages(tmp_path) == ["profiler-in-use"]
    # It is retried and does not count, so two more may follow.
    for begin in (10, 40, 60, 80):
        run(window, range(begin, begin + 20))
        window.reopen()
    assert [about["first_step"] for about in kept(tmp_path)] == [19, 41, 61]


def test_a_window_closes_after_its_longest_time(
    window: XPlaneWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(window, range(3))
    monkeypatch.setattr(xplane_window, "_LONGEST_NS", 0)
    window.check_age()
    assert not window.running
    assert [about["last_step"] for about in kept(tmp_path)] == [1]


def test_failing_profiler_only_loses_the_window(
    window: XPlaneWindow, profiler: Profiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int) -> None:
        raise OSError

    monkeypatch.setattr(profiler, "mark", fail)
    run(window, range(9))
    assert profiler.events == ["start", "discard"]
    assert messages(tmp_path) == ["window-lost"]


def test_at_most_three_windows(window: XPlaneWindow, tmp_path: Path) -> None:
    for number in range(5):
        assert bool(run(window, range(20 * number, 20 * number + 10))) == (number < 3)
        window.reopen()
    assert sorted(about["first_step"] for about in kept(tmp_path)) == [1, 21, 41]


def test_open_window_continues_if_the_step_time_changes(
    window: XPlaneWindow, tmp_path: Path
) -> None:
    run(window, range(3))
    window.reopen()
    run(window, range(3, 7))
    (about,) = kept(tmp_path)
    assert (about["first_step"], about["last_step"]) == (1, 4)


def test_a_profiler_that_failed_is_not_tried_again(
    window: XPlaneWindow, profiler: Profiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> bytes:
        raise OSError

    monkeypatch.setattr(profiler, "stop", fail)
    run(window, range(9))
    window.reopen()
    assert run(window, range(9, 20)) == []


def test_a_window_closes_when_the_process_has_grown(
    window: XPlaneWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter([10 << 20, 20 << 20, 30 << 20, 2 << 30])
    monkeypatch.setattr(xplane_window, "resident_bytes", lambda: next(sizes))
    assert run(window, range(10)) == [0, 1, 2, 3]
    (about,) = kept(tmp_path)
    assert (about["first_step"], about["last_step"]) == (1, 2)


def test_a_window_that_is_too_large_is_dropped(
    window: XPlaneWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xplane_window, "_MOST_FILE_BYTES", 2)
    run(window, range(10))
    assert kept(tmp_path) == []
    assert messages(tmp_path) == ["window-too-large"]


def test_the_resident_memory_of_this_process() -> None:
    found = xplane_window.resident_bytes()
    assert found is None or 1 << 20 < found < 1 << 40


def test_only_host_names_are_removed() -> None:
    assert without_host_names(PLANE + HOST + PLANE) == PLANE + PLANE
    large = b"\x0a\xac\x02" + bytes(300)
    assert without_host_names(large + HOST) == large
    assert without_host_names(b"\x08\x01" + HOST) == b"\x08\x01" + HOST


def test_a_window_covers_all_steps_between_two_waits(
    ahead: Callable[[range], tuple[list[int], list[dict[str, Any]]]], pending: set[int]
) -> None:
    # The loop waits at the end of steps 9, 19, 29.
    pending.update(step for step in range(60) if step % 10)
    touched, (about,) = ahead(range(4, 60))
    assert touched == list(range(4, 21))
    assert (about["first_step"], about["last_step"], about["ran_ahead"]) == (10, 19, True)


def test_waits_after_every_other_step_are_covered_twice(
    ahead: Callable[[range], tuple[list[int], list[dict[str, Any]]]], pending: set[int]
) -> None:
    pending.update(range(1, 60, 2))
    _, (about,) = ahead(range(4, 60))
    assert (about["first_step"], about["last_step"]) == (6, 9)


def test_a_window_without_waits_is_limited(
    ahead: Callable[[range], tuple[list[int], list[dict[str, Any]]]], pending: set[int]
) -> None:
    pending.update(range(400))
    _, (about,) = ahead(range(4, 400))
    assert about["last_step"] - about["first_step"] + 1 == xplane_window._MOST_STEPS


def test_a_window_that_grows_is_not_extended(
    ahead: Callable[[range], tuple[list[int], list[dict[str, Any]]]],
    pending: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, times = iter(range(0, 1 << 40, 20 << 20)), iter(range(0, 1 << 60, 100_000_000))
    monkeypatch.setattr(xplane_window, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(xplane_window, "now_ns", lambda: next(times))
    pending.update(range(60))
    _, (about,) = ahead(range(4, 60))
    # At first, the arrays of the program itself may grow by as much.
    assert 1_000_000_000 < about["end_ns"] < 2_000_000_000
    assert about["last_step"] < 20


def test_the_last_step_of_a_window_may_end_with_a_wait(
    window: XPlaneWindow, tmp_path: Path
) -> None:
    for step in range(4):
        window.next_step(step, start=True)
        window.begin_step()
    window.end_last_step(10**19)
    window.finish()
    (about,) = kept(tmp_path)
    assert (about["first_step"], about["last_step"], about["end_ns"]) == (1, 3, 10**19)
    assert about["drained"]


def test_a_requested_window_opens_beyond_those_of_the_process_itself(
    window: XPlaneWindow, tmp_path: Path
) -> None:
    for number in range(3):
        run(window, range(100 * number, 100 * number + 20))
        window.reopen()
    assert run(window, range(300, 400)) == []
    assert window.request(430)
    assert window.is_requested
    assert not window.request(500)
    assert run(window, range(401, 500)) == [430, 431, 432, 433, 434, 435]
    assert not window.is_requested
    assert len(kept(tmp_path)) == 4


def test_no_window_is_promised_while_one_is_open_or_after_a_failure(window: XPlaneWindow) -> None:
    run(window, range(3))
    assert not window.request(100)
    window._fail(ValueError())
    assert not window.request(100)
