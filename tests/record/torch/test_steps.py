"""Steps by optimizer, with fake optimizers and a fake window."""

from __future__ import annotations

import itertools
import json
import os
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps import step_log
from stepwhy.record.steps.meters import InputWait
from stepwhy.record.torch import clock_choice, cuda_graphs
from stepwhy.record.torch import observer as torch_observer
from stepwhy.record.torch import steps as observing
from stepwhy.record.torch.compilations import Compilations
from stepwhy.record.torch.line_window import LineWindow

if TYPE_CHECKING:
    from pathlib import Path


class Optimizer:
    pass


class Window:
    """Records its calls, never profiles, and is done at step 12."""

    touched = kept = running = False

    def __init__(self) -> None:
        self.announced: list[tuple[int, bool]] = []
        self.abandoned = self.paused = 0
        self.more = 0
        self.busy = True

    def needs(self, _: int) -> bool:
        return self.busy

    def next_step(self, step: int, *, start: bool, **_: int) -> None:
        self.announced.append((step, start))
        self.busy = step < 12

    def reopen(self) -> None:
        self.more += 1

    def abandon(self) -> None:
        self.abandoned += 1

    def pause(self) -> None:
        self.paused += 1


@pytest.fixture
def window() -> Window:
    return Window()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")


@pytest.fixture
def waits() -> InputWait:
    return InputWait(sees_all=True)


@pytest.fixture
def compilations(recorder: Recorder) -> Compilations:
    return Compilations(recorder)


@pytest.fixture
def observer(
    recorder: Recorder, window: Any, waits: InputWait, compilations: Compilations
) -> observing.StepObserver:
    return observing.StepObserver(recorder, window, waits, compilations, LineWindow(recorder))


def log(observer: observing.StepObserver, tmp_path: Path) -> list[dict[str, Any]]:
    observer._log.write()
    path = tmp_path / f"process-{os.getpid()}" / "steps.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_step_lasts_from_one_optimizer_step_to_the_next(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    for _ in range(4):
        observer.stepped(optimizer)
    steps = log(observer, tmp_path)
    assert len(steps) == 3
    assert [a["end_ns"] for a in steps[:-1]] == [b["start_ns"] for b in steps[1:]]
    assert {step["input_wait_ns"] for step in steps} == {None}


