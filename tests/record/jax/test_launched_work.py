"""Whether the device has finished what a JAX program launched."""

from __future__ import annotations

import gc

import pytest

from stepwhy.record.jax.loop import LaunchedWork

pytest.importorskip("jax")
pytestmark = pytest.mark.framework


class Array:
    """An output of a call."""

    def __init__(self, *, ready: bool = False, deleted: bool = False) -> None:
        self.ready, self.deleted = ready, deleted

    def is_ready(self) -> bool:
        assert not self.deleted
        return self.ready

    def is_deleted(self) -> bool:
        return self.deleted


def test_nothing_is_unfinished_before_the_first_call() -> None:
    assert not LaunchedWork().unfinished()


def test_work_is_unfinished_until_its_arrays_are_ready() -> None:
    work, state, loss = LaunchedWork(), Array(), Array()
    work.note(({"weights": state, "step": 3}, loss))
    assert work.unfinished()
    state.ready = loss.ready = True
    assert not work.unfinished()


def test_donated_and_dropped_arrays_are_not_asked() -> None:
    work, donated, dropped = LaunchedWork(), Array(deleted=True), Array()
    work.note([donated, dropped])
    assert work.unfinished()
    del dropped
    gc.collect()
    assert not work.unfinished()


def test_of_arrays_that_are_gone_nothing_is_known() -> None:
    work, state = LaunchedWork(), Array(ready=True)
    assert work.ahead() is None
    work.note(state)
    assert work.ahead() is False
    work.note({"donated": Array(deleted=True)})
    assert work.ahead() is None
    work.note(([state, None], 3.0))
    assert work.ahead() is False
    state.ready = False
    assert work.ahead() is True


def test_arrays_in_a_container_of_another_library_are_found() -> None:
    from jax.tree_util import register_pytree_node_class

    @register_pytree_node_class
    class State:
        def __init__(self, array: Array) -> None:
            self.array = array

        def tree_flatten(self) -> tuple[tuple[Array], None]:
            return (self.array,), None

        @classmethod
        def tree_unflatten(cls, _: None, children: tuple[Array]) -> State:
            return cls(*children)

    work, array = LaunchedWork(), Array()
    work.note(State(array))
    assert work.ahead() is True
