"""Keras' `fit` under observation: a small training script, unchanged."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.keras import fit
from stepwhy.record.steps.loop import Loop
from stepwhy.record.steps.step_window import NoWindow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

    from stepwhy.record import Launch

needs_keras = pytest.mark.skipif(
    importlib.util.find_spec("keras") is None, reason="keras is not installed"
)

_FIT = """
import os, sys, tempfile
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import keras
keras.utils.set_random_seed(0)
inputs = np.random.rand(160, 8).astype("float32")
labels = inputs.sum(1)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", steps_per_execution=int(sys.argv[1]))

class Callback(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(batch)

seen = []
callbacks = [Callback()]
history = model.fit(inputs, labels, batch_size=16, epochs=3, verbose=2, callbacks=callbacks,
                    validation_data=(inputs[:32], labels[:32]))
print(seen, len(callbacks), model.history is history, sorted(history.history))
print(model.evaluate(inputs, labels, verbose=0), model.predict(inputs, verbose=0).shape)
with tempfile.TemporaryDirectory() as folder:
    model.save(folder + "/model.keras")
    loaded = keras.models.load_model(folder + "/model.keras")
print(loaded.evaluate(inputs, labels, verbose=0), int(loaded.optimizer.iterations))
"""


class Observe(Protocol):
    def __call__(self, *args: str, code: str = _FIT) -> Launch: ...


@pytest.fixture
def observe(tmp_path: Path, forks: Callable[[str], Forks]) -> Observe:
    """Returns what runs a program under observation."""

    def run(*args: str, code: str = _FIT) -> Launch:
        (tmp_path / "train.py").write_text(code)
        return forks("keras").launch(["-Wignore", tmp_path / "train.py", *args], tmp_path / "run")

    return run


def lines_of(ended: Launch) -> list[dict[str, Any]]:
    (log,) = ended.run_dir.glob("process-*/steps.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def batches_of(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Source and examples of the batches that were logged."""
    return [(event["name"], event["count"]) for event in events if event["kind"] == "batch"]


def without_times(text: str) -> str:
    return re.sub(r"\d+m?s(/step)?", "", text)


@pytest.mark.framework
@needs_keras
def test_fit(
    observe: Observe,
    tmp_path: Path,
    forks: Callable[[str], Forks],
    capfd: pytest.CaptureFixture[str],
) -> None:
    ended = observe("1")
    alone = forks("keras").run([tmp_path / "train.py", "1"], tmp_path)
    assert without_times(capfd.readouterr().out) == without_times(alone.stdout)
    assert (ended.exit_code, ended.messages) == (0, ())
    lines = lines_of(ended)
    steps = [line for line in lines if line["kind"] == "step"]
    assert len(steps) == 30
    assert steps[0]["compile_ns"] > 0
    # Fetching the batch is inside the compiled call, so the wait is unknown, not zero.
    assert {step["input_wait_ns"] for step in steps} == {None}
    # Validation between the epochs belongs to no step.
    gaps = [b["start_ns"] - a["end_ns"] for a, b in pairwise(steps)]
    assert [i for i, gap in enumerate(gaps) if gap > 0] == [9, 19]
    (log,) = ended.run_dir.glob("process-*/events.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    (types,) = (event for event in events if event["kind"] == "parameters")
    assert (types["name"], types["count"]) == ("float32", 8 * 8 + 8 + 8 + 1)
    assert batches_of(events) == [("fit", 16)]
    # How the program calls what a fix may change.
    made = {event["name"]: event["reason"] for event in events if event["kind"] == "made"}
    assert made["compile"] == ("model.compile('adam', 'mse', steps_per_execution=int(sys.argv[1]))")
    assert made["fit"].startswith("model.fit(inputs, labels, batch_size=16, epochs=3,")
    # Three validations by `fit`, then three calls of the program: batches of each.
    called = [event for event in events if event["kind"] == "evaluation"]
    assert [(event["name"], event["count"]) for event in called] == [
        *[("validation", 2)] * 3,
        ("evaluate", 5),
        ("predict", 5),
        ("evaluate", 5),
    ]
    assert {event["source"].partition("(")[0] for event in called} == {"train.py"}
    (window,) = ended.run_dir.glob("process-*/windows/*")
    assert b"IteratorGetNext" in (window / "trace.xplane.pb").read_bytes()


@pytest.mark.framework
@needs_keras
def test_several_batches_in_one_call_are_one_step(observe: Observe) -> None:
    ended = observe("5")
    assert sum(line["kind"] == "step" for line in lines_of(ended)) == 6
    (message,) = ended.messages
    assert "5 batches" in message
    (log,) = ended.run_dir.glob("process-*/events.jsonl")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert batches_of(events) == [("fit, several batches per call", 80)]


_BY_BATCH = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import keras
inputs = np.random.rand(16, 8).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
for _ in range(30):
    model.fit(inputs, inputs.sum(1), batch_size=16, verbose=0)
"""


@pytest.mark.framework
@needs_keras
def test_a_window_spans_several_calls_of_fit_that_have_one_step_each(observe: Observe) -> None:
    ended = observe(code=_BY_BATCH)
    assert (ended.exit_code, ended.messages) == (0, ())
    steps = [line for line in lines_of(ended) if line["kind"] == "step"]
    assert len(steps) == 30
    assert any(step["profiled"] for step in steps)
    (window,) = ended.run_dir.glob("process-*/windows/*")
    assert (window / "trace.xplane.pb").stat().st_size > 0


_RAISING = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import keras
inputs = np.random.rand(160, 8).astype("float32")
model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")

class Raising(keras.callbacks.Callback):
    batches = 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1
        if self.batches == 8:
            raise KeyError("mine")

def fit(*callbacks):
    model.fit(inputs, inputs.sum(1), batch_size=8, epochs=2, verbose=0, callbacks=callbacks)

if sys.argv[1] == "raise":
    try:
        fit(Raising())
    except KeyError as error:
        print("raised", error)
    from tensorflow.python.profiler.internal import _pywrap_profiler
    session = _pywrap_profiler.ProfilerSession()
    session.start("", {})
    session.stop()
    fit()
else:
    fit(keras.callbacks.TensorBoard(sys.argv[2], profile_batch=(8, 12), write_graph=False))
"""


@pytest.mark.framework
@needs_keras
def test_a_fit_that_raises_leaves_no_profiler_on(
    observe: Observe, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = observe("raise", code=_RAISING)
    # Another profiler could not start if the window were open.
    assert (ended.exit_code, ended.messages) == (0, ())
    assert capfd.readouterr().out == "raised 'mine'\n"
    assert sum(line["kind"] == "step" for line in lines_of(ended)) == 7 + 40
    (window,) = ended.run_dir.glob("process-*/windows/*")
    about = json.loads((window / "window.json").read_text())
    # On a busy machine the steps may settle only after the failure; the window opens then.
    assert about["last_step"] < 8 or about["first_step"] > 7


@pytest.mark.framework
@needs_keras
def test_profiler_of_a_callback_has_precedence(observe: Observe, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    ended = observe("profile", str(tmp_path / "own"), code=_RAISING)
    assert ended.exit_code == 0
    assert sum(line["kind"] == "step" for line in lines_of(ended)) == 40
    if ended.messages:
        (message,) = ended.messages
        assert "own profiler (tf.profiler) was on" in message
    else:  # on a busy machine the steps may settle only after the profile of the callback
        (window,) = ended.run_dir.glob("process-*/windows/*")
        assert json.loads((window / "window.json").read_text())["first_step"] >= 12
    (own,) = (tmp_path / "own").glob("**/*.xplane.pb")
    assert b"IteratorGetNext" in own.read_bytes()


_DISTRIBUTED = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf
import keras
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
inputs = np.random.rand(160, 8).astype("float32")
labels = inputs.sum(1, keepdims=True)
with strategy.scope():
    weights = tf.Variable(tf.ones([8, 1]))
    model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

def replica(batch, truth):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((batch @ weights - truth) ** 2)
    gradient = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, weights))
    weights.assign_sub(0.01 * gradient)
    return loss

@tf.function
def step(batch):
    return strategy.reduce("SUM", strategy.run(replica, args=batch), axis=None)

if sys.argv[1] == "fit":
    model.fit(inputs, labels, batch_size=16, epochs=3, verbose=0)
else:
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(16)
    for _ in range(3):
        for batch in strategy.experimental_distribute_dataset(data):
            step(batch)
"""


@pytest.mark.framework
@needs_keras
@pytest.mark.parametrize(("way", "kind"), [("fit", "step"), ("custom", "call")])
def test_steps_on_two_devices(observe: Observe, way: str, kind: str) -> None:
    pytest.importorskip("tensorflow")
    ended = observe(way, code=_DISTRIBUTED)
    assert (ended.exit_code, ended.messages) == (0, ())
    assert [line["kind"] for line in lines_of(ended)] == [kind] * 30
    assert len(list(ended.run_dir.glob("process-*/windows/*"))) == 1


class CallbackList:
    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        del logs
        self.events.append(("epoch", epoch))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        del logs
        self.events.append(("begin", batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> str:
        self.events.append(("end", logs))
        if logs == "fail":
            raise KeyError(batch)
        return "result"

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        del epoch, logs

    def on_train_end(self, logs: Any = None) -> None:
        del logs


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop(Recorder(str(tmp_path), "pytorch", "2.0", "keras-fit"), NoWindow())
    monkeypatch.setattr(fit, "loop_of", lambda _: made)
    monkeypatch.setattr(fit, "backend", lambda: "torch")
    return made


def observed_list(tmp_path: Path) -> Any:
    kind = type("CallbackList", (CallbackList,), {})
    fit.observe_fit(SimpleNamespace(CallbackList=kind), str(tmp_path))  # type: ignore[arg-type]
    return kind()


def test_events_pass_through_with_any_arguments(loop: Loop, tmp_path: Path) -> None:
    callbacks = observed_list(tmp_path)
    callbacks.on_epoch_begin(epoch=0)
    assert loop.marker() is callbacks
    for batch in range(4):
        callbacks.on_train_batch_begin(batch)
        assert callbacks.on_train_batch_end(batch=batch, logs=7) == "result"
    callbacks.on_epoch_end(0)
    callbacks.on_train_end()
    assert loop.marker() is None
    assert callbacks.events[-1] == ("end", 7)
    loop.recorder.close()
    log = (tmp_path / f"process-{os.getpid()}" / "steps.jsonl").read_text().splitlines()
    assert len(log) == 4
    # On this backend Python fetches the batch between two batches.
    assert all(json.loads(line)["input_wait_ns"] > 0 for line in log)


def test_fit_that_raises_releases_the_loop(loop: Loop, tmp_path: Path) -> None:
    callbacks = observed_list(tmp_path)
    callbacks.on_epoch_begin(0)
    callbacks.on_train_batch_begin(0)
    with pytest.raises(KeyError):
        callbacks.on_train_batch_end(0, "fail")
    del callbacks
    assert loop.marker() is None


def test_failure_of_the_observer_does_not_affect_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> Loop:
        raise ImportError

    monkeypatch.setattr(fit, "loop_of", fail)
    callbacks = observed_list(tmp_path)
    callbacks.on_epoch_begin(0)
    callbacks.on_train_batch_begin(0)
    assert callbacks.on_train_batch_end(0) == "result"


class Norms:
    def on_train_batch_end(self, batch: int) -> None:
        """Observe nothing."""


def test_callbacks_of_the_program_that_fit_has_more_than_once_are_logged() -> None:
    seen: list[tuple[str, str, int]] = []

    def event(_: str, **about: Any) -> None:
        seen.append((about["name"], about["source"].partition(": ")[2], about["count"]))

    recorder: Any = SimpleNamespace(event=event)
    for _ in range(2):
        fit.log_repeated(recorder, SimpleNamespace(callbacks=[Norms(), SimpleNamespace(), Norms()]))
    fit.log_repeated(recorder, SimpleNamespace(callbacks=[Norms(), json.JSONEncoder()]))
    fit.log_repeated(recorder, None)
    assert seen == [("callback Norms", "on_train_batch_end", 2)]
