"""Windows and their limits, with a profiler that only records its calls."""

from __future__ import annotations

import json
import os
import sys
import threading
from itertools import chain, count, cycle, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.torch import (
    cuda_graphs,
    device,
    own_profilers,
    request_thread,
    window_limits,
)
from stepwhy.record.torch import window as windowing
from stepwhy.record.torch.line_window import LineWindow
from stepwhy.record.torch.window import ProfilerWindow
from stepwhy.record.torch.window_limits import Budget, warm_up_steps
from stepwhy.record.windows.traced_window import WindowTooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 1_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now = 1

    def __call__(self) -> int:
        return self.now


class Profile:
    """Stands for `torch.profiler.profile`."""

    made: list[Profile]
    step_rec_fn: Any = None

    def __init__(self, activities: list[str], schedule: Any, **more: Any) -> None:
        self.activities, self.schedule, self.more = activities, schedule, more
        self.steps, self.stopped, self.exported = 0, 0, 0
        self.made.append(self)

    def start(self) -> None:
        pass

    def step(self) -> None:
        self.steps += 1

    def stop(self) -> None:
        self.stopped += 1
        CUDA.calls.append("stop")

    def export_chrome_trace(self, path: str) -> None:
        self.exported += 1
        Path(path).write_text(CUDA.exported)


class CUDA:
    """Stands for `torch.cuda` in a process that trains on a device."""

    calls: list[str]
    exported = "{}"
    capturing = False
    bytes = 1 << 20

    is_available = is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    is_current_stream_capturing = staticmethod(lambda: CUDA.capturing)
    memory_allocated = staticmethod(lambda _: CUDA.bytes)
    _sleep = staticmethod(lambda _: CUDA.calls.append("kernel"))


