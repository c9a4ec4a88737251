"""Walks of graphs: which nodes lead to no parameter of an optimizer, and when none is known."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.torch.gradient_walk import GradientWalk

if TYPE_CHECKING:
    from collections.abc import Iterator

torch = pytest.importorskip("torch")
teacher: Any = None


@pytest.fixture(autouse=True)
def unwatched() -> Iterator[None]:
    """Some walks are left while they watch parameters, as their programs do not go on."""
    yield
    if "grad" in vars(torch.nn.Parameter):
        del torch.nn.Parameter.grad


class Log:
    """Stands for the recorder."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, kind: str, **about: Any) -> None:
        self.events.append({"kind": kind, **about})

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]


def walked(loss: Any, *parameters: Any, **kwargs: Any) -> Log:
    log = Log()
    walk = GradientWalk(log)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(parameters, 0.1) if parameters else None
    if optimizer is not None:
        walk.know(optimizer)
    walk.begin()
    walk.walk(loss, **kwargs)
    walk.end()
    walk.report()
    walk.finish()
    return log


def numbers(text: str) -> set[int]:
    ranges = [[int(n) for n in part.split("-")] for part in text.split()]
    return {n for r in ranges for n in range(r[0], r[-1] + 1)}


def unused(log: Log) -> set[int]:
    (event,) = log.of("gradient-walk")
    assert event["count"] is not None, event["reason"]
    return numbers(event["name"])


def code_of(event: dict[str, Any]) -> str:
    number = int(event["source"].partition("(")[2].partition(")")[0])
    return Path(__file__).read_text().splitlines()[number - 1].strip()


class Momentum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.online, self.target = linear(), linear()

    def update(self) -> Any:
        return self.target(torch.ones(1, 3))

    def forward(self, batch: Any) -> Any:
        expected = self.target(batch)
        return (self.online(batch) - expected).square().sum()


def test_the_line_of_a_module_that_calls_such_a_part_of_it() -> None:
    model = Momentum()
    log = walked(model(torch.ones(4, 3)), *model.online.parameters())
    (call,) = log.of("unowned-call")
    assert (call["name"], code_of(call)) == ("Momentum.target", "expected = self.target(batch)")


def test_the_line_that_makes_a_module_does_not_call_it() -> None:
    frozen, head = Momentum(), linear()
    loss = frozen(torch.ones(4, 3)) * head(torch.ones(1, 3)).sum()
    log = walked(loss, *head.parameters())
    assert [e["name"] for e in log.of("unowned-parameters")] == ["Momentum"]
    assert not log.of("unowned-call")


def linear() -> Any:
    return torch.nn.Linear(3, 3)


def test_a_teacher_that_runs_with_gradients_is_unused() -> None:
    student, batch = linear(), torch.ones(4, 3)
    globals()["teacher"] = torch.nn.Sequential(linear(), torch.nn.ReLU(), linear())
    target = teacher(batch)
    loss = (student(batch) - target).square().sum()
    log = walked(loss, *student.parameters())
    assert target.grad_fn._sequence_nr() in unused(log)
    assert loss.grad_fn._sequence_nr() not in unused(log)
    assert [(e["name"], e["reason"]) for e in log.of("unowned-parameters")] == [("teacher", "4")]
    (call,) = log.of("unowned-call")
    assert code_of(call).startswith("target = ")


def test_a_module_that_is_no_global_variable_has_the_name_of_its_class() -> None:
    encoder = torch.nn.ModuleDict({"first": linear(), "second": linear()})
    head = linear()
    loss = head(encoder["second"](encoder["first"](torch.ones(1, 3)))).sum()
    log = walked(loss, *head.parameters(), *encoder["second"].parameters())
    names = [(e["name"], e["reason"]) for e in log.of("unowned-parameters")]
    assert names == [("ModuleDict.first", "2")]
    assert not log.of("unowned-call")


def test_a_teacher_without_gradients_leaves_nothing_to_find() -> None:
    student, batch = linear(), torch.ones(4, 3)
    with torch.no_grad():
        target = linear()(batch)
    log = walked((student(batch) - target).square().sum(), *student.parameters())
    assert unused(log) == set()
    assert not log.of("unowned-parameters")


