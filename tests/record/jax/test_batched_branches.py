"""Conditions that `vmap` turns into selections, with the lines of their branches."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.user_code import user_file
from stepwhy.record.jax import batched_branches
from stepwhy.record.jax.batched_branches import observe_branches

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.framework


def first(x: Any) -> Any:
    return jax.numpy.tanh(x) * 2


def inner(x: Any) -> Any:
    return x + x


def second(x: Any) -> Any:
    return inner(jax.numpy.sin(x))


def chosen(is_first: Any, x: Any) -> Any:
    return jax.lax.cond(is_first, first, second, x)


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    from jax._src.lax.control_flow import conditionals

    made = Recorder(str(tmp_path), "jax", "1.0", "jax-jit")
    monkeypatch.setattr(batched_branches, "loop_of", lambda _: SimpleNamespace(recorder=made))
    rules = conditionals.batching.fancy_primitive_batchers
    original = rules[conditionals.cond_p]
    observe_branches(conditionals, str(tmp_path))
    yield made
    rules[conditionals.cond_p] = original


def noted(recorder: Recorder, tmp_path: Path) -> list[dict[str, Any]]:
    recorder.step('{"kind":"call"}')
    recorder.close()
    log = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def traced(function: Any, *shapes: Any) -> None:
    """Trace a function for arrays of some shapes and types; nothing is computed."""
    jax.eval_shape(function, *(jax.ShapeDtypeStruct(*shape) for shape in shapes))


FLAGS, ROWS = ((4,), bool), ((4, 8), "float32")


def test_the_line_and_those_of_its_branches_are_noted(recorder: Recorder, tmp_path: Path) -> None:
    traced(jax.vmap(chosen), FLAGS, ROWS)
    (event,) = noted(recorder, tmp_path)
    assert (event["kind"], event["count"]) == ("batched-branches", 2)
    # Names are relative to the script that this process ran first, whatever that is in tests.
    name, line = user_file(__file__), chosen.__code__.co_firstlineno + 1
    assert name.endswith("test_batched_branches.py")
    assert event["source"] == f"{name}({line}): chosen"
    each = [function.__code__.co_firstlineno + 1 for function in (second, inner, first)]
    lines = [f"{name}({number})" for number in each]
    assert event["reason"] == f"{lines[0]} + {lines[1]}; {lines[2]} + "


def test_a_condition_in_a_jitted_function_keeps_its_line(
    recorder: Recorder, tmp_path: Path
) -> None:
    traced(jax.vmap(jax.jit(chosen)), FLAGS, ROWS)
    (event,) = noted(recorder, tmp_path)
    assert event["source"].endswith(": chosen")


def test_gradients_of_the_same_branches_are_noted_once(recorder: Recorder, tmp_path: Path) -> None:
    gradient = jax.grad(lambda x, flags: jax.vmap(chosen)(flags, x).sum())
    traced(gradient, ROWS, FLAGS)
    assert len(noted(recorder, tmp_path)) == 1


def test_a_condition_that_all_examples_share_is_not_noted(
    recorder: Recorder, tmp_path: Path
) -> None:
    traced(jax.vmap(chosen, (None, 0)), ((), bool), ROWS)
    traced(chosen, ((), bool), ROWS)
    assert noted(recorder, tmp_path) == []


def test_selections_are_not_noted(recorder: Recorder, tmp_path: Path) -> None:
    traced(jax.vmap(lambda flag, x: jax.numpy.where(flag, first(x), second(x))), FLAGS, ROWS)
    assert noted(recorder, tmp_path) == []


def test_a_function_is_traced_as_without_it(request: pytest.FixtureRequest) -> None:
    # Nothing is computed: a process in which JAX has started must not fork, as later tests do.
    arrays = [jax.ShapeDtypeStruct(*shape) for shape in (FLAGS, ROWS)]
    alone = str(jax.make_jaxpr(jax.vmap(chosen))(*arrays))
    recorder = request.getfixturevalue("recorder")
    jax.clear_caches()
    assert str(jax.make_jaxpr(jax.vmap(chosen))(*arrays)) == alone
    assert "select_n" in alone
    assert recorder.alive
