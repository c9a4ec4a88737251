"""Which calls are logged and which mark steps, with a window that only records its calls."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import threading
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core import pacing
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.requests import Request, answered, ask
from stepwhy.record.steps import call_log, stall_watch, step_log
from stepwhy.record.steps import loop as loops
from stepwhy.record.steps.call_log import CallLog
from stepwhy.record.steps.loop import KnownSteps, Loop
from stepwhy.record.steps.meters import UNKNOWN
from stepwhy.record.steps.observed_methods import observe_method
from stepwhy.record.steps.step_window import NoWindow

if TYPE_CHECKING:
    from pathlib import Path


class Window:
    def __init__(self) -> None:
        self.touched = False
        self.running = False
        self.is_requested = False
        self.requests: list[int] = []
        self.ready: list[int] = []
        self.reopened = self.finished = 0
        self.ended: list[int] = []

    def forget(self) -> None:
        pass

    def next_step(self, step: int, *, start: bool) -> None:
        if start:
            self.ready.append(step)

    def begin_step(self) -> None:
        pass

    def end_last_step(self, time_ns: int) -> None:
        self.ended.append(time_ns)

    def check_age(self) -> None:
        pass

    def finish(self) -> None:
        self.finished += 1

    def reopen(self) -> None:
        self.reopened += 1

    def request(self, step: int) -> bool:
        self.requests.append(step)
        self.is_requested = True
        return True

    def abandon(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _paced_as_long_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of steps as short as those here, hardly any would be observed."""
    for name in ("_PERIOD_NS", "_SHORT_STEPS_PERIOD_NS"):
        monkeypatch.setattr(pacing, name, 0)


@pytest.fixture
def window() -> Window:
    return Window()


@pytest.fixture
def loop(tmp_path: Path, window: Window) -> Loop:
    return Loop(Recorder(str(tmp_path), "tensorflow", "2.0", "tf2-function"), window)


@pytest.fixture
def calls(loop: Loop) -> CallLog:
    return CallLog(loop)


def call(calls: CallLog, number: int, work: int = 10) -> bool:
    logged = calls.begin(number)
    sum(range(work))
    if logged:
        calls.end(number)
    return logged


def log(loop: Loop, tmp_path: Path) -> list[dict[str, Any]]:
    loop.recorder.close()
    path = tmp_path / f"process-{os.getpid()}" / "steps.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_calls_are_logged_from_the_first_once_one_repeats(
    calls: CallLog, loop: Loop, tmp_path: Path
) -> None:
    calls.number("train")
    for _ in range(2):
        call(calls, 0)
    assert log(loop, tmp_path) == []
    call(calls, 0)
    call(calls, 0)
    assert [line["kind"] for line in log(loop, tmp_path)] == ["call"] * 4


def test_a_call_that_raised_is_marked(calls: CallLog, loop: Loop, tmp_path: Path) -> None:
    class Function:
        def __call__(self, value: int) -> float:
            return 1 / value

    observe_method(Function, "__call__", calls, lambda _: calls.number("train"), lambda: True)
    function = Function()
    assert [function(1) for _ in range(3)] == [1.0] * 3
    with pytest.raises(ZeroDivisionError):
        function(0)
    assert [line.get("failed", 0) for line in log(loop, tmp_path)] == [0, 0, 0, 1]


def test_calls_inside_calls_and_of_other_threads_are_not_logged(calls: CallLog) -> None:
    calls.number("train")
    assert calls.begin(0)
    assert not calls.begin(0)
    calls.end(0)
    logged: list[bool] = []
    thread = threading.Thread(target=lambda: logged.append(call(calls, 0)))
    thread.start()
    thread.join()
    assert logged == [False]


def test_a_loop_in_a_thread_is_seen_until_the_main_one_calls(calls: CallLog) -> None:
    calls.number("train")
    logged: list[bool] = []
    main_called, done = threading.Event(), threading.Event()

    def work() -> None:
        logged.append(call(calls, 0))
        done.set()
        main_called.wait()
        logged.append(call(calls, 0))

    thread = threading.Thread(target=work)
    thread.start()
    done.wait()
    assert call(calls, 0)
    main_called.set()
    thread.join()
    assert logged == [True, False]


def test_calls_in_explicit_steps_are_not_logged(calls: CallLog, loop: Loop) -> None:
    calls.number("train")
    loop.marker = lambda: "fit"
    assert not call(calls, 0)