def test_a_layer_that_only_passes_a_gradient_on_is_half_unused() -> None:
    image, layer = torch.ones(1, 3, requires_grad=True), linear()
    hidden = layer(image)
    log = walked(hidden.sum(), image)
    (event,) = log.of("gradient-walk")
    assert numbers(event["reason"]) == {hidden.grad_fn._sequence_nr()}
    assert hidden.grad_fn._sequence_nr() not in unused(log)


def test_the_gradient_of_an_input_may_be_used() -> None:
    batch, layer = torch.ones(1, 3, requires_grad=True), linear()
    log = walked((layer(batch) + batch.exp()).sum(), *layer.parameters())
    assert unused(log) == set()


def test_a_parameter_with_a_hook_may_be_used() -> None:
    layer, other = linear(), linear()
    other.weight.register_hook(lambda gradient: gradient)
    other.bias.requires_grad_(False)
    log = walked((layer(torch.ones(1, 3)) + other(torch.ones(1, 3))).sum(), *layer.parameters())
    assert unused(log) == set()


def test_an_optimizer_may_have_a_copy_of_another_type() -> None:
    half, layer = linear().bfloat16(), linear()
    copies = [torch.nn.Parameter(p.detach().float()) for p in half.parameters()]
    loss = layer(half(torch.ones(1, 3).bfloat16()).float()).sum()
    assert unused(walked(loss, *layer.parameters(), *copies)) == set()


def test_a_pass_for_some_inputs_is_not_walked() -> None:
    layer = linear()
    loss = layer(torch.ones(1, 3)).sum()
    assert not walked(loss, layer.weight, inputs=[layer.weight]).events


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [((), "no optimizer"), ((torch.ones(1, requires_grad=True),), "no leaf of the graph")],
)
def test_without_an_optimizer_of_the_graph_there_is_no_answer(parameters: Any, reason: str) -> None:
    (event,) = walked(linear()(torch.ones(1, 3)).sum(), *parameters).events
    assert event["count"] is None
    assert reason in event["reason"]


def test_subclasses_of_tensors_are_refused() -> None:
    layer, sharded = linear(), type("Sharded", (torch.nn.Parameter,), {})
    layer.weight = sharded(torch.ones(3, 3))
    (event,) = walked(layer(torch.ones(1, 3)).sum(), layer.bias).events
    assert "subclass" in event["reason"]


def test_subclasses_are_told_nothing() -> None:
    told: list[Any] = []

    class Telling(torch.Tensor):  # type: ignore[misc]
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            told.append(func)
            return super().__torch_function__(func, types, args, kwargs)

    layer = linear()
    weight = torch.ones(2).as_subclass(Telling).requires_grad_()
    for parameters in ([], [weight]):
        loss = layer(torch.ones(1, 3)).sum()
        optimizer = torch.optim.SGD([*layer.parameters(), *parameters], 0.1)
        walk = GradientWalk(log := Log())  # type: ignore[arg-type]
        walk.know(optimizer)
        walk.begin()
        told.clear()
        walk.walk(loss if parameters else loss.as_subclass(Telling))
        (event,) = log.events
        assert "subclass" in event["reason"]
        assert not told


def test_attributes_of_a_function_of_the_program_are_its_own() -> None:
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.variable, ctx.name = torch.nn.Parameter(torch.ones(1)), "kept"
            return x * 2

        @staticmethod
        def backward(_: Any, gradient: Any) -> Any:
            return gradient * 2

    layer, other = linear(), linear()
    loss = (Kept.apply(layer(torch.ones(1, 3))) + Kept.apply(other(torch.ones(1, 3)))).sum()
    log = walked(loss, *layer.parameters())
    functions = [node for node, _ in loss.grad_fn.next_functions[0][0].next_functions]
    assert [node._sequence_nr() in unused(log) for node in functions] == [False, True]
    assert [e["reason"] for e in log.of("unowned-parameters")] == ["2"]


def test_large_graphs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwhy.record.torch.gradient_graph._MOST_NODES", 3)
    layer = linear()
    (event,) = walked(layer(torch.ones(1, 3)).exp().exp().sum(), layer.weight).events
    assert "more than 3 nodes" in event["reason"]


