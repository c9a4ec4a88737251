"""Layers that run separately for rows that could be together, in this process."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from stepwhy.record.torch.dispatch_modes import make_mode  # noqa: E402
from stepwhy.record.torch.semantic_mode import StepNotes  # noqa: E402


class Decoder(torch.nn.Module):
    """A recurrent cell and a layer that makes the output of each time step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.cell, self.words = torch.nn.GRUCell(4, 8), torch.nn.Linear(8, 4)


def found(step, rows=2):
    """Functions whose lines run a layer separately, with the number of runs."""
    model = Decoder()
    inputs = torch.randn(20, rows, 4)
    notes = StepNotes(list(model.parameters()))
    with make_mode(notes.run):
        step(model, inputs)
    assert notes.stopped is None
    return [(each.line.rpartition(": ")[2], each.op, each.runs) for each in notes.separate.found]


def scores_in_the_loop(model, inputs):
    state, scores = torch.zeros(inputs.shape[1], 8), []
    for row in inputs:
        state = model.cell(row, state)
        scores.append(model.words(state))
    torch.stack(scores).sum().backward()


def scores_after_the_loop(model, inputs):
    state, states = torch.zeros(inputs.shape[1], 8), []
    for row in inputs:
        state = model.cell(row, state)
        states.append(state)
    model.words(torch.stack(states)).sum().backward()


def feeds_back(model, inputs):
    state, scores = torch.zeros(inputs.shape[1], 8), inputs[0]
    for _ in inputs:
        state = model.cell(scores, state)
        scores = model.words(state)
    scores.sum().backward()


def acts(model, inputs):
    """The environment answers with arrays, which no operation made."""
    scores, observation = [], inputs[0].repeat(1, 2)
    for _ in inputs:
        scores.append(model.words(observation))
        observation = torch.from_numpy(scores[-1].detach().numpy().repeat(2, 1).copy())
    torch.stack(scores).sum().backward()


def reads_scores(model, inputs):
    scores = []
    for row in inputs.repeat(1, 1, 2):
        scores.append(model.words(row))
        if float(scores[-1].detach()[0, 0]) > 1e9:
            break
    torch.stack(scores).sum().backward()


def parts_of_a_batch(model, inputs):
    for row in inputs.repeat(1, 1, 2):
        model.words(row).sum().backward()


def beside_a_computed_weight(model, inputs):
    weight, state = model.words.weight.T @ model.words.weight, torch.zeros(inputs.shape[1], 8)
    for row in inputs:
        state = torch.tanh(row @ model.words.weight + state @ weight)
    state.sum().backward()


def without_gradients(model, inputs):
    with torch.no_grad():
        for row in inputs.repeat(1, 1, 2):
            model.words(row)


def few_runs(model, inputs):
    sum(model.words(row).sum() for row in inputs[:15].repeat(1, 1, 2)).backward()


def test_a_layer_whose_runs_do_not_need_each_other():
    name = "scores_in_the_loop"
    assert found(scores_in_the_loop) == [(name, "aten::addmm", 20)]
    assert found(scores_in_the_loop, rows=65) == []


@pytest.mark.parametrize(
    "step",
    [
        scores_after_the_loop,
        feeds_back,
        acts,
        reads_scores,
        parts_of_a_batch,
        beside_a_computed_weight,
        without_gradients,
        few_runs,
    ],
)
def test_runs_that_are_one_already_or_need_each_other(step):
    assert found(step) == []
