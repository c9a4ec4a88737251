"""JAX loops under observation: small training scripts, unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stepwhy.read.registry import read_folder
from stepwhy.record import Launch, launch
from stepwhy.record.jax.compilations import rows_of_batch

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("jax")

pytestmark = pytest.mark.framework

_HEAD = """
import sys
import jax
import jax.numpy as jnp
import numpy as np

def loss_of(weights, batch):
    return jnp.mean((batch @ weights - 1) ** 2)

@jax.jit
def augment(batch):
    return batch + 0.5

def update(weights, batch):
    loss, gradient = jax.value_and_grad(loss_of)(weights, batch)
    return weights - 0.01 * gradient, loss

step = jax.jit(update, donate_argnums=0)
generator = np.random.default_rng(0)
weights = jnp.ones((8, 8))
"""
_LOOP = """
for number in range(30):
    batch = generator.random((12 if number == 20 else 16, 8), dtype=np.float32)
    weights, loss = step(weights, augment(batch))
    value = float(loss)
print(value, type(step).__name__, step._cache_size(), sorted(vars(step)))
print(step.lower(weights, batch).as_text(debug_info=True))
sys.exit(3)
"""
_ANNOTATED = """
for number in range(30):
    with jax.profiler.StepTraceAnnotation("mine", step_num=number):
        weights, loss = step(weights, generator.random((16, 8), dtype=np.float32))
    jax.jit(lambda loss: loss * 2)(loss)
print(float(loss))
"""
_RECOMPILED = """
from functools import partial

@partial(jax.jit, static_argnames="times")
def scaled(batch, times):
    return batch * times

batch = np.ones((16, 8), np.float32)
for number in range(12):
    weights, loss = step(weights, batch)
    scaled(batch, times=2 if number < 8 else 3)
for number in range(2):
    jax.jit(lambda loss: loss * 2)(loss)
step(weights, batch[:12])
"""
_PARALLEL = """
from jax.sharding import Mesh, PartitionSpec

def update_on_each(weights, batch):
    loss, gradient = jax.value_and_grad(loss_of)(weights, batch)
    return weights - 0.01 * jax.lax.pmean(gradient, "devices"), jax.lax.pmean(loss, "devices")

batch = np.ones((8, 8), np.float32)
if sys.argv[1] == "pmap":
    step = jax.pmap(update_on_each, axis_name="devices", in_axes=(None, 0), out_axes=None)
    batch = batch.reshape(2, 4, 8)
else:
    across, whole = PartitionSpec("devices"), PartitionSpec()
    mesh = Mesh(np.array(jax.devices()), ("devices",))
    step = jax.jit(jax.shard_map(update_on_each, mesh=mesh, in_specs=(whole, across),
                                 out_specs=(whole, whole)))
for number in range(30):
    weights, loss = step(weights, batch)
print(len(jax.devices()), f"{float(loss):.5f}")
"""
_PRINTED = """
weights, batch = jnp.ones((600, 600)) / 600, np.ones((600, 600), np.float32)
for number in range(80):
    weights, loss = step(weights, batch)
    if number % 20 == 0:
        print(float(loss))
"""
_COPYING = """
large, weights = np.ones((1 << 15, 8), np.float32), jnp.ones((8, 8))
for number in range(6):
    weights, loss = step(weights, jnp.asarray(large))
    weights, loss = step(weights, jax.device_put(large))
    weights, loss = step(weights, large + number)
"""
_LOGGING = """
import os
for number in range(6):
    weights, loss = step(weights, jnp.ones((16, 8)))
    with open("log.txt", "a") as log:
        log.write(str(float(loss)))
        log.flush()
        os.fsync(log.fileno())
"""
_NEVER_WAITING = """
weights, batch = jnp.ones((900, 900)) / 900, np.ones((900, 900), np.float32)
for number in range(40):
    weights, loss = step(weights, batch)
jax.block_until_ready((weights, loss))
"""
_AHEAD = """
ahead = step.lower(weights, jnp.ones((16, 8))).compile()
for number in range(40):
    weights, loss = ahead(weights, jnp.ones((16, 8)))
steps = jax.jit(lambda w: jax.lax.scan(lambda c, _: (c * 0.9, None), w, None, length=100)[0])
for number in range(8):
    weights = steps(weights)
"""
# After nine steps the window is certainly open, and not full.
_OWN_PROFILER = """
for number in range(9):
    weights, loss = step(weights, jnp.ones((16, 8)))
