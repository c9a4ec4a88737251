"""Steps by the optimizer's clock, with optimizers and a window that do nothing."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.capture import pytorch
from stepwhy.capture.recorder import Recorder

if TYPE_CHECKING:
    from pathlib import Path


class Optimizer:
    pass


class Window:
    """Takes note of what it is told; never profiles."""

    touched = False

    def __init__(self) -> None:
        self.told: list[tuple[int, bool]] = []
        self.abandoned = 0

    def next_step(self, step: int, *, start: bool) -> None:
        self.told.append((step, start))

    def abandon(self) -> None:
        self.abandoned += 1


@pytest.fixture
def window() -> Window:
    return Window()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(str(tmp_path), "pytorch", "2.0", "torch-optimizer")


@pytest.fixture
def observer(recorder: Recorder, window: Any) -> pytorch.StepObserver:
    pytorch._input_wait.__init__()  # type: ignore[misc]
    return pytorch.StepObserver(recorder, window)


def log(recorder: Recorder, tmp_path: Path) -> list[dict[str, Any]]:
    recorder.close()
    path = tmp_path / f"process-{os.getpid()}" / "steps.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_step_lasts_from_one_optimizer_step_to_the_next(
    observer: pytorch.StepObserver, recorder: Recorder, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    for _ in range(4):
        observer.stepped(optimizer)
    steps = log(recorder, tmp_path)
    assert len(steps) == 3
    assert [a["end_ns"] for a in steps[:-1]] == [b["start_ns"] for b in steps[1:]]
    assert {step["input_wait_ns"] for step in steps} == {None}


def test_one_optimizer_is_the_clock(
    observer: pytorch.StepObserver, recorder: Recorder, tmp_path: Path
) -> None:
    generator, discriminator = Optimizer(), Optimizer()
    for _ in range(10):
        observer.stepped(discriminator)
        observer.stepped(generator)
    assert len(log(recorder, tmp_path)) == 9


def test_another_optimizer_takes_over_when_the_clock_is_gone_or_silent(
    observer: pytorch.StepObserver, recorder: Recorder, tmp_path: Path
) -> None:
    first, second = Optimizer(), Optimizer()
    observer.stepped(first)
    for _ in range(pytorch._SILENT_STEPS + 2):
        observer.stepped(second)
    assert len(log(recorder, tmp_path)) == 2
    del second
    third = Optimizer()
    for _ in range(4):
        observer.stepped(third)
    assert len(log(recorder, tmp_path)) == 5


def test_the_wait_for_batches_belongs_to_the_step_in_which_it_fell(
    observer: pytorch.StepObserver, recorder: Recorder, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    observer.stepped(optimizer)
    pytorch._input_wait.add(5)
    pytorch._input_wait.add(6)
    observer.stepped(optimizer)
    observer.stepped(optimizer)
    assert [step["input_wait_ns"] for step in log(recorder, tmp_path)] == [11, 0]


def test_the_cpu_time_of_the_driving_thread_is_logged(
    observer: pytorch.StepObserver, recorder: Recorder, tmp_path: Path
) -> None:
    optimizer = Optimizer()
    for _ in range(3):
        observer.stepped(optimizer)
    sum(range(200_000))
    observer.stepped(optimizer)
    thread = threading.Thread(target=observer.stepped, args=(optimizer,))
    thread.start()
    thread.join()
    *first, busy, elsewhere = [step["cpu_ns"] for step in log(recorder, tmp_path)]
    assert busy > max(first) >= 0
    assert elsewhere is None


def test_a_failing_iterator_still_counts_and_still_fails() -> None:
    pytorch._input_wait.__init__()  # type: ignore[misc]

    def exhausted() -> None:
        raise StopIteration

    with pytest.raises(StopIteration):
        pytorch._timed(exhausted)()
    waited = pytorch._input_wait.take()
    assert waited is not None
    assert waited > 0


def test_the_window_may_open_only_after_the_warm_up(
    observer: pytorch.StepObserver, window: Window
) -> None:
    optimizer = Optimizer()
    for _ in range(12):
        observer.stepped(optimizer)
    assert [step for step, _ in window.told] == list(range(12))
    assert not any(start for step, start in window.told if step < pytorch._EARLIEST_STEP)
    assert window.told[-1] == (11, True)


def test_an_internal_failure_does_not_show(
    observer: pytorch.StepObserver, recorder: Recorder, window: Window, tmp_path: Path
) -> None:
    (tmp_path / f"process-{os.getpid()}").write_text("in the way")
    optimizer = Optimizer()
    for _ in range(4):
        observer.stepped(optimizer)
    assert recorder.alive is False
    assert window.abandoned > 0