def test_the_time_of_optimizers_is_that_of_the_step_in_which_they_ran(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    clock, other = Optimizer(), Optimizer()
    for first, second in ((1, 2), (3, 4), (5, 6)):
        observer.add_optimizer(first, observer.calls)
        observer.stepped(clock)
        observer.add_optimizer(second, observer.calls)
        observer.stepped(other)
    # The first call of the clock ends no step.
    assert [step["optimizer_ns"] for step in log(observer, tmp_path)] == [2 + 3, 4 + 5]


def test_the_time_of_optimizers_that_call_others_is_unknown(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    outer, inner = Optimizer(), Optimizer()
    for _ in range(4):
        calls = observer.calls
        observer.add_optimizer(1, observer.calls)
        observer.stepped(inner)
        observer.add_optimizer(2, calls)
        observer.stepped(outer)
    assert not any("optimizer_ns" in step for step in log(observer, tmp_path)[1:])


def test_backward_passes_count_until_an_optimizer_steps_and_when_it_is_gone(
    observer: observing.StepObserver,
) -> None:
    assert observer.by_hand
    optimizer = Optimizer()
    observer.stepped(optimizer)
    assert not observer.by_hand
    del optimizer
    assert observer.by_hand
    optimizer = Optimizer()
    observer.stepped(optimizer)
    assert not observer.by_hand
    observer.forget()
    assert observer.by_hand


def test_steps_that_are_only_noted_are_those_of_the_clock(
    observer: observing.StepObserver,
    window: Window,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    time_ns = itertools.count(1_000_000_000, 200_000)
    for module in (observing, step_log):
        monkeypatch.setattr(module, "now_ns", lambda: next(time_ns))
    window.busy = False
    generator, discriminator = Optimizer(), Optimizer()
    for number in range(9000):
        observer.stepped(generator)
        if number % 50 == 0:
            observer.stepped(discriminator)
    steps = log(observer, tmp_path)
    assert len(steps) == 8999
    assert sum(step.get("light", 0) for step in steps) > 4500
    assert all(a["end_ns"] == b["start_ns"] for a, b in itertools.pairwise(steps))


class Graph:
    """Stands for `torch.cuda.CUDAGraph`."""


def captured(observer: observing.StepObserver, *clocks: Any) -> Graph:
    """A graph of the work that ends with steps of these optimizers; None for a backward pass."""
    graph = Graph()
    observer.capture_begins(graph)
    for clock in clocks:
        if clock is None:
            observer.passed_backward()
        else:
            observer.stepped(clock)
    observer.graphs.ends(graph)
    return graph


def test_a_captured_step_counts_when_its_graph_is_replayed(
    observer: observing.StepObserver, window: Window, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        observer.stepped(optimizer)  # before the capture
    graph, forward = captured(observer, None, optimizer, None), captured(observer)
    assert len(log(observer, tmp_path)) == 2
    for _ in range(4000):
        observer.replayed(graph)
        assert id(forward) not in observer.graphs.clocks
    steps = log(observer, tmp_path)
    assert len(steps) == 4002
    assert all(a["end_ns"] == b["start_ns"] for a, b in itertools.pairwise(steps))
    assert window.announced[-1][0] >= 12


def test_a_capture_between_light_steps_is_no_step(
    observer: observing.StepObserver, window: Window, tmp_path: Path
) -> None:
    window.busy = False
    optimizer = Optimizer()
    for _ in range(3000):
        observer.stepped(optimizer)
    before = len(log(observer, tmp_path))
    graph = captured(observer, optimizer)
    assert len(log(observer, tmp_path)) == before
    observer.replayed(graph)
    assert len(log(observer, tmp_path)) == before + 1


def test_replays_of_a_graph_without_an_optimizer_are_backward_passes(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    graph = captured(observer, None)
    for _ in range(60):
        observer.replayed(graph)
    assert len(log(observer, tmp_path)) == 59


def test_a_step_of_another_thread_is_not_captured(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    optimizer, graph = Optimizer(), Graph()
    for _ in range(3):
        observer.stepped(optimizer)
    thread = threading.Thread(target=observer.capture_begins, args=(graph,))
    thread.start()
    thread.join()
    observer.stepped(optimizer)
    assert cuda_graphs.is_any_captured()
    observer.graphs.ends(graph)
    assert not cuda_graphs.is_any_captured()
    assert len(log(observer, tmp_path)) == 3


def test_graphs_are_forgotten_when_they_are_gone(observer: observing.StepObserver) -> None:
    optimizer = Optimizer()
    graph = captured(observer, optimizer)
    again = captured(observer, optimizer)
    del graph
    assert list(observer.graphs.clocks) == [id(again)]
    observer.capture_begins(again)  # other work
    observer.graphs.ends(again)
    assert not observer.graphs.clocks


def test_graphs_of_torch_are_followed(
    observer: observing.StepObserver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDAGraph:
        calls: ClassVar[list[str]] = []

        def capture_begin(self, pool: object = None) -> None:
            self.calls.append(f"begin {pool}")

        def capture_end(self) -> None:
            self.calls.append("end")

        def replay(self) -> None:
            self.calls.append("replay")

    monkeypatch.setattr(torch_observer, "observer_of", lambda _: SimpleNamespace(steps=observer))
    module: Any = SimpleNamespace(CUDAGraph=CUDAGraph)
    torch_observer.observe_graphs(module, str(tmp_path))
    optimizer, graph = Optimizer(), CUDAGraph()
    observer.stepped(optimizer)
    graph.capture_begin(pool=7)
    observer.stepped(optimizer)
    graph.capture_end()
    for _ in range(5):
        graph.replay()
    assert CUDAGraph.calls == ["begin 7", "end", *["replay"] * 5]
    assert len(log(observer, tmp_path)) == 5


def test_a_capture_that_fails_is_over(
    observer: observing.StepObserver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDAGraph:
        def capture_begin(self) -> None:
            assert cuda_graphs.is_any_captured()
            raise RuntimeError("another capture is open")

        def capture_end(self) -> None:
            assert cuda_graphs.is_any_captured()
            raise RuntimeError("the capture was invalidated")

        def replay(self) -> None:
            """Launch it."""

    monkeypatch.setattr(torch_observer, "observer_of", lambda _: SimpleNamespace(steps=observer))
    module: Any = SimpleNamespace(CUDAGraph=CUDAGraph)
    torch_observer.observe_graphs(module, str(tmp_path))
    graph = CUDAGraph()
    with pytest.raises(RuntimeError, match="another"):
        graph.capture_begin()
    assert not cuda_graphs.is_any_captured()
    observer.capture_begins(graph)
    with pytest.raises(RuntimeError, match="invalidated"):
        graph.capture_end()
    assert not cuda_graphs.is_any_captured()


def test_one_optimizer_is_the_clock(observer: observing.StepObserver, tmp_path: Path) -> None:
    generator, discriminator = Optimizer(), Optimizer()
    for _ in range(10):
        observer.stepped(discriminator)
        observer.stepped(generator)
    assert len(log(observer, tmp_path)) == 9


def test_a_loop_without_an_optimizer_has_a_step_per_backward_pass(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    for _ in range(19):
        observer.passed_backward()
    assert observer._clock is None
    for _ in range(5):
        observer.passed_backward()
    steps = log(observer, tmp_path)
    assert len(steps) == 23
    assert all(a["end_ns"] == b["start_ns"] for a, b in itertools.pairwise(steps))
    assert observer.calls == 0  # of optimizers


def test_backward_passes_of_keras_fit_are_no_steps(
    observer: observing.StepObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwhy.record.steps.step_marks.marks.in_fit", True)
    for _ in range(30):
        observer.passed_backward()
    assert observer._clock is None


def test_an_optimizer_takes_over_from_backward_passes_at_once(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    for _ in range(25):
        observer.passed_backward()
    optimizer = Optimizer()
    for _ in range(3):
        observer.passed_backward()
        observer.stepped(optimizer)
    assert len(log(observer, tmp_path)) == 25 + 2
    assert observer.calls == 3


def test_backward_passes_of_an_accumulated_batch_are_no_steps(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    for _ in range(4):
        for _ in range(16):
            observer.passed_backward()
        observer.stepped(optimizer)
    assert len(log(observer, tmp_path)) == 3


def test_backward_passes_before_the_first_step_of_an_optimizer_are_no_steps(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    observer._choice.has_optimizer = True
    optimizer = Optimizer()
    for _ in range(3):
        for _ in range(64):
            observer.passed_backward()
        observer.stepped(optimizer)
    assert len(log(observer, tmp_path)) == 2


def test_another_optimizer_takes_over_if_the_clock_is_deleted_or_silent(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    first, second = Optimizer(), Optimizer()
    for _ in range(40):
        observer.stepped(first)
    for _ in range(40):
        observer.stepped(second)
    steps = log(observer, tmp_path)
    assert len(steps) == 39 + 39
    # Steps from before it took over were only timed.
    assert [step.get("light", 0) for step in steps[39:43]] == [1, 1, 1, 0]
    assert steps[38]["end_ns"] < steps[39]["start_ns"]
    assert [a["end_ns"] for a in steps[39:-1]] == [b["start_ns"] for b in steps[40:]]
    del first, second
    third = Optimizer()
    for _ in range(4):
        observer.stepped(third)
    assert len(log(observer, tmp_path)) == 78 + 3


def test_two_alternating_loops_are_both_logged(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    first, second = Optimizer(), Optimizer()
    for _ in range(3):
        for optimizer in (first, second):
            for _ in range(30):
                observer.stepped(optimizer)
    assert len(log(observer, tmp_path)) == 6 * 29


@pytest.mark.parametrize("times", [1, 2, 5])
def test_several_steps_of_a_critic_are_inside_one_step(
    observer: observing.StepObserver, tmp_path: Path, times: int
) -> None:
    generator, critic = Optimizer(), Optimizer()
    for _ in range(100):
        observer.stepped(generator)
        for _ in range(times):
            observer.stepped(critic)
    # Unknown until the generator returns: four steps of a critic that steps five times.
    known = 99 if times < clock_choice._SILENT_STEPS else 98 + times - 1
    assert len(log(observer, tmp_path)) == known


def test_wait_for_batches_belongs_to_its_step(
    observer: observing.StepObserver, waits: InputWait, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    observer.stepped(optimizer)
    waits.add(5)
    waits.add(6)
    observer.stepped(optimizer)
    observer.stepped(optimizer)
    assert [step["input_wait_ns"] for step in log(observer, tmp_path)] == [11, 0]


def test_the_cpu_time_of_the_driving_thread_is_logged(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        observer.stepped(optimizer)
    sum(range(200_000))
    observer.stepped(optimizer)
    thread = threading.Thread(target=observer.stepped, args=(optimizer,))
    thread.start()
    thread.join()
    *first, busy, elsewhere = [step["cpu_ns"] for step in log(observer, tmp_path)]
    assert busy > max(first) >= 0
    assert elsewhere is None


def test_the_window_may_open_only_after_the_warm_up(
    observer: observing.StepObserver, window: Window
) -> None:
    optimizer = Optimizer()
    for _ in range(20):
        observer.stepped(optimizer)
    assert [step for step, _ in window.announced] == list(range(13))
    assert not any(start for step, start in window.announced if step < observing._EARLIEST_STEP)
    assert window.announced[-1] == (12, True)


def test_the_window_waits_until_nothing_has_been_compiled_for_a_while(
    observer: observing.StepObserver, window: Window, compilations: Compilations
) -> None:
    optimizer = Optimizer()
    for _ in range(13):
        observer.stepped(optimizer)
        if len(window.announced) < 11:
            compilations.add(1, {})
    assert [start for _, start in window.announced[-3:]] == [False, False, True]


def test_only_the_time_of_light_steps_is_logged(
    observer: observing.StepObserver, waits: InputWait, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    seen = []
    for _ in range(65):
        seen.append(int(waits.light))
        waits.add(7)
        sum(range(20_000))
        observer.stepped(optimizer)
    steps = log(observer, tmp_path)
    # The call that ends one step begins the next; the first one ends none.
    assert [s.get("light", 0) for s in steps] == seen[1:]
    assert seen[1:41] == [0] * 32 + [1] * 8
    assert {s["input_wait_ns"] for s in steps if "light" not in s} == {7}
    assert not any({"input_wait_ns", "cpu_ns"} & s.keys() for s in steps if "light" in s)
    assert [a["end_ns"] for a in steps[:-1]] == [b["start_ns"] for b in steps[1:]]
    assert all(s["cpu_ns"] < 2 * (s["end_ns"] - s["start_ns"]) for s in steps if "cpu_ns" in s)


def test_many_other_optimizers_that_step_in_turn_never_take_over(
    observer: observing.StepObserver, tmp_path: Path
) -> None:
    one_per_parameter = [Optimizer() for _ in range(3 * clock_choice._SILENT_STEPS)]
    for _ in range(5):
        for optimizer in one_per_parameter:
            observer.stepped(optimizer)
    assert len(log(observer, tmp_path)) == 4


def test_compilations_are_in_the_line_of_their_step(
    observer: observing.StepObserver, compilations: Compilations, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    for number in range(60):
        if number in (0, 3, 42):  # time before the end of the first step belongs to no step
            compilations.add(5, {"co_name": "loss"})
            compilations.add(4, {"co_name": "loss"})
        observer.stepped(optimizer)
    steps = log(observer, tmp_path)
    compiled = {n: (s["compile_ns"], s["compiled"]) for n, s in enumerate(steps) if "compiled" in s}
    assert compiled == {2: (9, {"compile loss": 9}), 41: (9, {"compile loss": 9})}


def test_lasting_change_is_logged_and_opens_another_window(
    observer: observing.StepObserver,
    window: Window,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [1]
    for module in (observing, step_log):
        monkeypatch.setattr(module, "now_ns", lambda: clock[0])
    optimizer = Optimizer()
    for number in range(400):
        clock[0] += 50_000_000 if number < 200 else 90_000_000
        observer.stepped(optimizer)
    assert window.more == 1
    steps = log(observer, tmp_path)
    (event,) = [
        json.loads(line)
        for line in (tmp_path / f"process-{os.getpid()}" / "events.jsonl").read_text().splitlines()
    ]
    assert (event["kind"], event["name"]) == ("change", "step")
    assert event["start_ns"] in {step["start_ns"] for step in steps[200:]}


def test_internal_failure_does_not_affect_the_training(
    observer: observing.StepObserver, recorder: Recorder, window: Window, tmp_path: Path
) -> None:
    (tmp_path / f"process-{os.getpid()}").write_text("in the way")
    optimizer = Optimizer()
    for _ in range(4):
        observer.stepped(optimizer)
        observer._log.due_ns = 0
    assert recorder.alive is False
    assert window.abandoned > 0


def test_a_pause_belongs_to_no_step(
    observer: observing.StepObserver, window: Window, waits: InputWait, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    observer.resume()  # before the first step
    for _ in range(3):
        observer.stepped(optimizer)
    observer.pause()
    waits.add(10**9)
    observer.resume()
    for _ in range(2):
        observer.stepped(optimizer)
    steps = log(observer, tmp_path)
    assert (len(steps), window.paused) == (4, 1)
    assert steps[1]["end_ns"] < steps[2]["start_ns"]
    assert steps[2]["end_ns"] == steps[3]["start_ns"]
    assert steps[2]["input_wait_ns"] == 0


def test_a_failure_at_a_pause_does_not_affect_the_training(
    observer: observing.StepObserver, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError

    observer.stepped(Optimizer())
    monkeypatch.setattr(window, "pause", fail)
    observer.pause()
    observer.resume()
    assert not observer.recorder.alive