def test_the_heaviest_frequent_function_marks_the_steps(calls: CallLog, window: Window) -> None:
    train, metric, evaluate = (calls.number(name) for name in ("train", "metric", "evaluate"))
    for _ in range(12):
        call(calls, train, 30_000)
        call(calls, metric, 10)
    call(calls, evaluate, 3_000_000)
    for _ in range(4):
        call(calls, train, 30_000)
        call(calls, metric, 10)
    # The line of a `train`: each is followed by one `metric`, the later ones by one more before.
    assert window.ready
    assert all(line % 2 == (0 if line < 24 else 1) for line in window.ready)


def test_call_without_a_known_start_starts_at_the_end_of_the_last_one(
    calls: CallLog, loop: Loop, tmp_path: Path
) -> None:
    train = calls.number("train")
    for _ in range(5):
        calls.ended(train)
    lines = log(loop, tmp_path)
    assert [b["start_ns"] for b in lines[1:]] == [a["end_ns"] for a in lines[:-1]]
    assert lines[0]["start_ns"] == lines[0]["end_ns"]


def test_each_line_notes_whether_the_host_ran_ahead_when_its_call_began(
    calls: CallLog, loop: Loop, tmp_path: Path
) -> None:
    train = calls.number("train")
    for ahead in (None, False, True, False):
        loop.ahead = lambda ahead=ahead: ahead
        calls.ended(train)
    call(calls, train)
    calls.ended(train)
    # The end of a call is the start of the next one, unless that is known.
    assert [line.get("ahead") for line in log(loop, tmp_path)] == [None, None, 0, 1, 0, None]


def test_the_wait_after_the_last_call_ends_the_log(
    calls: CallLog, loop: Loop, window: Window, tmp_path: Path
) -> None:
    train = calls.number("train")
    for _ in range(4):
        calls.ended(train)
        calls.drained()
    calls._log_drained()
    *lines, last = log(loop, tmp_path)
    assert [line["kind"] for line in lines] == ["call"] * 4
    assert (last["kind"], window.ended) == ("drained", [last["end_ns"]])
    assert last["start_ns"] == last["end_ns"] >= lines[-1]["end_ns"]


def test_a_wait_before_the_last_call_is_not_logged(
    calls: CallLog, loop: Loop, window: Window, tmp_path: Path
) -> None:
    train = calls.number("train")
    calls.drained()
    for _ in range(4):
        calls.ended(train)
    calls._log_drained()
    assert [line["kind"] for line in log(loop, tmp_path)] == ["call"] * 4
    assert window.ended == []


def test_waits_and_compile_time_are_in_the_current_line(
    calls: CallLog, loop: Loop, tmp_path: Path
) -> None:
    train = calls.number("train")
    loop.input_wait.add(5)
    loop.compile_time.add("trace train", 10, 20)
    for _ in range(3):
        call(calls, train)
    lines = log(loop, tmp_path)
    assert [line["input_wait_ns"] for line in lines] == [5, None, None]
    assert [line.get("compile_ns") for line in lines] == [10, None, None]


def test_too_many_kinds_become_one(calls: CallLog) -> None:
    assert max(calls.number(i) for i in range(2000)) == 512
    assert calls.number(3) == 3


def test_explicit_steps_follow_each_other_until_the_end(
    loop: Loop, window: Window, tmp_path: Path
) -> None:
    steps = KnownSteps(loop)
    for _ in range(2):
        steps.begin()
        for _ in range(5):
            steps.begin_work()
            steps.end_step(UNKNOWN)
        steps.end()
        steps.end_step(UNKNOWN)
    lines = log(loop, tmp_path)
    assert len(lines) == 10
    gaps = [b["start_ns"] - a["end_ns"] for a, b in pairwise(lines)]
    assert [i for i, gap in enumerate(gaps) if gap] == [4]
    assert not any(step < 4 for step in window.ready)


def tell(steps: KnownSteps, count: int) -> None:
    for _ in range(count):
        steps.begin_work()
        steps.end_step(5)


def test_light_steps_are_only_timed(loop: Loop, tmp_path: Path) -> None:
    steps = KnownSteps(loop)
    steps.begin()
    tell(steps, 48)
    lines = log(loop, tmp_path)
    assert [i for i, line in enumerate(lines) if "light" in line] == list(range(32, 40))
    plain = {"kind", "start_ns", "end_ns", "profiled", "input_wait_ns", "cpu_ns"}
    for line in lines:
        line.pop("run_delay_ns", None)  # not every kernel measures it
        assert line.pop("process_cpu_ns", 0) >= 0
        light = {"kind", "start_ns", "end_ns", "profiled", "light"}
        assert set(line) == (light if "light" in line else plain)
    assert all(line["input_wait_ns"] == 5 for line in lines if "light" not in line)