def test_whatever_fails_does_not_reach_the_training() -> None:
    layer = linear()
    (event,) = walked(object(), layer.weight).events
    assert event["count"] is None


def test_the_graph_does_not_live_longer() -> None:
    layer = linear()
    hidden = layer(torch.ones(1, 3)).exp()
    seen = weakref.ref(hidden)
    walked(hidden.sum(), layer.weight)
    del hidden
    gc.collect()
    assert seen() is None


def test_a_gradient_is_the_same_with_and_without_a_walk() -> None:
    torch.manual_seed(0)
    layer = linear()
    first, second = (layer(torch.ones(2, 3)).square().sum() for _ in range(2))
    first.backward()
    expected = layer.weight.grad.clone()
    layer.zero_grad()
    walked(second, *layer.parameters())
    second.backward()
    assert torch.equal(layer.weight.grad, expected)


def test_passes_of_one_step_are_walked_up_to_a_limit() -> None:
    log, layer = Log(), linear()
    walk = GradientWalk(log)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    walk.know(optimizer)
    walk.begin()
    count = 0
    while walk.is_due and count < 100:
        walk.walk(layer(torch.ones(1, 3)).sum())
        count += 1
    assert count == len(log.of("gradient-walk")) == 8
    walk.begin()
    walk.end()
    assert not walk.is_due


class Pair:
    """A generator and a critic with an optimizer each, and a walk that watches their passes."""

    def __init__(self) -> None:
        self.log = Log()
        self.walk = GradientWalk(self.log)  # type: ignore[arg-type]
        self.made, self.critic = torch.nn.Sequential(linear(), linear()), linear()
        self.of_made = torch.optim.Adam(self.made.parameters(), 0.1)
        self.of_critic = torch.optim.Adam(self.critic.parameters(), 0.1)
        self.walk.know(self.of_made)
        self.walk.know(self.of_critic)

    def backward(self, loss: Any) -> None:
        if self.walk.is_due:
            self.walk.walk(loss)
        loss.backward()

    def step(self, optimizer: Any) -> None:
        optimizer.step()
        self.walk.stepped(optimizer)

    def fake(self) -> Any:
        return self.made(torch.ones(2, 3))

    def of(self, kind: str) -> list[tuple[str, str]]:
        self.walk.report()
        return [(e["name"], e["reason"]) for e in self.log.of(kind)]


def test_gradients_that_are_cleared_before_their_optimizer_steps_are_dropped() -> None:
    pair = Pair()
    pair.walk.begin()
    fake = pair.fake()
    pair.backward(pair.critic(fake).sum())
    pair.step(pair.of_critic)
    pair.walk.end()  # the next step shows that they are gone
    pair.of_made.zero_grad()
    pair.of_critic.zero_grad()
    pair.backward(pair.critic(pair.fake()).sum())
    assert pair.of("dropped-parameters") == [("Sequential", "4")]
    first, second = pair.log.of("gradient-walk")
    assert numbers(first["name"]) == set()
    assert fake.grad_fn._sequence_nr() in numbers(second["name"])
    assert not pair.walk.is_due


@pytest.mark.parametrize("way", ["detached", "used", "kept", "read"])
def test_gradients_that_are_used_or_still_there_are_not_dropped(way: str) -> None:
    pair = Pair()
    pair.walk.begin()
    fake = pair.fake()
    pair.backward(pair.critic(fake.detach() if way == "detached" else fake).sum())
    pair.step(pair.of_critic)
    if way == "used":
        pair.step(pair.of_made)
    if way == "read":
        assert all(float(p.grad.norm()) > 0 for p in pair.made.parameters())
    if way != "kept":
        pair.of_made.zero_grad()
    pair.backward(pair.critic(pair.fake()).sum())
    pair.step(pair.of_made)
    pair.walk.end()
    assert pair.of("dropped-parameters") == []


