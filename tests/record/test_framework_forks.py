"""Programs of JAX and TensorFlow that fork: every child ends, and windows fit between the forks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.forks import IMPORTED

from stepwhy.record import launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks

pytestmark = pytest.mark.framework

# A child that hangs is killed after a minute.
_HEAD = """
import multiprocessing, os, sys, time, warnings
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.simplefilter("ignore")
import numpy as np
STEPS, EVERY, codes = 60, int(sys.argv[1]), []
context = multiprocessing.get_context("fork")

def fork(values):
    child = os.fork()
    if not child:
        np.save(os.devnull, values)
        os._exit(7)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.001)
    os.kill(child, 9)
    return os.waitpid(child, 0) and "hung"

def work(values):
    process = context.Process(target=np.save, args=(os.devnull, values))
    process.start()
    process.join()
    return "hung" if process.exitcode is None else process.exitcode

def after(step, values):
    if step % EVERY == EVERY - 1:
        codes.append(fork(values) if len(codes) % 2 else work(values))
"""
_PROGRAMS = {
    "jax": """
import jax
import jax.numpy as jnp

@jax.jit
def train(weights):
    return weights - 0.01 * jax.grad(lambda w: ((x @ w) ** 2).mean())(weights)

x, weights = jnp.ones((8, 16)), jnp.ones((16, 1))
for step in range(STEPS):
    weights = train(weights)
    after(step, np.asarray(weights))
print(float(weights.sum()), codes)
""",
    "tensorflow": """
import tensorflow as tf
x, weights = tf.ones((8, 16)), tf.Variable(tf.ones((16, 1)))

@tf.function
def train():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ weights) ** 2)
    weights.assign_sub(0.01 * tape.gradient(loss, weights))

for step in range(STEPS):
    train()
    after(step, weights.numpy())
print(float(tf.reduce_sum(weights)), codes)
""",
    "keras": """
import keras

class Save(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        after(batch, self.model.get_weights()[0])

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.ones((8 * STEPS, 16), "float32")
model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[Save()])
print(float(model.get_weights()[0].sum()), codes)
""",
}


@pytest.mark.parametrize(
    ("framework", "every", "windows"),
    [("jax", 1, 0), ("jax", 6, 1), ("tensorflow", 6, 1), ("keras", 6, 1)],
)
def test_children_end_as_without_observation(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    forks: Callable[[str], Forks],
    *,
    framework: str,
    every: int,
    windows: int,
) -> None:
    if importlib.util.find_spec(framework) is None:
        pytest.skip("the framework is not installed")
    script = tmp_path / "train.py"
    script.write_text(_HEAD + _PROGRAMS[framework])
    words = [str(script), str(every)]
    if framework in IMPORTED:
        alone = forks(framework).run(words, tmp_path)
        ended = forks(framework).launch(words, tmp_path / "run")
    else:
        command = [sys.executable, *words]
        alone = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        ended = launch(command, tmp_path / "run")
    assert (ended.exit_code, capfd.readouterr().out) == (alone.returncode, alone.stdout)
    assert alone.returncode == 0
    assert "hung" not in alone.stdout
    assert len(list(ended.run_dir.glob("process-*/windows/*/window.json"))) == windows
    assert any("forked its process" in text for text in ended.messages) == (not windows)
