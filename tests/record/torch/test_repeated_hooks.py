"""Hooks that are registered again and again, on modules, parameters and optimizers."""

from __future__ import annotations

import functools
import logging

import pytest

from stepwhy.record.torch import repeated_hooks
from stepwhy.record.torch.repeated_hooks import RepeatedHooks

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.framework


class Events:
    """Stands for the recorder."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []
        self.lines: list[str] = []

    def event(self, _: str, *, name: str, source: str, count: int, reason: str, **__: int) -> None:
        self.seen.append((name, source.partition(": ")[2], count))
        self.lines.append(reason.partition(": ")[2])


@pytest.fixture
def program():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    return model, torch.optim.SGD(model.parameters(), 0.1)


def watch(*_: object) -> None:
    """Observe nothing."""


def clip(_: object, gradient: object) -> object:
    return gradient


def counted(program, times=1):
    """What is logged of steps of a program."""
    model, optimizer = program
    events = Events()
    hooks = RepeatedHooks(events)
    for _ in range(times):
        hooks.begin(optimizer)
        model(torch.ones(2, 3))
        hooks.end()
    return events.seen, hooks


@pytest.fixture(autouse=True)
def registering(monkeypatch):
    """Restore what makes handles, which is watched once hooks are found."""
    handle = torch.utils.hooks.RemovableHandle
    monkeypatch.setattr(handle, "__init__", handle.__init__)


def register(module):
    module.register_forward_hook(watch)


def test_the_line_that_registers_is_noted_once_hooks_are_found(program):
    model, optimizer = program
    events = Events()
    hooks = RepeatedHooks(events)
    hooks.begin(optimizer)
    model(torch.ones(2, 3))
    for _ in range(2):
        register(model[0])
    hooks.end()
    register(model[0])
    hooks.log()
    assert events.seen == [("forward hook", "watch", 2), ("forward hook", "watch", 3)]
    assert events.lines == ["", "register"]


def test_only_some_registrations_are_noted(program, monkeypatch):
    original = torch.utils.hooks.RemovableHandle.__init__
    monkeypatch.setattr(repeated_hooks, "_MOST_NOTED", 3)
    for _ in range(2):
        register(program[0][0])
    counted(program)
    for _ in range(2):
        assert torch.utils.hooks.RemovableHandle.__init__ is not original
        register(program[0][0])
    assert torch.utils.hooks.RemovableHandle.__init__ is original


def test_the_most_hooks_on_one_object_are_logged_by_their_code(program):
    for _ in range(5):
        program[0][0].register_forward_hook(lambda *_: None)
    for layer in program[0]:
        layer.register_full_backward_hook(watch)
    assert counted(program)[0] == [("forward hook", "<lambda>", 5)]


def test_hooks_of_parameters_and_optimizers_count(program):
    model, optimizer = program
    for _ in range(3):
        model[0].weight.register_hook(functools.partial(clip, None))
        optimizer.register_step_post_hook(watch)
        optimizer.register_step_post_hook(watch)
    assert counted(program)[0] == [("optimizer hook", "watch", 6), ("backward hook", "clip", 3)]


def test_hooks_that_differ_and_those_of_libraries_are_not_logged(program):
    model = program[0]
    model[0].register_forward_hook(watch)
    model[0].register_forward_hook(lambda *_: None)
    for _ in range(3):
        model[0].register_forward_hook(logging.debug)
    assert counted(program)[0] == []


def test_a_larger_number_is_logged_again_and_an_equal_one_is_not(program):
    handles = [program[0][0].register_forward_hook(watch) for _ in range(2)]
    seen, hooks = counted(program, times=2)
    handles.append(program[0][0].register_forward_hook(watch))
    hooks.log()
    assert [count for *_, count in seen] == [2, 3]


def test_no_hook_of_the_observer_remains(program):
    counted(program)
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_parameters_can_be_swapped(program):
    _, hooks = counted(program)
    hooks.step_time_changed()
    weight = program[0][0].weight
    torch.utils.swap_tensors(weight, torch.nn.Parameter(weight.detach().double()))
    assert weight.dtype == torch.float64


def test_without_a_step_that_notes_them_all_modules_count_once_the_step_time_changes(program):
    for _ in range(3):
        program[0][0].register_forward_hook(watch)
    seen, hooks = counted(program, times=0)
    hooks.log()
    assert seen == []
    hooks.step_time_changed()
    assert seen == [("forward hook", "watch", 3)]


def test_the_number_that_was_counted_first_comes_before_one_that_has_grown(program):
    program[0][0].register_forward_hook(watch)
    seen, hooks = counted(program)
    assert seen == []
    for _ in range(4):
        program[0][0].register_forward_hook(watch)
    hooks.log()
    assert seen == [("forward hook", "watch", 1), ("forward hook", "watch", 5)]
