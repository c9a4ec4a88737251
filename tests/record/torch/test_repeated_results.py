"""Which operations of a step compute again what an earlier one has computed, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from stepwhy.record.torch import repeated_results  # noqa: E402
from stepwhy.record.torch.dispatch_modes import make_mode  # noqa: E402
from stepwhy.record.torch.semantic_mode import StepNotes  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[["Training"], object]

functional = torch.nn.functional


class Training:
    """A layer, its optimizer, and a batch in memory that NumPy can write."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 8)
        self.optimizer = torch.optim.SGD(self.layer.parameters(), 0.1)
        self.memory = np.random.default_rng(0).random((4, 8), np.float32)
        self.batch = torch.from_numpy(self.memory)


@pytest.fixture(autouse=True)
def all_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_results, "_LEAST_NS", 0)


def repeated(step: Step) -> list[str]:
    """Names of the operations that compute a result again."""
    training = Training()
    notes = StepNotes(list(training.layer.parameters()))
    with make_mode(notes.run):
        step(training)
    assert notes.stopped is None
    found = notes.repeats.found
    assert len(found) == len(notes.ops)
    return [notes.names[op] for op, again in zip(notes.ops, found, strict=True) if again]


def second_pass_for_a_metric(t: Training) -> None:
    loss = t.layer(t.batch).relu().sum()
    with torch.no_grad():
        t.layer(t.batch).relu().argmax(1)
    loss.backward()


def weight_in_each_step(t: Training) -> None:
    for row in t.batch:
        row @ torch.matrix_exp(t.layer.weight - t.layer.weight.T)


def first_without_gradients(t: Training) -> None:
    with torch.no_grad():
        t.layer(t.batch).relu()
    t.layer(t.batch).relu().sum().backward()
    with torch.no_grad():
        t.layer(t.batch).relu()


def parts_of_results(t: Training) -> None:
    for _ in range(2):
        values, places = t.layer(t.batch).max(1)
        values.exp(), places + 1


def with_numbers(t: Training) -> None:
    for _ in range(2):
        functional.leaky_relu(t.batch, 0.5)
        t.batch.sum([0, 1], keepdim=True)


@pytest.mark.parametrize(
    ("step", "names"),
    [
        (second_pass_for_a_metric, ["addmm", "relu"]),
        (first_without_gradients, ["addmm", "relu"]),
        (weight_in_each_step, ["sub", "linalg_matrix_exp"] * 3),
        (parts_of_results, ["addmm", "max", "exp", "add"]),
        (with_numbers, ["leaky_relu", "sum"]),
    ],
)
def test_the_same_of_the_same_values(step: Step, names: list[str]) -> None:
    assert repeated(step) == [f"aten::{name}" for name in names]


def after_an_update(t: Training) -> None:
    t.layer(t.batch).sum().backward()
    t.optimizer.step()
    t.layer(t.batch)


def of_written_values(t: Training) -> None:
    made = t.batch * 2
    made.exp()
    made.add_(1)
    made.exp()


def with_an_output(t: Training) -> None:
    made = torch.empty(4, 8)
    torch.exp(t.batch, out=made)
    made.sin()
    torch.cos(t.batch, out=made)
    made.sin()


def random_numbers(t: Training) -> None:
    for _ in range(2):
        functional.dropout(t.batch).exp()
        torch.rand(4).exp()


def with_other_numbers(t: Training) -> None:
    for slope in (0, 0.0, False, 0.5):
        functional.leaky_relu(t.batch, slope)


def of_other_parts(t: Training) -> None:
    for place in range(4):
        t.batch[place].exp()
    t.batch.T.contiguous().exp()


def memory_written_unseen(t: Training) -> None:
    for number in range(3):
        t.memory[:] = number
        t.layer(t.batch).exp()


def of_other_types(t: Training) -> None:
    t.layer(t.batch).view(torch.int32).abs()
    t.layer.weight.view(torch.int32).abs()


def buffers_and_copies(t: Training) -> None:
    for _ in range(2):
        torch.zeros(4).add_(1)
        t.batch.clone().add_(1)
        t.batch.double().add_(1)


def within_backward(t: Training) -> None:
    hidden = torch.utils.checkpoint.checkpoint(t.layer, t.batch, use_reentrant=False)
    hidden.sum().backward()


def sparse(t: Training) -> None:
    for _ in range(2):
        torch.eye(4).to_sparse() @ t.batch


@pytest.mark.parametrize(
    "step",
    [
        after_an_update,
        of_written_values,
        with_an_output,
        random_numbers,
        with_other_numbers,
        of_other_parts,
        memory_written_unseen,
        of_other_types,
        buffers_and_copies,
        within_backward,
    ],
)
def test_what_is_not_the_same(step: Step) -> None:
    assert repeated(step) == []


def test_what_cannot_be_compared_is_not_the_same() -> None:
    assert "aten::_sparse_mm" not in repeated(sparse)


def test_rounding_makes_no_difference() -> None:
    nan = float("nan")
    assert repeated_results._are_close([1.0, nan, 2, 1j], [1.00001, nan, 2, 1j])
    assert not repeated_results._are_close([1.0], [1.1])
    assert not repeated_results._are_close([1.0], [1.0, 1.0])


def test_results_that_take_no_time_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_results, "_LEAST_NS", 10**12)
    assert repeated(second_pass_for_a_metric) == []


def test_work_of_an_accelerator_may_be_long_however_short_its_launch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeated_results, "_LEAST_NS", 20_000)
    assert repeated_results._may_be_long(torch.empty(4, device="meta"), 0)
    assert not repeated_results._may_be_long(torch.empty(4), 0)


def test_a_limited_number_of_results_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_results, "_MOST_COMPARED", 4)
    assert repeated(second_pass_for_a_metric) == ["aten::addmm"]
