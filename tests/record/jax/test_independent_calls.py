"""Calls of jitted functions that follow each other and do not need each other."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.jax.independent_calls import IndependentCalls
from stepwhy.record.steps.loop import Loop
from stepwhy.record.steps.step_window import NoWindow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.framework


class _Window(NoWindow):
    running = True


class Array:
    """Stands for an array of JAX, of which the first one would start threads."""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndependentCalls:
    monkeypatch.setattr(jax, "Array", Array)
    return IndependentCalls(Loop(Recorder(str(tmp_path), "jax", "1.0", "jax-jit"), _Window()))


def loss(params: Any, row: Any) -> Any:
    return params, row


def lengths(calls: IndependentCalls, tmp_path: Path) -> dict[str, int]:
    """The functions that are logged after the profiler has stopped, and calls in a row."""
    calls._loop.window.running = False  # type: ignore[misc]
    calls.called(0, loss, (), {}, None)
    calls._loop.recorder.step('{"kind":"call"}')
    calls._loop.recorder.close()
    log = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    events = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return {
        event["name"]: event["count"] for event in events if event["kind"] == "independent-calls"
    }


def train(calls: IndependentCalls, rows: Callable[[], list[Any]]) -> list[Array]:
    """Three steps: the gradient of each row, their sum, and the update. Returns the results."""
    made = []
    params = Array()
    for _ in range(3):
        total = Array()
        for row in rows():
            made.append(gradient := Array())
            calls.called(0, loss, (params, row), {}, gradient)
            made.append(added := Array())
            calls.called(-1, sum, (total, gradient), {}, added)
            total = added
        made.append(new := Array())
        calls.called(1, train, (params, total), {}, new)
        params = new
    return made


def test_rows_of_one_array(calls: IndependentCalls, tmp_path: Path) -> None:
    batch = np.ones((6, 2))
    kept = train(calls, lambda: list(batch))
    assert (lengths(calls, tmp_path), len(kept)) == ({"loss": 6}, 39)


def test_rows_of_an_array_of_jax(calls: IndependentCalls, tmp_path: Path) -> None:
    batch, kept = Array(), []

    def rows() -> list[Array]:
        found = [Array() for _ in range(6)]
        for row in found:
            calls.called(-1, getattr, (batch, np.int32(1)), {}, row)
        kept.extend(found)
        return found

    made = train(calls, rows)
    # The first row is of an array that was not seen before.
    assert (lengths(calls, tmp_path), len(made), len(kept)) == ({"loss": 6}, 39, 18)


@pytest.mark.parametrize("changed", [False, True])
def test_an_observation_that_python_passes_as_an_array_of_jax(
    calls: IndependentCalls, tmp_path: Path, *, changed: bool
) -> None:
    """`jnp.asarray(observation)`, and what a function of JAX makes of it."""
    kept: list[Array] = []

    def rows() -> list[Array]:
        found = [Array() for _ in range(6)]
        for row in found if changed else ():
            kept.append(Array())
            calls.called(-1, abs, (kept[-1],), {}, row)
        return found

    made = train(calls, rows)
    assert (lengths(calls, tmp_path), len(made)) == ({}, 39)


def test_keys_of_random_numbers_come_from_no_result(
    calls: IndependentCalls, tmp_path: Path
) -> None:
    def key() -> Array:
        made = Array()
        made.dtype, made.shape = np.dtype("uint32"), (2,)  # type: ignore[attr-defined]
        return made

    train(calls, lambda: [key() for _ in range(5)])
    assert lengths(calls, tmp_path) == {"loss": 5}


def test_two_functions_of_the_same_observation(calls: IndependentCalls, tmp_path: Path) -> None:
    params, kept = Array(), []
    for _ in range(8):
        seen = np.ones(2)
        for number in (0, 2):
            kept.append((seen, Array()))
            calls.called(number, loss, (params, seen), {}, kept[-1][1])
    assert lengths(calls, tmp_path) == {}


def test_what_python_made_may_depend_on_the_call_before(
    calls: IndependentCalls, tmp_path: Path
) -> None:
    """The next observation of an agent."""
    kept = train(calls, lambda: [np.ones(2) for _ in range(6)])
    assert (lengths(calls, tmp_path), len(kept)) == ({}, 39)


@pytest.mark.parametrize("through", [-1, 2])
def test_a_result_that_reaches_the_next_call(
    calls: IndependentCalls, tmp_path: Path, through: int
) -> None:
    kept, state = [], Array()
    for _ in range(8):
        result, changed = Array(), Array()
        calls.called(0, loss, (state, 1.0), {}, result)
        calls.called(through, abs, ({"of": result},), {}, (changed,))
        kept += [state, result]
        state = changed
    assert lengths(calls, tmp_path).get("loss") is None


def test_few_calls_in_a_row_are_not_logged(calls: IndependentCalls, tmp_path: Path) -> None:
    batch = np.ones((3, 2))
    kept = train(calls, lambda: list(batch))
    assert (lengths(calls, tmp_path), len(kept)) == ({}, 21)
