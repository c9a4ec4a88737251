"""Which functions count as one."""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING, Any

from stepwhy.record.steps.function_kinds import _NAMED, FunctionKinds, code_of, unwrap

if TYPE_CHECKING:
    from collections.abc import Callable


class Compiled:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._python_function = function


class Model:
    def train(self) -> None:
        pass

    def test(self) -> None:
        pass


def compiled_step(step: Callable[[], None]) -> Compiled:
    def one_step() -> None:
        step()

    inner = Compiled(one_step)

    def call() -> Any:
        return inner

    return Compiled(call)


def kinds() -> FunctionKinds:
    numbers: dict[object, int] = {}
    return FunctionKinds(lambda kind: numbers.setdefault(kind, len(numbers)))


def number(found: FunctionKinds, compiled: Compiled) -> int:
    return found.of(compiled, compiled._python_function)


def test_recreated_functions_of_the_same_code_are_one() -> None:
    found = kinds()
    assert {number(found, Compiled(lambda: None)) for _ in range(9)} == {0}


def test_functions_around_different_steps_differ() -> None:
    found, first, second = kinds(), Model(), Model()
    steps = [first.train, first.test, second.train]
    assert [number(found, compiled_step(step)) for step in steps] == [0, 1, 2]
    assert number(found, compiled_step(first.train)) == 0


def test_only_the_code_counts_after_many_kinds() -> None:
    found = kinds()
    models = [Model() for _ in range(3 * _NAMED)]
    assert len({number(found, compiled_step(model.train)) for model in models}) <= _NAMED + 1


def test_deleted_functions_leave_nothing() -> None:
    found = kinds()
    for _ in range(9):
        number(found, Compiled(lambda: None))
    gc.collect()
    assert found._known == {}


def test_optimizers_are_distinguished() -> None:
    found, first, second = kinds(), Model(), Model()
    assert [found.of_object(each) for each in (first, second, first)] == [0, 1, 0]


def test_wrappers_are_unwrapped() -> None:
    def step() -> None:
        pass

    @functools.wraps(step)
    def wrapper() -> None:
        pass

    class Step:
        def __call__(self) -> None:
            pass

    assert unwrap(functools.partial(wrapper)) is step
    assert unwrap(Step()) is Step.__call__
    assert code_of(print) == "builtin_function_or_method"
