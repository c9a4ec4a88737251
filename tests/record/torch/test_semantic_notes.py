"""What is noted of the operations of one step, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import _get_current_dispatch_mode  # noqa: E402

from stepwhy.record.torch.dispatch_modes import make_mode  # noqa: E402
from stepwhy.record.torch.feature_inputs import Ends, padded_features  # noqa: E402
from stepwhy.record.torch.fingerprints import fingerprint  # noqa: E402
from stepwhy.record.torch.fresh_constants import FreshConstants  # noqa: E402
from stepwhy.record.torch.gradient_use import NO_WEIGHT, OTHER, PENALTY  # noqa: E402
from stepwhy.record.torch.semantic_mode import StepNotes  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL: Any = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
BATCH = torch.rand(5, 6)
FORCES = torch.rand(5, 6)


def noted(step: Callable[[], None]) -> StepNotes:
    notes = StepNotes(list(MODEL.parameters()))
    with make_mode(notes.run):
        step()
    assert notes.stopped is None
    return notes


def slopes() -> Any:
    batch = BATCH.clone().requires_grad_()
    return torch.autograd.grad(MODEL(batch).sum(), batch, create_graph=True)[0]


def wasserstein() -> Any:
    return (slopes().norm(2, dim=1) - 1).square().mean()


def r1() -> Any:
    return slopes().pow(2).flatten(1).sum(1).mean()


def of_parameters() -> Any:
    found = torch.autograd.grad(MODEL(BATCH).mean(), list(MODEL.parameters()), create_graph=True)
    return found[0].square().sum() + found[2].square().sum()


def towards_one() -> Any:
    norms = slopes().norm(2, dim=1)
    return torch.nn.functional.mse_loss(norms, torch.ones_like(norms))


def forces() -> Any:
    return torch.nn.functional.mse_loss(-slopes(), FORCES)


def residual() -> Any:
    slope = slopes()
    return (slope[:, 0] - 0.1 * slope[:, 1]).square().mean()


def product_with_vector() -> Any:
    return (slopes() * FORCES).sum()


def inner_step() -> Any:
    weights = list(MODEL.parameters())
    found = torch.autograd.grad(MODEL(BATCH).mean(), weights, create_graph=True)
    fast = weights[0] - 0.1 * found[0]
    return torch.nn.functional.linear(BATCH, fast).square().mean()


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (wasserstein, PENALTY),
        (r1, PENALTY),
        (of_parameters, PENALTY),
        (towards_one, PENALTY),
        (forces, OTHER),
        (residual, OTHER),
        (product_with_vector, OTHER),
        (inner_step, OTHER),
    ],
)
def test_a_penalty_is_told_from_gradients_that_the_step_needs(
    term: Callable[[], Any], kind: str
) -> None:
    def step() -> None:
        (MODEL(BATCH).square().mean() + 10 * term()).backward()

    found = noted(step).gradients
    assert (found.kind, found.line.rpartition(" ")[2]) == (kind, term.__name__)


def test_a_weight_of_zero_is_noted() -> None:
    def step() -> None:
        (MODEL(BATCH).square().mean() + 0.0 * wasserstein()).backward()

    assert noted(step).gradients.kind == NO_WEIGHT


def test_usual_gradients_are_no_penalty() -> None:
    def step() -> None:
        MODEL.zero_grad()
        MODEL(BATCH).square().mean().backward()
        sum(weight.grad.norm() for weight in MODEL.parameters())

    assert not noted(step).gradients.kind


def padded_batch() -> Any:
    batch = torch.rand(4, 10, 6)
    for row, length in enumerate((3, 7, 5, 2)):
        batch[row, length:] = 0
    return batch


def test_zeros_at_the_end_are_found_in_each_layout() -> None:
    batch = padded_batch()
    for tensor in (batch, batch.transpose(0, 1), batch.transpose(1, 2)):
        assert (4, 10, 3, 6) in list(padded_features(tensor))
    assert list(padded_features(torch.rand(4, 10, 6))) == []


@pytest.mark.parametrize(
    ("tensor", "ends"),
    [
        (torch.tensor([3, 7, 5, 2]), True),
        (torch.tensor([3, 8, 5, 2]), False),
        (torch.arange(10) < torch.tensor([[3], [7], [5], [2]]), True),
        ((torch.arange(10) < torch.tensor([[3], [7], [5], [2]])).t().float(), True),
        (torch.ones(4, 10), False),
        (torch.rand(4), False),
    ],
)
def test_lengths_and_masks_say_where_rows_end(tensor: Any, ends: bool) -> None:
    known = Ends()
    known.note(tensor)
    assert known.confirm(4, 10, 3) is ends


@pytest.mark.parametrize(("lengths", "padded"), [([3, 7, 5, 2], 3), ([9, 1, 4, 2], 0)])
def test_features_are_padded_where_the_step_reads_their_lengths(
    lengths: list[int], padded: int
) -> None:
    batch, counts = padded_batch(), torch.tensor(lengths)

    def step() -> None:
        sums = MODEL(batch).sum(1) / counts[:, None]
        sums.mean().backward()

    inputs = noted(step).inputs
    inputs.confirm_features()
    assert [one.padded for one in inputs.all if one.columns == 10] == [padded]


def watched(known: Any, *steps: Callable[[], Any]) -> set[int]:
    constants = FreshConstants({3: fingerprint(known)})
    for step in steps:
        constants.begin()
        step()
        assert constants.end(_get_current_dispatch_mode())
    return constants.left


def test_what_each_step_makes_of_the_same_values_is_found_again() -> None:
    values = [0.5, 0.25, 4.0]

    def same() -> None:
        torch.tensor(values).exp()

    def other() -> None:
        torch.tensor(values[::-1]).exp()

    assert watched(torch.tensor(values), same, same) == {3}
    assert watched(torch.tensor(values), same, other) == set()
    assert watched(torch.tensor(values), other, same) == set()


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_end_no_notes() -> None:
    graph, rows = torch.eye(16).to_sparse(), torch.rand(16, 8)

    def step() -> None:
        (graph @ rows).sum()
        graph.to_sparse_csr() @ rows

    notes = noted(step)
    assert notes.stopped is None
    assert notes.names[notes.ops[-1]] == "aten::mm"


def test_a_mode_of_the_program_above_is_left_alone() -> None:
    constants = FreshConstants({3: fingerprint(torch.rand(4))})
    constants.begin()
    own = make_mode(StepNotes([]).run)
    with own:
        assert not constants.end(_get_current_dispatch_mode())
    assert constants.end(_get_current_dispatch_mode())
    assert constants.left == set()


def test_equal_values_are_no_constants() -> None:
    def step() -> None:
        torch.ones(80, 80).exp()
        torch.from_numpy(torch.ones(70, 70).numpy()).exp()
        torch.tensor([[1.0] * 70, [2.0] * 70] * 40).exp()

    assert len(noted(step).fresh_sources()) == 1
