"""Arguments of jitted functions that are the same arrays in each traced step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.jax.same_arguments import SameArguments
from stepwhy.record.steps.loop import Loop
from stepwhy.record.steps.step_window import NoWindow

if TYPE_CHECKING:
    from pathlib import Path

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.framework


class _Window(NoWindow):
    running = True


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SameArguments:
    # The first array of JAX starts threads, with which no other test of this process could fork.
    monkeypatch.setattr(jax, "Array", np.ndarray)
    return SameArguments(Loop(Recorder(str(tmp_path), "jax", "1.0", "jax-jit"), _Window()))


def logged(arguments: SameArguments, tmp_path: Path) -> list[dict[str, Any]]:
    """What is logged at the first call after the profiler has stopped."""
    arguments._loop.window.running = False  # type: ignore[misc]
    arguments.called(0, step, (), {}, 9)
    arguments._loop.recorder.step('{"kind":"call"}')
    arguments._loop.recorder.close()
    log = tmp_path / f"process-{os.getpid()}" / "events.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@jax.jit
def step(params: Any, adj: Any, batch: Any = None) -> Any:
    return params["w"] @ adj if batch is None else batch


def test_an_argument_is_the_same_if_each_call_gets_the_same_array(
    arguments: SameArguments, tmp_path: Path
) -> None:
    adj, kept = np.ones((4, 4)), np.ones(2)
    for number in range(5):
        params = {"w": np.ones((4, 4)) * number, "kept": kept}
        arguments.called(0, step, (params, adj), {"batch": np.ones((4, 4))}, number)
    event = logged(arguments, tmp_path)[0]
    assert (event["kind"], event["name"], event["count"]) == ("same-arguments", "step", 4)
    assert event["reason"] == "adj\nparams['kept']"


_COMPILED = """
import jax

@jax.jit
def step(params, adj):
    return params["w"] @ adj

matrix = jax.numpy.ones((4, 4))
print(step.lower({"w": matrix}, matrix).compile().as_text().replace("\\\\", ""))
"""


def test_the_names_are_those_of_the_compiled_program() -> None:
    text = subprocess.check_output([sys.executable, "-c", _COMPILED], text=True)
    assert 'op_name="adj"' in text
    assert "op_name=\"params['w']\"" in text


def test_arrays_are_not_kept_alive(arguments: SameArguments, tmp_path: Path) -> None:
    for number in range(3):  # the memory, and with it the id, may be used again
        arguments.called(0, step, ({"w": np.ones((4, 4))}, np.ones((4, 4))), {}, number)
    assert "reason" not in logged(arguments, tmp_path)[0]


_LOOP = """
import jax
import jax.numpy as jnp
import numpy as np

rng = np.random.default_rng(0)
graph = jnp.asarray(np.eye(512, dtype=np.float32)), jnp.ones((512, 512)), jnp.eye(8)
inputs = rng.normal(size=(256, 64)).astype(np.float32)
marks = rng.normal(size=(256, 8)).astype(np.float32)

@jax.jit
def train_step(params, key, images, pair, noise, rate, graph):
    left, right = pair
    hidden = jnp.fft.rfft(images).real @ params + left @ right.T + noise
    return params - rate * hidden.mean(), hidden.sum()

params, key = jnp.ones((33, 32)), jax.random.key(0)
for step in range(300):
    rows = rng.permutation(256)[:32]
    key, of_noise = jax.random.split(key)
    noise = jax.random.normal(of_noise, (32, 32))
    pair = (jax.device_put(marks[rows]), inputs[rows][:, :8])
    images = jnp.asarray(inputs[rows]) / 2
    params, loss = train_step(params, key, images, pair, noise, np.float32(0.1), graph)
    float(loss)
"""


def test_what_is_made_of_numpy_in_each_call_and_matrices_of_zeros_are_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_LOOP)
    command = [sys.executable, "-m", "stepwhy", "run", "--out", "run", "train.py"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (log,) = tmp_path.glob("run/process-*/events.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    batch = {e.get("reason") for e in events if e["kind"] == "batch-arguments"}
    assert batch == {"images\npair[0]\npair[1]"}
    zeros = {(e["reason"], e["count"]) for e in events if e["kind"] == "zero-argument"}
    assert zeros == {("graph[0]", 1_000_000 - 1_000_000 // 512)}


def test_nothing_is_due_before_the_profiler_runs(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path), "jax", "1.0", "jax-jit")
    assert not SameArguments(Loop(recorder, NoWindow())).is_due
