"""Whether the program itself reads gradients of parameters, and that watching changes nothing."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.torch.gradient_reads import GradientReads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

torch = pytest.importorskip("torch")


@pytest.fixture
def reads() -> Iterator[GradientReads]:
    made = GradientReads()
    yield made
    made.end()


def parameter() -> Any:
    made = torch.nn.Parameter(torch.ones(2))
    made.grad = torch.full((2,), 3.0)
    return made


def norm_by_hand(p: Any) -> None:
    float(p.grad.norm())


def update_by_hand(p: Any) -> None:
    with torch.no_grad():
        p.data -= 0.1 * p.grad


def information(p: Any) -> None:
    fisher = torch.zeros(2)
    fisher += p.grad**2


def copy(p: Any) -> None:
    [each.grad.clone() for each in [p] if each.grad is not None]


def kept(p: Any) -> None:
    gradients = [p.grad]
    p.grad = None
    torch._foreach_mul_(gradients, 2)


def read_by_name(p: Any) -> None:
    getattr(p, "grad").sum()  # noqa: B009


def data(p: Any) -> None:
    p.data.add_(p.grad.data, alpha=-0.1)


def lend(p: Any) -> None:
    parameter().grad = p.grad


USES = [
    norm_by_hand, update_by_hand, information, copy, kept, read_by_name, data, lend,
]  # fmt: skip


def clear(p: Any) -> None:
    p.grad = None


def look_and_clear(p: Any) -> None:
    if p.grad is not None:
        p.grad = None


def zero(p: Any) -> None:
    if p.grad is not None:
        p.grad.detach_()
        p.grad.zero_()


def zero_data(p: Any) -> None:
    p.grad.data.zero_()


def clear_in_optimizer(p: Any) -> None:
    torch.optim.SGD([p], 0.1).zero_grad()


def zero_in_optimizer(p: Any) -> None:
    torch.optim.SGD([p], 0.1, foreach=True).zero_grad(set_to_none=False)


def delete(p: Any) -> None:
    del p.grad


def clip(p: Any) -> None:
    torch.nn.utils.clip_grad_norm_([p], 1.0)
    torch.nn.utils.clip_grad_value_([p], 1.0)


def look_at_shape(p: Any) -> None:
    # pytest takes the parts of an assertion apart, so that they would be read.
    if p.grad is None or p.grad.requires_grad or p.grad.shape != (2,):
        raise AssertionError


NO_USES = [
    clear, look_and_clear, zero, zero_data, clear_in_optimizer, zero_in_optimizer, delete,
    look_at_shape, clip,
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_what_reads_a_gradient_is_noticed(use: Callable[[Any], None], reads: GradientReads) -> None:
    watched, other = parameter(), parameter()
    reads.watch([watched])
    use(other)
    assert not reads.any_of([weakref.ref(watched)])
    use(watched)
    assert reads.any_of([weakref.ref(watched)])


@pytest.mark.parametrize("no_use", NO_USES)
def test_to_test_or_clear_a_gradient_reads_none(
    no_use: Callable[[Any], None], reads: GradientReads
) -> None:
    watched = parameter()
    reads.watch([watched])
    no_use(watched)
    assert not reads.any_of([weakref.ref(watched)])


def test_where_no_gradient_is_none_is_read(reads: GradientReads) -> None:
    watched = torch.nn.Parameter(torch.ones(2))
    reads.watch([watched])
    assert watched.grad is None
    found = watched.grad
    assert found is None
    assert not reads.any_of([weakref.ref(watched)])


@pytest.mark.parametrize("do", USES + NO_USES)
def test_a_watched_parameter_is_as_any_other(
    do: Callable[[Any], None], reads: GradientReads
) -> None:
    plain, watched = parameter(), parameter()
    do(plain)
    reads.watch([watched])
    do(watched)
    reads.end()
    assert torch.equal(plain, watched)
    assert (plain.grad is None) == (watched.grad is None)
    assert plain.grad is None or torch.equal(plain.grad, watched.grad)


def test_a_gradient_of_another_shape_is_the_same_error(reads: GradientReads) -> None:
    watched = parameter()
    reads.watch([watched])
    with pytest.raises(RuntimeError, match="size"):
        watched.grad = torch.ones(5)


def test_at_the_end_nothing_is_left(reads: GradientReads) -> None:
    reads.watch([parameter()])
    assert "grad" in vars(torch.nn.Parameter)
    assert "grad" not in vars(torch.Tensor)
    reads.end()
    assert "grad" not in vars(torch.nn.Parameter)
    assert not reads.is_on


@pytest.fixture
def replaced() -> Iterator[Any]:
    known, kind = parameter(), torch.nn.Parameter
    kind.grad = property(lambda _: None)
    yield known
    del kind.grad


def test_what_the_program_has_replaced_is_left_alone(replaced: Any, reads: GradientReads) -> None:
    assert "was replaced" in reads.obstacle([replaced])


def test_leaves_that_are_no_parameters_cannot_be_watched(reads: GradientReads) -> None:
    assert "no plain parameter" in reads.obstacle([torch.ones(2, requires_grad=True)])
    assert not reads.obstacle([parameter()])


def test_compiled_programs_are_not_watched(
    reads: GradientReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwhy.record.torch.gradient_reads.is_compiled", lambda: True)
    assert "torch.compile" in reads.obstacle([parameter()])
