"""TensorFlow 2 loops under observation: small training scripts, unchanged."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from stepwhy.read.registry import read_folder
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

    from stepwhy.record import Launch

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]

_HEAD = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
import keras
keras.utils.set_random_seed(0)
data = tf.random.stateless_uniform([200, 8], [1, 2])
weights = tf.Variable(tf.ones([8, 8]))
optimizer = keras.optimizers.SGD(0.01)

def step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((batch @ weights - 1) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
    return loss
"""
_COMPILED = """
compiled = tf.function(step)
for batch in tf.data.Dataset.from_tensor_slices(data).batch(8):
    loss = compiled(batch)
for size in (3, 4):
    loss = compiled(data[:size])
print(f"{loss.numpy():.8f}", compiled.experimental_get_tracing_count())
sys.exit(3)
"""
_RETRACED = """
compiled = tf.function(lambda batch, scale: step(batch) * scale)
pipeline = tf.data.Dataset.range(100).map(lambda x: tf.ones([4, 8]) * tf.cast(x, tf.float32))
for number, batch in enumerate(pipeline.prefetch(2)):
    compiled(batch, 2 if number > 20 else 1)
    if number < 2:
        tf.function(lambda x: x + 1)(batch)
compiled(batch[:3], 2)
"""
_EAGER = """
for start in range(0, 160, 8):
    loss = step(data[start:start + 8])
    if "profile" in sys.argv and start == 80:
        tf.profiler.experimental.start(sys.argv[-1])
        step(data[start:start + 8])
        tf.profiler.experimental.stop()
print(f"{loss.numpy():.8f}")
"""

_KILLED_IN_WINDOW = """
import glob, signal
compiled = tf.function(step)
windows = os.environ["STEPWHY_RUN_DIR"] + "/process-*/windows/.*"
for number in range(500):
    compiled(data[:8])
    if glob.glob(windows) or glob.glob(os.environ["TMPDIR"] + "/stepwhy*"):
        os.kill(os.getpid(), signal.SIGKILL)
"""


class Observe(Protocol):
    def __call__(self, code: str, *args: str) -> Launch: ...


@pytest.fixture
def observe(tmp_path: Path, forks: Callable[[str], Forks]) -> Observe:
    """Returns what runs a program under observation."""

    def run(code: str, *args: str) -> Launch:
        (tmp_path / "train.py").write_text(_HEAD + code)
        return forks("keras").launch(["-Wignore", tmp_path / "train.py", *args], tmp_path / "run")

    return run


def lines_of(ended: Launch, name: str = "steps.jsonl") -> list[dict[str, Any]]:
    (log,) = ended.run_dir.glob(f"process-*/{name}")
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_calls_of_a_function(
    observe: Observe,
    tmp_path: Path,
    forks: Callable[[str], Forks],
    capfd: pytest.CaptureFixture[str],
) -> None:
    ended = observe(_COMPILED)
    alone = forks("keras").run([tmp_path / "train.py"], tmp_path)
    assert capfd.readouterr().out == alone.stdout
    assert (ended.exit_code, ended.messages) == (3, ())
    lines = lines_of(ended)
    assert {line["signature"] for line in lines} == {0}
    assert len(lines) == 27
    # Creation of variables, update and input fetch are all inside the step of that call.
    compiled = [i for i, line in enumerate(lines) if "compile_ns" in line]
    assert compiled[0] == 0
    assert compiled[1:] == [25, 26][: len(compiled) - 1]
    assert "trace step" in lines[0]["compiled"]
    assert all(line["input_wait_ns"] > 0 for line in lines[:25])

    (window,) = ended.run_dir.glob("process-*/windows/*")
    about = json.loads((window / "window.json").read_text())
    first, last = about["first_step"], about["last_step"]
    assert (about["kind"], last - first) == ("xplane", 3)
    # The step before those of the window, and the one after them, are the profiler's, too. Later,
    # the running line is noted in three steps, and written in the next.
    traced = [*range(first - 1, last + 2), *range(last + 6, last + 10)]
    assert [i for i, s in enumerate(lines) if s["profiled"]] == traced
    assert b"IteratorGetNext" in (window / "trace.xplane.pb").read_bytes()

    (recording,) = read_folder(ended.run_dir)
    assert len(recording.trace.marks) == 26
    assert recording.trace.marks.compile_ns[0] > 0
    assert (recording.trace.marks.input_wait_ns[:24] != NULL).all()


def test_traces_are_logged_with_their_reason(observe: Observe) -> None:
    ended = observe(_RETRACED)
    events = [e for e in lines_of(ended, "events.jsonl") if "lambda" in e["name"]]
    assert {(e["name"], e["source"], e["count"], e.get("reason", "")) for e in events} == {
        ("Dataset_map_lambda", "train.py(18): <module>", 1, ""),
        ("<lambda>", "train.py(20): <module>", 1, ""),
        ("<lambda>", "train.py(20): <module>", 2, "scale: 1 -> 2"),
        ("<lambda>", "train.py(22): <module>", 1, ""),
        ("<lambda>", "train.py(22): <module>", 2, "a new tf.function object of the same code"),
        ("<lambda>", "train.py(23): <module>", 3, "batch: shape (4, 8) -> (3, 8)"),
    }
    levels = lines_of(ended, "levels.jsonl")
    assert {level["name"].partition("[")[0] for level in levels} >= {"Prefetch"}
    (pipeline,) = lines_of(ended, "pipeline.json")
    assert pipeline["stages"][0]["name"] == "Root"


def test_eager_updates_beside_own_profiler(
    observe: Observe,
    tmp_path: Path,
    forks: Callable[[str], Forks],
    capfd: pytest.CaptureFixture[str],
) -> None:
    ended = observe(_EAGER, "profile", str(tmp_path / "own"))
    words = [tmp_path / "train.py", "profile", tmp_path / "alone"]
    alone = forks("keras").run(words, tmp_path)
    assert capfd.readouterr().out == alone.stdout
    assert ended.exit_code == 0
    assert len(lines_of(ended)) == 21
    assert len(list((tmp_path / "own").glob("**/*.xplane.pb"))) == 1


def test_a_kill_while_the_profiler_runs_leaves_nothing_of_it(
    observe: Observe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    ended = observe(_KILLED_IN_WINDOW)
    assert ended.exit_code == 137
    assert list((tmp_path / "temporary").glob("stepwhy*")) == []
    (windows,) = ended.run_dir.glob("process-*/windows")
    assert list(windows.iterdir()) == []
