"""Which operations of a step compute what nothing needs, in this process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import _get_current_dispatch_mode  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from stepwhy.record.torch.dispatch_modes import make_mode  # noqa: E402
from stepwhy.record.torch.later_reads import LaterReads  # noqa: E402
from stepwhy.record.torch.part_use import PartUse  # noqa: E402
from stepwhy.record.torch.provenance import Provenance  # noqa: E402
from stepwhy.record.torch.result_use import UNREAD, WEIGHTED_BY_ZERO, ResultUse  # noqa: E402
from stepwhy.record.torch.result_watch import ResultWatch  # noqa: E402
from stepwhy.record.torch.semantic_mode import StepNotes  # noqa: E402
from stepwhy.record.torch.tensor_reads import TensorReads  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[Any], Any]

BATCH, TARGET = torch.rand(5, 6), torch.rand(5, 1)
nn, functional = torch.nn, torch.nn.functional


class Training:
    """A model that is trained, with what a program may hold beside it."""

    def __init__(self) -> None:
        self.body, self.head = nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Linear(8, 1)
        self.other, self.norm = nn.Linear(8, 1), nn.BatchNorm1d(8)
        modules = nn.ModuleList([self.body, self.head, self.other, self.norm])
        self.parameters = list(modules.parameters())
        self.optimizer = torch.optim.Adam(self.parameters)
        self.total, self.kept = torch.zeros(()), []
        self.scaler = torch.amp.GradScaler("cpu")

    def loss(self) -> Any:
        return functional.mse_loss(self.head(self.body(BATCH)), TARGET)

    def update(self, loss: Any) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def observed(step: Step, training: Training | None = None) -> tuple[StepNotes, Any]:
    """What is noted of a step, and what it leaves behind."""
    training = training or Training()
    training.update(training.loss())  # makes the state of the optimizer
    notes = StepNotes(training.parameters)
    reads = TensorReads(notes.results.read)
    reads.begin()
    try:
        with make_mode(notes.run):
            left = step(training)
    finally:
        reads.end()
    assert notes.stopped is None
    return notes, left


def wasted(step: Step) -> dict[str, int]:
    """The operations whose results go to waste if no later step reads anything, by name."""
    notes, left = observed(step)
    del left
    assert notes.results.is_known
    notes.results.end()
    uses = notes.results.judge(())
    assert len(uses) == len(notes.ops)
    return {notes.names[op]: use for op, use in zip(notes.ops, uses, strict=True) if use}


def plain(training: Training) -> None:
    training.update(training.loss())


def clipped(training: Training) -> None:
    training.optimizer.zero_grad()
    training.loss().backward()
    nn.utils.clip_grad_norm_(training.parameters, 0.5)
    training.optimizer.step()


def scaled(training: Training) -> None:
    with torch.autocast("cpu", torch.bfloat16):
        loss = training.loss()
    training.optimizer.zero_grad()
    training.scaler.scale(loss).backward()
    training.scaler.step(training.optimizer)
    training.scaler.update()


def accumulated(training: Training) -> None:
    training.optimizer.zero_grad()
    for _ in range(3):
        (training.loss() / 3).backward()
    training.optimizer.step()


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_forward_pass_that_is_run_again_is_needed(reentrant: bool) -> None:
    def step(training: Training) -> None:
        batch = BATCH.clone().requires_grad_()
        hidden = checkpoint(training.body, batch, use_reentrant=reentrant)
        training.update(functional.mse_loss(training.head(hidden), TARGET))

    assert wasted(step) == {}


class Propagate(torch.autograd.Function):
    """A product of a graph and of features, both of which get a gradient unless it says not."""

    @staticmethod
    def forward(ctx: Any, graph: Any, rows: Any, careful: bool) -> Any:
        ctx.save_for_backward(graph, rows)
        ctx.careful = careful
        return graph @ rows

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        graph, rows = ctx.saved_tensors
        of_graph = None if ctx.careful else gradient.mm(rows.t()).tanh()
        return of_graph, graph.t().mm(gradient), None


@pytest.mark.parametrize("careful", [True, False])
@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_gradient_that_a_function_of_the_program_computes_in_vain(
    careful: bool, is_leaf: bool
) -> None:
    graph, rows = torch.eye(5, requires_grad=is_leaf), BATCH

    def step(training: Training) -> None:
        hidden = Propagate.apply(graph, training.body(rows), careful)
        training.update(functional.mse_loss(training.head(hidden), TARGET))

    in_vain = {} if careful or is_leaf else {"aten::mm": UNREAD, "aten::tanh": UNREAD}
    assert wasted(step) == in_vain


def test_a_function_named_backward_runs_the_engine() -> None:
    def backward(loss: Any) -> None:
        loss.backward()

    def step(training: Training) -> None:
        weight = torch.ones(1, 6, requires_grad=True)
        training.optimizer.zero_grad()
        backward(training.loss() + functional.linear(BATCH, weight).square().mean())
        training.optimizer.step()

    assert wasted(step) == {}


def with_gradients_given(training: Training) -> None:
    output = training.head(training.body(BATCH))
    training.optimizer.zero_grad()
    torch.autograd.backward([output], [torch.ones_like(output)])
    training.optimizer.step()


def averaged(training: Training) -> None:
    for parameter in training.parameters:
        training.kept.append(parameter.detach().lerp(parameter.detach() + 1, 0.5))
    training.total.mul_(0.9).add_(training.loss().detach())


def counted(training: Training) -> None:
    guess = training.head(training.body(BATCH)).detach()
    training.total += (guess > TARGET).float().mean()


def as_number(training: Training) -> None:
    training.loss().sqrt().item()


def as_list(training: Training) -> None:
    training.body(BATCH).detach().square().tolist()


def as_array(training: Training) -> None:
    training.body(BATCH).detach().square().numpy()


def as_text(training: Training) -> None:
    assert repr(training.body(BATCH).square())


def as_condition(training: Training) -> None:
    assert (training.body(BATCH) <= 1).all()


def as_size(training: Training) -> None:
    assert len((training.body(BATCH) > 2).nonzero()) == 0


def with_statistics(training: Training) -> None:
    # The running mean and variance change.
    with torch.no_grad():
        training.norm(training.body(BATCH))


def double(training: Training) -> None:
    batch = BATCH.clone().requires_grad_()
    (slope,) = torch.autograd.grad(training.body(batch).sum(), batch, create_graph=True)
    training.update(training.loss() + slope.square().mean())


def unowned(training: Training) -> None:
    # What it computes gradients for is the matter of another diagnosis.
    weight = torch.ones(1, 6, requires_grad=True)
    training.update(training.loss() + functional.linear(BATCH, weight).square().mean())


@pytest.mark.parametrize(
    "step",
    [
        plain, clipped, scaled, accumulated, with_gradients_given, averaged, counted, as_number,
        as_list, as_array, as_text, as_condition, as_size, with_statistics, double, unowned,
    ],
)  # fmt: skip
def test_what_is_used_is_needed(step: Step) -> None:
    training = Training()
    notes, left = observed(step, training)
    later = LaterReads(notes.results.end().waiting)
    del left
    later.stop()  # what is kept, as the averages, may be read
    assert not any(notes.results.judge(later.read))


def test_statistics_of_activations_are_wasted() -> None:
    def step(training: Training) -> Any:
        hidden = training.body(BATCH)
        values = hidden.detach()
        found = values.std(0).mean(), values.flatten().kthvalue(7).values
        training.update(functional.mse_loss(training.head(hidden), TARGET))
        return found

    found = wasted(step)
    assert {"aten::std", "aten::kthvalue", "aten::mean"} <= found.keys()
    assert set(found.values()) == {UNREAD}


def test_a_head_that_enters_no_loss_is_wasted() -> None:
    def step(training: Training) -> None:
        hidden = training.body(BATCH)
        torch.softmax(training.other(hidden), 0)
        training.update(functional.mse_loss(training.head(hidden), TARGET))

    assert "aten::_softmax" in wasted(step)
    assert "aten::tanh" not in wasted(step)


def test_a_second_forward_pass_is_wasted() -> None:
    def step(training: Training) -> None:
        training.update(training.loss())
        with torch.no_grad():
            functional.smooth_l1_loss(training.head(training.body(BATCH)), TARGET)

    assert {"aten::smooth_l1_loss", "aten::addmm", "aten::tanh"} <= wasted(step).keys()


def test_norms_of_gradients_are_wasted() -> None:
    def step(training: Training) -> None:
        training.optimizer.zero_grad()
        training.loss().backward()
        grads = [p.grad for p in training.parameters if p.grad is not None]
        torch.stack([grad.norm() for grad in grads]).norm()
        training.optimizer.step()

    assert {"aten::linalg_vector_norm", "aten::stack"} & wasted(step).keys()


@pytest.mark.parametrize("is_last", [True, False])
def test_a_term_without_weight_is_wasted_with_its_backward_pass(is_last: bool) -> None:
    def step(training: Training) -> None:
        hidden = training.body(BATCH)
        term = 0.0 * functional.softplus(training.other(hidden)).pow(2).mean()
        loss = functional.mse_loss(training.head(hidden), TARGET)
        training.update(loss + term if is_last else term + loss)

    found = wasted(step)
    assert found["aten::softplus"] == found["aten::softplus_backward"] == WEIGHTED_BY_ZERO
    assert found["aten::pow"] == WEIGHTED_BY_ZERO
    assert not {"aten::mse_loss", "aten::mse_loss_backward", "aten::tanh"} & found.keys()


def test_a_term_with_weight_is_needed() -> None:
    def step(training: Training) -> None:
        hidden = training.body(BATCH)
        training.update(training.loss() + 0.1 * training.other(hidden).pow(2).mean())

    assert wasted(step) == {}


def test_what_the_host_reads_of_a_term_without_weight_is_needed() -> None:
    def step(training: Training) -> None:
        term = functional.softplus(training.other(training.body(BATCH))).mean()
        training.update(training.loss() + 0 * term)
        term.item()

    found = wasted(step)
    assert "aten::softplus" not in found
    assert found["aten::softplus_backward"] == WEIGHTED_BY_ZERO


def test_values_that_no_operation_has_written_are_of_something_unseen() -> None:
    def step(training: Training) -> None:
        made = torch.empty(3)
        training.total += made.sum()

    assert not observed(step)[0].results.is_known


def test_buffers_that_are_written_are_known() -> None:
    def step(training: Training) -> None:
        made = torch.empty(5, 6)
        for row in range(5):
            made[row] = BATCH[row]
        training.total += made.sum()

    assert wasted(step) == {}


def test_arrays_may_write_what_they_share() -> None:
    def step(training: Training) -> None:
        made = torch.empty(3)
        made.numpy()[:] = 1
        training.total += made.sum()

    assert wasted(step) == {}


def later(left: Any, notes: StepNotes, step: Callable[[Any], None]) -> set[str]:
    """What is wasted of an observed step after a further one was watched."""
    watched = LaterReads(notes.results.end().waiting)
    reads = TensorReads(watched.note)
    reads.begin()
    watched.begin()
    step(left)
    assert watched.end(_get_current_dispatch_mode())
    reads.end()
    left.clear()
    uses = notes.results.judge(watched.read)
    return {notes.names[op] for op, use in zip(notes.ops, uses, strict=True) if use}


@pytest.mark.parametrize(
    "use",
    [
        lambda left: left[0] + 1,
        lambda left: left[0].tolist(),
        lambda left: repr(left[0]),
        torch.stack,
    ],
)
def test_what_a_later_step_reads_is_needed(use: Callable[[Any], Any]) -> None:
    def step(training: Training) -> Any:
        return [training.body(BATCH).detach().std()]

    notes, left = observed(step)
    assert "aten::std" not in later(left, notes, use)


def test_what_is_replaced_is_wasted() -> None:
    def step(training: Training) -> Any:
        return [training.body(BATCH).detach().std()]

    def replace(left: Any) -> None:
        left[0] = BATCH.std()

    notes, left = observed(step)
    assert "aten::std" in later(left, notes, replace)


def test_the_watch_is_over_when_all_is_gone() -> None:
    notes, left = observed(lambda training: [training.body(BATCH).detach().std()])
    watched = LaterReads(notes.results.end().waiting)
    assert not watched.is_over
    left.clear()
    assert watched.is_over
    assert watched.read == set()


def test_another_thread_of_the_program_may_read_results() -> None:
    done = threading.Event()

    def work() -> None:
        done.wait()

    thread = threading.Thread(target=work)
    origins = Provenance()
    watch = ResultWatch(ResultUse(origins), PartUse(origins))
    watch.begin()
    watch.end_step()
    assert watch.end(_get_current_dispatch_mode())
    thread.start()
    try:
        assert watch.finish() is None
    finally:
        done.set()
        thread.join()


def test_methods_of_tensors_are_put_back() -> None:
    before = dict(vars(torch.Tensor))
    reads = TensorReads(lambda _: None)
    reads.begin()
    assert torch.ones(2).numpy().tolist() == torch.ones(2).tolist() == [1, 1]
    assert vars(torch.Tensor) != before
    reads.end()
    assert dict(vars(torch.Tensor)) == before


def test_subclasses_of_tensors_are_asked_for_the_original_methods() -> None:
    asked = []

    class Subclass(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    def read() -> list[Any]:
        asked.clear()
        ones = torch.ones(2).as_subclass(Subclass)
        ones.numpy(), ones.tolist(), ones.data_ptr()
        return list(asked)

    alone, seen = read(), []
    reads = TensorReads(seen.append)
    reads.begin()
    assert read() == alone
    assert [type(one) for one in seen] == [Subclass] * 3
    reads.end()