class OwnProfile:
    """Stands for `torch.autograd.profiler.profile` of the training."""

    def _prepare_trace(self) -> None:
        """Warm up."""

    def __exit__(self, *_: object) -> None:
        """Stop."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(windowing, "now_ns", clock)
    return clock


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Profile]:
    """The profilers that were created."""
    Profile.made, CUDA.calls = [], []
    own_profilers.own_profilers.cache_clear()
    monkeypatch.setattr(cuda_graphs, "_were_captured", False)
    cuda = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    action = SimpleNamespace(WARMUP="warm up", RECORD="record")
    activity = SimpleNamespace(CPU="cpu", CUDA="cuda")
    autograd = SimpleNamespace(_profiler_enabled=lambda: False)
    autograd_profiler = SimpleNamespace(profile=type("profile", (OwnProfile,), {}))
    profiler = SimpleNamespace(ProfilerAction=action, ProfilerActivity=activity, profile=Profile)
    torch = SimpleNamespace(cuda=cuda, profiler=profiler, autograd=autograd)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.profiler", profiler)
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", autograd_profiler)
    return Profile.made


@pytest.fixture
def on_cuda(made: list[Profile], monkeypatch: pytest.MonkeyPatch) -> type[CUDA]:
    """A training on a device, whose profiler delivers kernels."""
    assert made == []
    monkeypatch.setattr(sys.modules["torch"], "cuda", CUDA)
    monkeypatch.setattr(CUDA, "exported", '{"cat": "kernel"}')
    return CUDA


@pytest.fixture
def window(tmp_path: Path, made: list[Profile]) -> ProfilerWindow:
    assert made == []
    return ProfilerWindow(Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer"))


def train(window: ProfilerWindow, clock: Clock, steps: range, step_ns: int) -> list[int]:
    """Run equally long steps; returns the numbers of those that the profiler touched."""
    touched = []
    for step in steps:
        clock.now += step_ns
        if window.touched:
            touched.append(step - 1)
        window.next_step(step, start=True, step_ns=step_ns)
    return touched


def windows(tmp_path: Path) -> list[dict[str, Any]]:
    files = sorted(tmp_path.glob(f"process-{os.getpid()}/windows/*/window.json"))
    return [json.loads(file.read_text()) for file in files]


def messages(tmp_path: Path) -> list[str]:
    path = tmp_path / f"process-{os.getpid()}" / "messages.jsonl"
    return [json.loads(line)["slug"] for line in path.read_text().splitlines()]


def test_a_window_holds_four_steps_after_one_of_warm_up(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    assert train(window, clock, range(5, 20), 1000) == [5, 6, 7, 8, 9, 10]
    (profile,) = made
    assert (profile.steps, profile.stopped, profile.exported) == (4, 1, 1)
    assert [profile.schedule(n) for n in range(3)] == ["warm up", "record", "record"]
    (about,) = windows(tmp_path)
    assert (about["first_step"], about["last_step"]) == (6, 9)
    assert about["end_ns"] - about["start_ns"] == 4000


def test_a_step_ends_in_the_trace_before_stepwhys_own_work(
    window: ProfilerWindow, clock: Clock, made: list[Profile]
) -> None:
    window.end_step()  # without a profiler
    train(window, clock, range(5, 8), 1000)
    ended: list[tuple[Any, ...]] = []
    (profile,) = made
    profile.step_rec_fn = SimpleNamespace(__exit__=lambda *how: ended.append(how))
    window.end_step()
    window.end_step()
    assert ended == [(None, None, None)]
    assert profile.steps == 2


@pytest.mark.parametrize(("step_ns", "shapes"), [(4_999_999, False), (5_000_000, True)])
def test_shapes_are_recorded_in_steps_that_are_long_enough(
    window: ProfilerWindow, clock: Clock, made: list[Profile], step_ns: int, *, shapes: bool
) -> None:
    train(window, clock, range(5, 20), step_ns)
    assert [profile.more["record_shapes"] for profile in made] == [shapes]


def test_further_windows_open_on_request_up_to_three(
    window: ProfilerWindow, clock: Clock, tmp_path: Path
) -> None:
    for begin in range(0, 100, 20):
        train(window, clock, range(begin, begin + 20), 1000)
        assert not window.needs(begin + 20)
        window.reopen()
    assert [about["first_step"] for about in windows(tmp_path)] == [1, 21, 41]
    assert not window.is_due


@pytest.mark.parametrize(
    ("step_ns", "kept"), [(SECOND, (1, 4)), (4 * SECOND, (0, 1)), (20 * SECOND, (0, 0))]
)
def test_long_steps_make_short_windows_without_a_warm_up(
    window: ProfilerWindow, clock: Clock, tmp_path: Path, step_ns: int, kept: tuple[int, int]
) -> None:
    train(window, clock, range(10), step_ns)
    (about,) = windows(tmp_path)
    assert (about["first_step"], about["last_step"]) == kept


def test_a_loop_with_steps_of_a_minute_is_not_profiled(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    assert train(window, clock, range(10), 60 * SECOND) == [0]
    assert (made, windows(tmp_path), window.needs(10)) == ([], [], False)
    assert messages(tmp_path) == ["window-too-large"]


def test_window_that_uses_too_much_memory_is_dropped(
    window: ProfilerWindow,
    clock: Clock,
    made: list[Profile],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = cycle((0, window_limits._MOST_GROWTH + 1))
    monkeypatch.setattr(window_limits, "resident_bytes", lambda: next(used))
    train(window, clock, range(10), 1000)
    assert [(one.stopped, one.exported) for one in made] == [(1, 0), (1, 0)]
    assert windows(tmp_path) == []
    assert messages(tmp_path) == ["window-too-large"]


def test_memory_that_the_training_takes_once_costs_no_window(
    window: ProfilerWindow, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = chain((0, window_limits._MOST_GROWTH + 1), repeat(window_limits._MOST_GROWTH + 1))
    monkeypatch.setattr(window_limits, "resident_bytes", lambda: next(used))
    train(window, clock, range(20), 1000)
    assert len(windows(tmp_path)) == 1
    assert not list(tmp_path.glob("*/messages.jsonl"))


def test_window_ends_before_it_uses_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter((0, window_limits._MOST_GROWTH * 2 // 5, window_limits._MOST_GROWTH * 4 // 5))
    monkeypatch.setattr(window_limits, "resident_bytes", lambda: next(used))
    budget = Budget(0)
    assert [budget.spend(1), budget.spend(2)] == [True, False]


@pytest.mark.parametrize("times", [1, 2])
def test_a_later_step_that_takes_too_much_ends_the_window(monkeypatch, times):
    most = window_limits._MOST_GROWTH
    used = iter((0, most // 5, times * most + 1))
    monkeypatch.setattr(window_limits, "resident_bytes", lambda: next(used))
    budget = Budget(0)
    assert budget.spend(1)
    if times == 1:
        assert not budget.spend(2)  # and what was traced is kept
    else:
        with pytest.raises(window_limits.MemoryGrewError):
            budget.spend(2)


def test_export_above_the_limit_is_dropped_and_reported(
    window: ProfilerWindow, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_limits, "_MOST_FILE", 1)
    train(window, clock, range(10), 1000)
    assert windows(tmp_path) == []
    assert messages(tmp_path) == ["window-too-large"]


def test_loops_too_short_for_a_window_get_another_one_a_few_times(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    for number in range(5):
        train(window, clock, range(2 * number, 2 * number + 1), 1000)
        window.finish()
    assert (len(made), window.needs(10), windows(tmp_path)) == (3, False, [])


def test_no_profiler_starts_in_another_thread(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    thread = threading.Thread(target=train, args=(window, clock, range(10), 1000))
    thread.start()
    thread.join()
    assert (made, window.needs(10), messages(tmp_path)) == ([], False, ["loop-in-thread"])


def test_no_profiler_starts_or_stops_in_a_backward_pass(
    window: ProfilerWindow,
    clock: Clock,
    made: list[Profile],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    train(window, clock, range(3), 1000)
    (profile,) = made
    monkeypatch.setattr(windowing, "graph_task", lambda: 0)
    before = profile.steps
    train(window, clock, range(3, 20), 1000)
    assert (profile.steps, profile.stopped) == (before, 0)
    other = ProfilerWindow(Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer"))
    train(other, clock, range(10), 1000)
    assert (len(made), other.needs(10), messages(tmp_path)) == (1, False, ["step-in-backward"])


def test_the_memory_of_this_process_is_known_on_linux() -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells it")
    assert window_limits.resident_bytes() > 1 << 20


def test_only_long_steps_need_no_warm_up() -> None:
    assert [warm_up_steps(ns) for ns in (1000, 5 * SECOND)] == [1, 0]
    with pytest.raises(WindowTooLargeError):
        warm_up_steps(60 * SECOND)


@pytest.fixture
def own(window: ProfilerWindow) -> Any:
    """A profiler of the training, which is active from its warm-up on."""
    assert window.is_due
    return sys.modules["torch.autograd.profiler"].profile()


def test_window_opens_after_own_profiler_has_stopped(
    window: ProfilerWindow, clock: Clock, own: Any, tmp_path: Path
) -> None:
    own._prepare_trace()
    assert train(window, clock, range(50), 1000) == []
    assert window.needs(50)
    own.__exit__(None, None, None)
    train(window, clock, range(50, 60), 1000)
    assert [about["first_step"] for about in windows(tmp_path)] == [51]
    assert messages(tmp_path) == ["profiler-in-use"]


def test_own_profiler_is_logged_with_its_options(
    window: ProfilerWindow, clock: Clock, own: Any, tmp_path: Path
) -> None:
    own.with_stack = own.profile_memory = True
    own._prepare_trace()
    own.__exit__(None, None, None)
    own.__exit__(None, None, None)  # once is enough
    train(window, clock, range(10), 1000)
    window._recorder.close()
    log = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    (event,) = map(json.loads, log.read_text().splitlines())
    assert (event["kind"], event["name"]) == ("profiler", "torch.profiler")
    assert event["reason"] == "with_stack, profile_memory"
    assert event["start_ns"] <= event["end_ns"]


def test_window_that_yielded_is_retried_later(
    window: ProfilerWindow, clock: Clock, own: Any, tmp_path: Path
) -> None:
    train(window, clock, range(3), 1000)
    own._prepare_trace()
    train(window, clock, range(3, 6), 1000)
    own.__exit__(None, None, None)
    assert not window.needs(17)  # steps in between may be light
    train(window, clock, range(6, 40), 1000)
    assert [about["first_step"] for about in windows(tmp_path)] == [19]
    # It does not count, so two more may follow.
    for begin in (40, 60, 80):
        window.reopen()
        train(window, clock, range(begin, begin + 20), 1000)
    assert [about["first_step"] for about in windows(tmp_path)] == [19, 41, 61]


def test_waits_double_for_a_profiler_that_records_repeatedly(
    window: ProfilerWindow, clock: Clock, own: Any, made: list[Profile]
) -> None:
    for step in range(0, 1000, 4):
        own._prepare_trace()
        train(window, clock, range(step, step + 2), 1000)
        own.__exit__(None, None, None)
        train(window, clock, range(step + 2, step + 4), 1000)
    assert 2 < len(made) < 8


def test_profiler_dropped_during_its_warm_up_is_off(
    window: ProfilerWindow, clock: Clock, tmp_path: Path
) -> None:
    sys.modules["torch.autograd.profiler"].profile()._prepare_trace()
    train(window, clock, range(10), 1000)
    assert [about["first_step"] for about in windows(tmp_path)] == [1]


@pytest.mark.parametrize("option", ["enable_cuda_sync_events", "another"])
def test_waits_between_streams_are_recorded_where_the_profiler_can(
    window: ProfilerWindow,
    made: list[Profile],
    on_cuda: type[CUDA],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
) -> None:
    assert on_cuda.is_initialized()

    def config(**options: bool) -> dict[str, bool]:
        if option not in options:
            raise TypeError(options)
        return options

    monkeypatch.setitem(
        sys.modules, "torch._C._profiler", SimpleNamespace(_ExperimentalConfig=config)
    )
    window.next_step(5, start=True)
    known = option == "enable_cuda_sync_events"
    more = {"experimental_config": {option: True}} if known else {}
    assert made[0].more == {"record_shapes": True, **more}
    assert made[0].activities == ["cpu", "cuda"]


def test_a_training_on_the_cpu_leaves_the_device_of_the_machine_alone(
    window: ProfilerWindow, made: list[Profile]
) -> None:
    window.next_step(5, start=True)
    assert (made[0].activities, made[0].more) == (["cpu"], {"record_shapes": False})


@pytest.mark.usefixtures("on_cuda")
def test_the_warm_up_is_recorded_on_a_device_and_is_not_kept(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    train(window, clock, range(5, 20), 1000)
    (profile,) = made
    assert [profile.schedule(n) for n in range(3)] == ["record"] * 3
    (about,) = windows(tmp_path)
    assert (about["first_step"], about["last_step"]) == (6, 9)
    assert "kernels_missing" not in about


@pytest.mark.parametrize("capturing", [None, "this stream", "another thread"])
def test_a_profiler_that_is_dropped_has_recorded_a_kernel(
    window: ProfilerWindow,
    clock: Clock,
    on_cuda: type[CUDA],
    monkeypatch: pytest.MonkeyPatch,
    capturing: str | None,
) -> None:
    monkeypatch.setattr(on_cuda, "capturing", capturing == "this stream")
    train(window, clock, range(5, 6), 1000)
    if capturing == "another thread":
        monkeypatch.setattr(cuda_graphs, "_open", {0: "a graph"})
    window.yield_profiler()
    assert on_cuda.calls == ([] if capturing else ["kernel"]) + ["stop"]


class Kineto:
    """The thread that detaches CUPTI, if a profiler stops while that is asked for.

    Attributes:
        asked: The variable that asks for it, at each stop.
        is_stuck: Whether the thread never ends.
    """

    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.is_stuck = False
        self._waits = False

    def stop(self) -> None:
        self.asked.append(os.environ.get("TEARDOWN_CUPTI"))
        self._waits |= self.asked[-1] == "1"

    def query(self) -> bool:
        self._waits &= self.is_stuck
        CUDA.calls.append("query")
        return True

    def threads(self) -> set[str]:
        return {"main", *(["kineto"] if self._waits else [])}


@pytest.fixture
def kineto(on_cuda: type[CUDA], monkeypatch: pytest.MonkeyPatch) -> Kineto:
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    found, stop = Kineto(), Profile.stop

    def stop_both(self: Profile) -> None:
        stop(self)
        found.stop()

    monkeypatch.setattr(Profile, "stop", stop_both)
    monkeypatch.setattr(on_cuda, "current_stream", lambda: found, raising=False)
    monkeypatch.setattr(request_thread, "threads", found.threads)
    monkeypatch.setattr(request_thread, "stop", lambda _: None)
    set_version(monkeypatch, "13.0")
    return found


def set_version(monkeypatch: pytest.MonkeyPatch, cuda: str | None) -> None:
    version = SimpleNamespace(cuda=cuda)
    monkeypatch.setattr(sys.modules["torch"], "version", version, raising=False)


@pytest.mark.parametrize(
    ("cuda", "asked"),
    [("12.6", "1"), ("13.0", "1"), ("12.4", None), (None, None), ("unknown", None)],
)
def test_cupti_is_detached_when_a_window_closes(
    window: ProfilerWindow,
    clock: Clock,
    kineto: Kineto,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cuda: str | None,
    asked: str | None,
) -> None:
    set_version(monkeypatch, cuda)
    train(window, clock, range(5, 11), 1000)
    assert kineto.asked == [asked]
    assert CUDA.calls == ["stop", *(["query"] if asked else [])]
    assert kineto.threads() == {"main"}
    assert "TEARDOWN_CUPTI" not in os.environ


def test_cupti_is_detached_when_a_window_is_dropped(
    window: ProfilerWindow, clock: Clock, kineto: Kineto
) -> None:
    train(window, clock, range(5, 7), 1000)
    window.yield_profiler()
    assert (kineto.asked, CUDA.calls) == (["1"], ["kernel", "stop", "query"])
    assert "TEARDOWN_CUPTI" not in os.environ


def test_cupti_is_detached_when_the_profiler_fails_to_stop(
    window: ProfilerWindow, clock: Clock, kineto: Kineto, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Profile.stop

    def fail(self: Profile) -> None:
        stop(self)
        raise RuntimeError("no trace")

    monkeypatch.setattr(Profile, "stop", fail)
    train(window, clock, range(5, 11), 1000)
    assert CUDA.calls == ["stop", "query"]
    assert kineto.threads() == {"main"}
    assert "TEARDOWN_CUPTI" not in os.environ


def test_a_thread_that_never_ends_is_not_waited_for_forever(
    window: ProfilerWindow,
    clock: Clock,
    kineto: Kineto,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = count(0.0, 0.2)
    fake = SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None)
    kineto.is_stuck = True
    monkeypatch.setattr(device, "time", fake)
    train(window, clock, range(5, 11), 1000)
    assert CUDA.calls.count("query") == 2
    assert "TEARDOWN_CUPTI" not in os.environ
    assert len(windows(tmp_path)) == 1


def test_what_the_user_has_decided_about_cupti_stays(
    window: ProfilerWindow, clock: Clock, kineto: Kineto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEARDOWN_CUPTI", "0")  # as torch.compile does for CUDA graphs
    train(window, clock, range(5, 11), 1000)
    assert (kineto.asked, CUDA.calls) == (["0"], ["stop"])
    assert os.environ["TEARDOWN_CUPTI"] == "0"


def test_cupti_stays_attached_in_a_program_with_graphs(
    window: ProfilerWindow, clock: Clock, kineto: Kineto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "_were_captured", True)
    train(window, clock, range(5, 11), 1000)
    assert (kineto.asked, CUDA.calls) == ([None], ["stop"])


def test_cupti_stays_attached_where_no_step_follows(
    window: ProfilerWindow, clock: Clock, kineto: Kineto
) -> None:
    train(window, clock, range(5, 9), 1000)
    window.finish()
    assert (kineto.asked, CUDA.calls) == ([None], ["stop"])


@pytest.mark.parametrize("pause", [ProfilerWindow.pause, ProfilerWindow._close_before_fork])
def test_cupti_is_detached_when_a_pause_ends_a_window(
    window: ProfilerWindow,
    clock: Clock,
    kineto: Kineto,
    tmp_path: Path,
    pause: Callable[[ProfilerWindow], object],
) -> None:
    train(window, clock, range(5, 9), 1000)
    pause(window)
    assert (kineto.asked, CUDA.calls) == (["1"], ["stop", "query"])
    assert len(windows(tmp_path)) == 1


@pytest.mark.parametrize(("goes_on", "asked"), [(True, "1"), (False, None)])
def test_cupti_is_detached_after_lines_were_noted(
    tmp_path: Path, kineto: Kineto, *, goes_on: bool, asked: str | None
) -> None:
    """The profiler that goes with them only records the host, and attaches CUPTI all the same."""
    lines = LineWindow(Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer"))
    lines._kineto.profiler = Profile([], None)
    lines.finish(goes_on=goes_on)
    assert kineto.asked == [asked]
    assert CUDA.calls == ["stop", *(["query"] if asked else [])]
    assert "TEARDOWN_CUPTI" not in os.environ


@pytest.mark.usefixtures("on_cuda")
@pytest.mark.parametrize(("held", "slugs"), [(1 << 20, ["kernels-missing"]), (0, [])])
def test_a_window_without_kernels_is_reported_if_tensors_are_on_the_device(
    window: ProfilerWindow,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    held: int,
    slugs: list[str],
) -> None:
    monkeypatch.setattr(CUDA, "exported", "{}")
    monkeypatch.setattr(CUDA, "bytes", held)
    reported: list[str] = []
    monkeypatch.setattr(window._recorder, "message", lambda _, slug, __: reported.append(slug))
    train(window, clock, range(5, 20), 1000)
    (about,) = windows(tmp_path)
    assert (reported, about.get("kernels_missing", False)) == (slugs, bool(slugs))


def test_a_pause_keeps_the_complete_steps_of_a_window(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    train(window, clock, range(5, 9), 1000)
    window.pause()
    (about,) = windows(tmp_path)
    assert (about["first_step"], about["last_step"]) == (6, 7)
    assert train(window, clock, range(9, 20), 1000) == [8]
    assert len(made) == 1


def test_a_window_without_a_complete_step_opens_again_after_a_pause(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    train(window, clock, range(5, 7), 1000)
    window.pause()
    assert (made[0].stopped, windows(tmp_path), window.is_due) == (1, [], True)
    train(window, clock, range(7, 20), 1000)
    assert (len(made), len(windows(tmp_path))) == (2, 1)


def test_a_loop_with_a_pause_after_every_step_is_not_profiled_again_and_again(
    window: ProfilerWindow, clock: Clock, made: list[Profile], tmp_path: Path
) -> None:
    for step in range(5, 20):
        train(window, clock, range(step, step + 1), 1000)
        window.pause()
    assert (len(made), windows(tmp_path), window.is_due) == (3, [], False)
    assert {profile.stopped for profile in made} == {1}


def test_a_pause_without_a_window_changes_nothing(window: ProfilerWindow) -> None:
    window.pause()
    assert window.is_due