def test_a_critic_whose_gradients_are_added_up_by_the_generator_is_needed() -> None:
    pair = Pair()
    pair.walk.begin()
    for _ in range(2):
        pair.of_made.zero_grad()
        pair.backward(pair.critic(pair.fake()).sum())  # the critic's gradients are cleared later
        pair.step(pair.of_made)
    pair.of_critic.zero_grad()
    pair.backward(pair.critic(pair.fake().detach()).sum())
    assert all(not numbers(e["name"]) for e in pair.log.of("gradient-walk"))


@pytest.mark.parametrize("way", ["attack", "used", "read"])
def test_a_pass_for_the_gradient_of_an_input_needs_none_of_the_weights(way: str) -> None:
    layer, walk = linear(), GradientWalk(log := Log())  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    walk.know(optimizer)
    walk.begin()
    for _ in range(2):
        inputs = torch.ones(2, 3, requires_grad=True)
        result = layer(inputs)
        walk.walk(result.sum())
        result.sum().backward()
    if way == "used":
        walk.stepped(optimizer)
    if way == "read":
        assert float(layer.weight.grad.norm()) > 0
    optimizer.zero_grad()
    walk.walk(layer(inputs.detach()).sum())
    walk.end()
    walk.report()
    found = [numbers(event["reason"]) for event in log.of("gradient-walk")]
    assert sum(map(bool, found)) == (2 if way == "attack" else 0)
    assert (result.grad_fn._sequence_nr() in found[-1] | found[-2]) == (way == "attack")
    assert len(log.of("dropped-parameters")) == (way == "attack")


class ByHand:
    """A student with an optimizer, and a network that the program may update by hand."""

    def __init__(self) -> None:
        self.log = Log()
        self.walk = GradientWalk(self.log)  # type: ignore[arg-type]
        self.student, self.other = linear(), linear()
        self.optimizer = torch.optim.SGD(self.student.parameters(), 0.1)
        self.walk.know(self.optimizer)
        self.walk.begin()

    def step(self) -> Any:
        hidden = self.other(torch.ones(2, 3))
        loss = self.student(hidden).sum()
        if self.walk.is_due:
            self.walk.walk(loss)
        loss.backward()
        self.optimizer.step()
        self.walk.end()
        return hidden.grad_fn._sequence_nr()

    def update(self) -> None:
        with torch.no_grad():
            for p in self.other.parameters():
                p.sub_(0.1 * p.grad)


@pytest.mark.parametrize("every", [1, 4])
def test_gradients_that_the_program_reads_are_used(every: int) -> None:
    program = ByHand()
    nodes = [program.step()]
    program.walk.report()
    for step in range(1, 8):
        if step % every == 0:
            program.update()
        nodes.append(program.step())
    assert nodes[0] not in unused(program.log)
    assert not program.log.of("unowned-parameters")
    assert not program.walk.is_due
    assert "grad" not in vars(torch.nn.Parameter)


def test_gradients_that_are_not_read_in_many_steps_are_unused() -> None:
    program = ByHand()
    nodes = [program.step()]
    program.walk.report()
    assert not program.log.events
    while program.walk.is_due and len(nodes) < 100:
        nodes.append(program.step())
    assert len(nodes) == 17
    assert nodes[0] in unused(program.log)
    assert [e["reason"] for e in program.log.of("unowned-parameters")] == ["2"]
    assert "grad" not in vars(torch.nn.Parameter)


def test_what_is_not_read_until_the_training_ends_is_unused() -> None:
    program = ByHand()
    node = program.step()
    program.walk.report()
    program.walk.finish()
    assert node in unused(program.log)
    assert len(program.log.of("unowned-parameters")) == 1
    assert "grad" not in vars(torch.nn.Parameter)


def test_a_forked_process_logs_nothing_of_its_parent() -> None:
    program = ByHand()
    program.step()
    program.walk.forget()
    program.walk.finish()
    assert not program.log.events


@pytest.mark.parametrize("steps", [0, 1])
def test_where_reads_cannot_be_observed_nothing_is_said(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ByHand()
    for _ in range(steps):
        program.step()
    monkeypatch.setattr("stepwhy.record.torch.gradient_reads.is_compiled", lambda: True)
    program.step()
    program.step()
    program.walk.finish()
    (event,) = program.log.events
    assert event["count"] is None
    assert "torch.compile" in event["reason"]
    assert "grad" not in vars(torch.nn.Parameter)