print(step._cache_size())
with jax.profiler.trace(sys.argv[-1]):
    weights, loss = step(weights, jnp.ones((16, 8)))
    loss.block_until_ready()
"""
_OWN_PROFILER_FIRST = """
jax.profiler.start_trace(sys.argv[-1])
for number in range(12):
    weights, loss = step(weights, jnp.ones((16, 8)))
loss.block_until_ready()
jax.profiler.stop_trace()
for number in range(12):
    weights, loss = step(weights, jnp.ones((16, 8)))
"""
_RECURRENT = """
def unrolled(weights, state, sequence):
    cell = lambda state, x: (jnp.tanh(x + state @ weights), state)
    state, outputs = jax.lax.scan(cell, state, sequence)
    return jnp.mean(outputs ** 2), state

@jax.jit
def train(weights, state, sequence):
    (_, state), gradient = jax.value_and_grad(unrolled, has_aux=True)(weights, state, sequence)
    return weights - 0.1 * gradient, state

state = jnp.zeros((4, 8))
for number in range(30):
    weights, state = train(weights, state, jnp.ones((32, 4, 8)))
"""
_CHECKED = """
jax.config.update("jax_debug_nans", True)
for number in range(30):
    weights, loss = step(weights, jnp.ones((16, 8)))
try:
    step(weights * np.nan, jnp.ones((16, 8)))
except FloatingPointError:
    print("found")
"""
_EAGER = """
jitted = jax.grad(jax.jit(lambda weights: loss_of(weights, jnp.ones((16, 8)))))
for number in range(30):
    weights, loss = update(weights, jnp.ones((16, 8)))
    weights -= jitted(weights)
print(jax.grad(loss_of).__name__, f"{float(loss):.3f}")
try:
    jax.grad(loss_of)(weights, jnp.ones((16, 9)))
except TypeError:
    print("found")
"""
_WITHOUT_GRADIENTS = """
for number in range(9):
    weights = weights * loss_of(weights, jnp.ones((16, 8)))
