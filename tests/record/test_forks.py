"""Windows and forks: none is open during a fork, and one opens where forks leave room for it."""

from __future__ import annotations

import itertools
import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.forks import fork as fork_process
from tests.record.test_xplane_window import Profiler, kept, run

from stepwhy.record.core.forks import Forks
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.windows.xplane_window import XPlaneWindow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), "jax", "1.0", "jax-jit")


def fork() -> None:
    """Fork a child that ends at once."""
    os.waitpid(fork_process(), 0)


def in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def messages(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / f"process-{os.getpid()}" / "messages.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize(
    ("forks", "room"),
    [
        (range(0), [*range(1, 13)]),
        (range(20), []),
        # Until the second fork, nothing is known of the third one.
        (range(0, 20, 2), [2]),
        (range(2, 20, 3), [1, 2, 4, 5, 6, 9, 12]),
        (range(3, 20, 5), [1, 2, 3, 5, 6, 7, 8, 9, 10, 11]),
        # Forks that do not go on, such as those of workers that start.
        ([1, 2, 3], [1, *range(5, 13)]),
    ],
)
def test_a_window_needs_two_steps_without_a_fork(
    recorder: Recorder, forks: Any, room: list[int]
) -> None:
    seen = Forks(recorder, lambda: True)
    open_at = []
    for step in range(1, 13):
        if step - 1 in forks:
            fork()
        seen.next_step(step)
        if seen.leave_room:
            open_at.append(step)
    assert open_at == room


def test_a_complete_step_is_kept_before_a_fork(recorder: Recorder, tmp_path: Path) -> None:
    profiler = Profiler()
    window = XPlaneWindow(recorder, profiler)
    run(window, range(3))
    fork()
    assert profiler.events[-1] == "stop"
    assert [(w["first_step"], w["last_step"]) for w in kept(tmp_path)] == [(1, 1)]
    assert messages(tmp_path) == []


def test_a_window_without_a_step_is_dropped_before_a_fork(
    recorder: Recorder, tmp_path: Path
) -> None:
    profiler = Profiler()
    window = XPlaneWindow(recorder, profiler)
    run(window, range(2))
    fork()
    assert profiler.events[-1] == "discard"
    run(window, range(2, 40))
    assert [w["first_step"] for w in kept(tmp_path)] == [4]


def test_a_window_that_a_fork_dropped_opens_again_right_after_one(
    recorder: Recorder, tmp_path: Path
) -> None:
    window = XPlaneWindow(recorder, Profiler())
    # Forks every five steps; the loop happens to be warm just before one of them.
    for step in range(12):
        if step % 5 == 0:
            fork()
        window.next_step(step, start=step in (4, 5, 6, 7, 8, 9))
        window.begin_step()
    assert [(w["first_step"], w["last_step"]) for w in kept(tmp_path)] == [(6, 8)]


def test_forks_that_drop_every_window_make_the_next_one_wait(recorder: Recorder) -> None:
    profiler = Profiler()
    window = XPlaneWindow(recorder, profiler)
    # Never as far apart as the last time, so that no fork is foreseen.
    forks = list(itertools.accumulate([3, 5, 7, 9, 11, 13, 15, 17]))
    for step in range(40):
        window.next_step(step, start=step + 1 in forks)
        window.begin_step()
        if step + 1 in forks:
            fork()
    assert profiler.events.count("discard") == 4


def test_a_fork_of_another_thread_drops_the_window(recorder: Recorder, tmp_path: Path) -> None:
    profiler = Profiler()
    window = XPlaneWindow(recorder, profiler)
    run(window, range(4))
    in_thread(fork)
    assert (profiler.events[-1], kept(tmp_path)) == ("discard", [])


def test_a_fork_waits_for_a_profiler_that_starts(recorder: Recorder) -> None:
    profiler = Profiler()
    window = XPlaneWindow(recorder, profiler)
    starting, forked = threading.Event(), threading.Event()

    def fork_beside() -> None:
        starting.wait(60)
        fork()
        forked.set()

    class Slow(Profiler):
        def start(self, on_conflict: Callable[[], None]) -> None:
            starting.set()
            assert not forked.wait(0.2)
            super().start(on_conflict)

    window._profiler = slow = Slow()
    thread = threading.Thread(target=fork_beside)
    thread.start()
    run(window, range(1))
    thread.join()
    assert (slow.events, window.running) == (["start", "discard"], False)


def test_a_program_that_forks_in_each_step_is_told_why_none_is_traced(
    recorder: Recorder, tmp_path: Path
) -> None:
    profiler = Profiler()
    window = XPlaneWindow(recorder, profiler)
    for step in range(30):
        window.next_step(step, start=step > 4)
        window.begin_step()
        fork()
    assert profiler.events == []
    (message,) = messages(tmp_path)
    assert message["slug"] == "forks"
    assert "forked its process around step 6" in message["text"]


def test_a_failure_to_close_does_not_reach_the_fork(recorder: Recorder) -> None:
    def fail() -> bool:
        raise RuntimeError

    Forks(recorder, fail)
    fork()