def test_cpu_time_is_that_of_the_driving_thread(loop: Loop, tmp_path: Path) -> None:
    steps = KnownSteps(loop)
    steps.begin()
    threading.Event().wait(0.05)
    steps.end_step(UNKNOWN)
    sum(range(400_000))
    steps.end_step(UNKNOWN)
    waiting, computing = log(loop, tmp_path)
    spans = [line["end_ns"] - line["start_ns"] for line in (waiting, computing)]
    assert waiting["cpu_ns"] < spans[0] / 2
    assert 0 < computing["cpu_ns"] <= 1.1 * spans[1]


def test_step_on_several_batches_has_their_number(loop: Loop, tmp_path: Path) -> None:
    steps = KnownSteps(loop)
    steps.begin()
    steps.end_step(UNKNOWN, batches=5)
    steps.end_step(UNKNOWN)
    assert [line.get("batches") for line in log(loop, tmp_path)] == [5, None]


def test_compilation_between_sequences_belongs_to_no_step(loop: Loop, tmp_path: Path) -> None:
    steps = KnownSteps(loop)
    steps.begin()
    steps.end_step(UNKNOWN)
    steps.end()
    loop.compile_time.add("trace evaluate", 10, 20)
    steps.begin()
    steps.end_step(UNKNOWN)
    assert not any("compile_ns" in line for line in log(loop, tmp_path))