"""


def observe(tmp_path: Path, code: str, *args: str) -> Launch:
    (tmp_path / "train.py").write_text(_HEAD + code)
    return launch([sys.executable, str(tmp_path / "train.py"), *args], tmp_path / "run")


def lines_of(ended: Launch, name: str = "steps.jsonl") -> list[dict[str, Any]]:
    (log,) = ended.run_dir.glob(f"process-*/{name}")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if line["kind"] != "drained"]


def test_calls_of_jitted_functions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = observe(tmp_path, _LOOP)
    observed = capfd.readouterr().out
    subprocess.run([sys.executable, str(tmp_path / "train.py")], check=False, timeout=240)
    assert observed == capfd.readouterr().out
    assert (ended.exit_code, ended.messages) == (3, ())
    lines = lines_of(ended)
    # Functions that JAX jits for itself (a conversion, a fill) are not among them.
    assert [line["signature"] for line in lines] == [0, 1] * 30
    compiled = [i for i, line in enumerate(lines) if "compile_ns" in line]
    assert compiled == [0, 1, 40, 41]
    assert "backend_compile_duration" in lines[41]["compiled"]
    assert [line.get("update") for line in lines] == [None, 1] * 30
    assert all(line.get("compile_ns", 0) < line["end_ns"] - line["start_ns"] for line in lines[1:])

    (window,) = ended.run_dir.glob("process-*/windows/*")
    about = json.loads((window / "window.json").read_text())
    profiled = {line["signature"] for line in lines if line["profiled"]}
    assert (about["kind"], profiled) == ("xplane", {0, 1})
    assert (window / "trace.xplane.pb").read_bytes().count(b"step_num") == 1

    (recording,) = read_folder(ended.run_dir)
    # The last step has an end only if the program had to wait for its loss.
    assert len(recording.trace.marks) in {29, 30}
    ending = recording.trace.meta.ending.replace("30 timed steps", "30 steps")
    assert "ended with exit code 3 after 30 steps" in ending
    # A step starts with `update`: the shorter batch is augmented at the end of the previous step,
    # which a busy machine may see to end before that.
    assert {*(recording.trace.marks.compile_ns > 0).nonzero()[0].tolist()} - {19} == {0, 20}


def test_step_annotations_are_the_steps(tmp_path: Path) -> None:
    ended = observe(tmp_path, _ANNOTATED)
    lines = lines_of(ended)
    # The annotation is around the training's function; the other one follows it.
    assert [line["signature"] for line in lines] == [0, 1] * 30
    (window,) = ended.run_dir.glob("process-*/windows/*")
    trace = (window / "trace.xplane.pb").read_bytes()
    assert b"mine" in trace
    assert b"train" not in trace.replace(b"train.py", b"")


def test_a_window_covers_the_steps_between_two_waits(tmp_path: Path) -> None:
    ended = observe(tmp_path, _PRINTED)
    (window,) = ended.run_dir.glob("process-*/windows/*")
    about = json.loads((window / "window.json").read_text())
    assert about["ran_ahead"]
    # The device finishes early where the machine is busy, and the window with it.
    assert 4 <= about["last_step"] - about["first_step"] + 1 <= 60
    (recording,) = read_folder(ended.run_dir)
    assert "host-ahead" in recording.trace.meta.signals


def test_a_loop_that_never_waits_ends_with_the_wait_after_it(tmp_path: Path) -> None:
    ended = observe(tmp_path, _NEVER_WAITING)
    (log,) = ended.run_dir.glob("process-*/steps.jsonl")
    *calls, last = [json.loads(line) for line in log.read_text().splitlines()]
    assert (len(calls), last["kind"]) == (40, "drained")
    (recording,) = read_folder(ended.run_dir)
    marks = recording.trace.marks
    assert len(marks) == 40
    assert (marks.drained[-1], marks.start_ns[-1] + marks.dur_ns[-1]) == (1, last["start_ns"])
    # Most of the work was done after the last call.
    assert (marks.drained[5:-1] == 0).mean() > 0.5


def test_own_profiler_of_the_training_has_precedence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = observe(tmp_path, _OWN_PROFILER, str(tmp_path / "own"))
    assert (ended.exit_code, capfd.readouterr().out) == (0, "1\n")
    (trace,) = (tmp_path / "own").glob("**/*.xplane.pb")
    assert b"PjitFunction(update)" in trace.read_bytes()
    (message,) = ended.messages
    assert "own profiler (jax.profiler) was on" in message
    assert len(lines_of(ended)) == 10


def test_a_window_waits_until_the_trainings_own_profiler_has_ended(tmp_path: Path) -> None:
    ended = observe(tmp_path, _OWN_PROFILER_FIRST, str(tmp_path / "own"))
    assert (ended.exit_code, ended.messages) == (0, ())
    (trace,) = (tmp_path / "own").glob("**/*.xplane.pb")
    assert b"PjitFunction(update)" in trace.read_bytes()
    lines = lines_of(ended)
    assert len(lines) == 24
    assert not any(line["profiled"] for line in lines[:12])
    (window,) = ended.run_dir.glob("process-*/windows/*")
    assert b"PjitFunction(update)" in (window / "trace.xplane.pb").read_bytes()


@pytest.mark.parametrize("way", ["pmap", "shard_map"])
def test_steps_on_two_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], way: str
) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    ended = observe(tmp_path, _PARALLEL, way)
    assert (ended.exit_code, ended.messages) == (0, ())
    assert capfd.readouterr().out.startswith("2 ")
    assert [line["signature"] for line in lines_of(ended)] == [0] * 30
    assert len(list(ended.run_dir.glob("process-*/windows/*"))) == 1


def test_compilations_are_logged_with_their_reason(tmp_path: Path) -> None:
    events = lines_of(observe(tmp_path, _RECOMPILED), "events.jsonl")
    own = {"jit(update)", "jit(scaled)", "jit(<lambda>)"}
    assert [
        (e["name"], e["source"], e["count"], e.get("reason", ""))
        for e in events
        if e["name"] in own
    ] == [
        ("jit(update)", "train.py(30): <module>", 1, ""),
        ("jit(scaled)", "train.py(31): <module>", 1, ""),
        ("jit(scaled)", "train.py(31): <module>", 2, "times: 2 -> 3"),
        ("jit(<lambda>)", "train.py(33): <module>", 1, ""),
        ("jit(<lambda>)", "train.py(33): <module>", 2, "a new jitted function of the same code"),
        ("jit(update)", "train.py(34): <module>", 2, "batch: shape (16, 8) -> (12, 8)"),
    ]
    assert ("parameters", "float32") in {(e["kind"], e["name"]) for e in events}
    # Functions of JAX itself are not reported as new objects.
    assert not any("new" in e.get("reason", "") for e in events if e["name"] not in own)


def test_ahead_of_time_compilation_and_inner_loops_are_reported(tmp_path: Path) -> None:
    ended = observe(tmp_path, _AHEAD)
    events = lines_of(ended, "events.jsonl")
    (ahead,) = (e for e in events if e["name"] == "jit(update)")
    assert "count" not in ahead
    assert ahead["source"] == "train.py(22): <module>"
    (message,) = ended.messages
    assert "runs a loop of 100 inside" in message
    assert [line["signature"] for line in lines_of(ended)] == [0] * 40 + [1] * 8
    assert len(list(ended.run_dir.glob("process-*/windows/*"))) == 1


def test_recurrent_model_is_not_a_loop_of_steps(tmp_path: Path) -> None:
    ended = observe(tmp_path, _RECURRENT)
    assert ended.messages == ()
    assert [line["signature"] for line in lines_of(ended)] == [0] * 30
    assert len(list(ended.run_dir.glob("process-*/windows/*"))) == 1


def test_loop_with_nan_checks_is_observed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = observe(tmp_path, _CHECKED)
    assert ended.exit_code == 0
    assert capfd.readouterr().out.endswith("found\n")  # JAX says so, too
    assert len(lines_of(ended)) >= 30


def test_gradients_without_jit_are_calls(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ended = observe(tmp_path, _EAGER)
    observed = capfd.readouterr().out
    subprocess.run([sys.executable, str(tmp_path / "train.py")], check=False, timeout=240)
    assert observed == capfd.readouterr().out
    assert (ended.exit_code, ended.messages) == (0, ())
    lines = lines_of(ended)
    # The jitted function inside the second one is no call of its own.
    assert [line["signature"] for line in lines if not line.get("failed")] == [0, 1] * 30
    assert len(list(ended.run_dir.glob("process-*/windows/*"))) == 1


def test_loop_without_jit_and_gradients_is_reported_as_not_observed(tmp_path: Path) -> None:
    (message,) = observe(tmp_path, _WITHOUT_GRADIENTS).messages
    assert message.startswith("no training loop was seen")


WEIGHTS = SimpleNamespace(ndim=2, size=8000, shape=(80, 100))


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ([WEIGHTS, np.ones((2, 80)), np.ones(2)], 2),
        ([WEIGHTS, np.ones((2, 80)), np.float32(0.1), 0.1], 2),  # scalars have no examples
        ([WEIGHTS, np.ones((2, 80)), np.ones(3)], 0),
        ([WEIGHTS, SimpleNamespace(ndim=1, size=4, shape=(4,))], 0),  # on the device already
        ([SimpleNamespace(ndim=1, size=2, shape=(2,)), np.ones((1, 80))], 0),  # initialisation
        ([], 0),
    ],
)
def test_examples_among_the_arguments_of_a_call(arguments: list[Any], rows: int) -> None:
    assert rows_of_batch(arguments) == rows


def test_copies_of_large_numpy_arrays_are_logged_with_their_lines(tmp_path: Path) -> None:
    events = lines_of(observe(tmp_path, _COPYING), "events.jsonl")
    copies = [(e["source"], e.get("reason", "")) for e in events if e["kind"] == "copy"]
    lines = {line for line, _ in copies}
    assert lines == {f"train.py({n}): <module>" for n in (24, 25, 26)}
    assert copies.count(("train.py(25): <module>", "unchanged")) >= 4
    assert copies.count(("train.py(26): <module>", "")) >= 5


def test_waits_for_the_disk_are_logged_with_their_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    events = lines_of(observe(tmp_path, _LOGGING), "events.jsonl")
    waits = {(e["name"], e["source"]) for e in events if e["kind"] == "fsync"}
    assert waits <= {("os.fsync", "train.py(28): <module>")}
    # A fast disk may be done before a wait is worth a line.
    assert waits or tmp_path.joinpath("log.txt").stat().st_size


_LONG = """
batch = jnp.ones((16, 8))
for number in range(3000):
    weights, loss = step(weights, batch)
"""


def test_a_long_run_is_not_asked_for_ever_if_its_device_is_behind(tmp_path: Path) -> None:
    calls = [line for line in lines_of(observe(tmp_path, _LONG)) if line["kind"] == "call"]
    asked = ["ahead" in line for line in calls]
    assert any(asked[:500])
    # Only traced steps are asked then.
    assert sum(asked[2100:]) < len(asked[2100:]) / 2