def test_a_lasting_change_allows_one_more_window(
    loop: Loop, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = 0

    def later() -> int:
        nonlocal time
        time += length
        return time

    monkeypatch.setattr("stepwhy.record.steps.loop.now_ns", later)
    steps, length = KnownSteps(loop), 100_000_000
    steps.begin()
    tell(steps, 60)
    assert window.reopened == 0
    length = 200_000_000
    tell(steps, 80)
    assert window.reopened == 1
    loop.recorder.close()
    path = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    (event,) = (json.loads(line) for line in path.read_text().splitlines())
    assert (event["kind"], event["name"]) == ("change", "step")


def test_aborted_sequence_leaves_no_open_window(loop: Loop, window: Window) -> None:
    steps = KnownSteps(loop)
    steps.begin()
    tell(steps, 2)
    assert window.finished == 0
    steps.begin()
    assert window.finished == 1


def test_calls_beside_explicit_steps_mark_no_steps(
    loop: Loop, window: Window, calls: CallLog, tmp_path: Path
) -> None:
    evaluate = calls.number("evaluate")
    steps = KnownSteps(loop)
    steps.begin()
    tell(steps, 3)
    steps.end()
    for _ in range(40):
        call(calls, evaluate)
        calls.ended(evaluate)
    assert window.ready == []
    lines = log(loop, tmp_path)
    assert [line["kind"] for line in lines] == ["step"] * 3 + ["call"] * 80
    assert not any("light" in line for line in lines)


def test_whole_periods_of_calls_are_light(calls: CallLog, loop: Loop, tmp_path: Path) -> None:
    train, metric = calls.number("train"), calls.number("metric")
    for _ in range(100):
        loop.input_wait.add(7)
        call(calls, train, 30_000)
        call(calls, metric, 10)
    lines = log(loop, tmp_path)
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    assert all(("light" in a) == ("light" in b) for a, b in pairs)
    light = [i for i, (a, _) in enumerate(pairs) if "light" in a]
    assert 8 <= len(light) <= 24
    assert all(b == a + 1 for a, b in pairwise(light) if b - a != 25)
    assert all("cpu_ns" not in b for _, b in pairs[1:])
    # A wait precedes its call, so it is unknown in the first full step after light ones.
    assert all("input_wait_ns" not in pairs[i][0] for i in light)
    known = [i for i, (a, _) in enumerate(pairs) if a.get("input_wait_ns")]
    assert len(known) >= 60
    assert all(pairs[i][0]["input_wait_ns"] == 7 for i in known)
    assert not {i + 1 for i in light} & set(known)


def test_calls_without_a_known_start_can_be_light(
    calls: CallLog, loop: Loop, tmp_path: Path
) -> None:
    train = calls.number("train")
    for _ in range(100):
        calls.ended(train)
    lines = log(loop, tmp_path)
    assert [b["start_ns"] for b in lines[1:]] == [a["end_ns"] for a in lines[:-1]]
    light = sum("light" in line for line in lines)
    assert 16 <= light <= 24
    assert all("cpu_ns" not in line for line in lines if "light" in line)


def test_internal_failure_does_not_affect_the_training(calls: CallLog, tmp_path: Path) -> None:
    (tmp_path / f"process-{os.getpid()}").write_text("in the way")
    train = calls.number("train")
    for _ in range(5):
        call(calls, train)
    assert not calls.may_begin()
    assert not call(calls, train)


def test_a_step_that_is_only_noted_is_logged_like_any_other(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_ns = itertools.count(1_000_000_000, 200_000)
    for module in (loops, step_log):
        monkeypatch.setattr(module, "now_ns", lambda: next(time_ns))
    clock = SimpleNamespace(perf_counter_ns=lambda: next(time_ns))
    monkeypatch.setattr(loops, "time", clock)
    monkeypatch.setattr(loops, "EPOCH_OFFSET_NS", 0)
    monkeypatch.setattr(pacing, "_SHORT_STEPS_PERIOD_NS", 320_000_000)
    steps = KnownSteps(loop)
    steps.begin()
    noted = 0
    for number in range(9000):
        if number == 8000:
            loop.compile_time.add("trace", 0, 7)
        if steps.note():
            noted += 1
        else:
            steps.end_step(UNKNOWN)
    steps.end()
    lines = log(loop, tmp_path)
    assert noted > 4500
    assert len(lines) == loop.known_steps == 9000
    assert all(a["end_ns"] == b["start_ns"] for a, b in pairwise(lines))
    assert [n for n, line in enumerate(lines) if "compile_ns" in line] == [8000]


def test_calls_in_a_step_that_is_only_noted_are_parts_of_it(loop: Loop, calls: CallLog) -> None:
    assert calls.may_begin()
    loop.only_notes = True
    assert not calls.may_begin()
    KnownSteps(loop).end()
    assert calls.may_begin()


def test_an_observed_step_is_not_only_noted(loop: Loop) -> None:
    steps = KnownSteps(loop)
    assert not steps.note()
    steps.begin()
    assert not steps.note()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock of steps of 0.2 ms, in a loop whose device is not asked for."""
    time_ns = itertools.count(1_000_000_000, 200_000)
    for module in (loops, call_log):
        monkeypatch.setattr(module, "now_ns", lambda: next(time_ns))
    monkeypatch.setattr(pacing, "_SHORT_STEPS_PERIOD_NS", 320_000_000)
    monkeypatch.setattr(call_log, "_MOST_FOLLOWED", 100)


@pytest.mark.usefixtures("quick")
def test_calls_without_a_known_start_are_only_noted_in_light_steps(
    calls: CallLog, loop: Loop, tmp_path: Path
) -> None:
    train, noted = calls.number("train"), 0
    for number in range(9000):
        if number == 8000:
            loop.compile_time.add("trace", 0, 7)
            assert not calls.light.until_ns
        if calls.light.until_ns and calls.note(train):
            noted += 1
        else:
            calls.ended(train)
    calls._work_up_notes()
    lines = log(loop, tmp_path)
    assert noted > 3000
    assert len(lines) == loop.lines == 9000
    assert all(a["end_ns"] == b["start_ns"] for a, b in pairwise(lines))
    assert [n for n, line in enumerate(lines) if "compile_ns" in line] == [8000]


@pytest.mark.usefixtures("quick")
def test_calls_of_all_kinds_are_only_noted_in_light_steps(
    calls: CallLog, loop: Loop, tmp_path: Path
) -> None:
    class Function:
        def __init__(self, number: int) -> None:
            self.number = number

        def __call__(self, fails: bool) -> None:
            if fails:
                raise ZeroDivisionError

    observe_method(Function, "__call__", calls, lambda function: function.number, lambda: True)
    train, metric = (Function(calls.number(kind)) for kind in ("train", "metric"))
    noted = 0
    for number in range(3000):
        noted += bool(calls.light.until_ns)
        train(fails=False)
        with contextlib.suppress(ZeroDivisionError):
            metric(fails=number == 2900)
    calls._work_up_notes()
    lines = log(loop, tmp_path)
    assert noted > 1000
    assert [line["signature"] for line in lines] == [0, 1] * 3000
    assert [n for n, line in enumerate(lines) if "failed" in line] == [2 * 2900 + 1]
    assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(lines))


@pytest.mark.usefixtures("quick")
def test_in_marked_steps_no_calls_are_noted(calls: CallLog, loop: Loop) -> None:
    train = calls.number("train")
    while not calls.light.until_ns:
        calls.ended(train)
    assert calls.note(train)
    loop.marker = lambda: "fit"
    assert not calls.note(train)


def test_a_request_from_outside_is_passed_to_the_window_and_logged(
    loop: Loop, window: Window, tmp_path: Path
) -> None:
    steps = KnownSteps(loop)
    steps.begin()
    tell(steps, 40)
    loop.recorder.close()
    folder = tmp_path / f"process-{os.getpid()}"
    ask(folder, Request(100, 30))
    tell(steps, 1)
    loop.recorder.close()
    assert window.requests == [100]
    assert answered(folder, 100) is True
    tell(steps, 30)
    # Until the window opens, steps are observed: it opens in no light one.
    assert not any("light" in line for line in log(loop, tmp_path)[42:])
    (event,) = (json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines())
    assert (event["kind"], event["name"], event["count"]) == ("change", "request", 11)


def test_a_loop_that_is_not_profiled_refuses_requests(tmp_path: Path) -> None:
    loop = Loop(Recorder(str(tmp_path), "tensorflow", "2.0", "tf2-function"), NoWindow())
    assert loop.recorder.requests.opens is not None
    assert not loop.recorder.requests.opens(Request(100, 30))


def test_where_a_loop_stands_is_known_with_what_was_only_noted(
    calls: CallLog, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = itertools.count(1000)
    monkeypatch.setattr(call_log, "now_ns", lambda: next(times))
    assert loop._standing() is None
    number = calls.number("step")
    for _ in range(3):
        call(calls, number)
    calls.light.noted += [2000, (0, 2500, 3000, "")]
    standing = loop._standing()
    assert standing is not None
    assert (standing.since_ns, standing.steps) == (3000, 5)
    assert standing.thread == threading.get_ident()
    calls.light.noted.clear()


def test_after_a_sequence_of_steps_the_loop_stands_at_its_end(loop: Loop) -> None:
    steps = KnownSteps(loop)
    steps.begin()
    tell(steps, 3)
    before = loop._standing()
    steps.end()
    assert before == loop._standing()
    assert before is not None
    assert (before.steps, len(before.recent_ns)) == (3, 3)


@pytest.mark.parametrize(("ranks", "started"), [(2, 1), (1, 0), (None, 0)])
def test_one_rank_of_several_watches_its_steps(
    ranks: int | None, started: int, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []
    monkeypatch.setattr(stall_watch, "place_in_job", lambda: (0, ranks))
    monkeypatch.setattr(loop._stalls, "start", lambda: starts.append(1))
    steps = KnownSteps(loop)
    steps.begin()
    tell(steps, 3)
    assert len(starts) == started


def test_a_function_that_updates_marks_the_steps_before_one_that_is_called_more_often(
    calls: CallLog, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_log, "_LEAST_UPDATE", 0)  # whatever share of the time each takes
    train, test = calls.number("train"), calls.number("test")
    for _ in range(6):
        for _ in range(5):
            call(calls, test, 1000)
        assert calls.begin(train)
        calls.updates()  # it is traced
        calls.end(train)
    assert calls.anchor == train
    marked = [line["signature"] for line in log(loop, tmp_path) if line.get("update")]
    assert marked == [train] * 6


def test_a_kind_whose_calls_are_seen_only_when_they_end_can_update(
    calls: CallLog, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_log, "_LEAST_UPDATE", 0)  # whatever share of the time each takes
    train, test = calls.number("train"), calls.number("test")
    calls.updates()  # no call runs
    calls.updates(train)
    for _ in range(6):
        calls.ended(train)
        for _ in range(5):
            calls.ended(test)
    assert calls.anchor == train
    marked = {line["signature"] for line in log(loop, tmp_path) if line.get("update")}
    assert marked == {train}


def test_a_tiny_update_does_not_mark_the_steps(
    calls: CallLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_log, "_LEAST_UPDATE", 1e9)  # any is
    train, other = calls.number("train"), calls.number("other")
    assert calls.begin(train)
    calls.updates()
    calls.end(train)
    assert calls.anchor == train
    for _ in range(5):
        call(calls, other)
    assert calls.anchor == other
