"""Fixes of JAX, applied to unmodified programs."""

from __future__ import annotations

import pytest
from tests.record.trials.programs import run

pytest.importorskip("jax")

PROGRAM = """
import jax, jax.numpy as jnp
calls = []
def step(x):
    calls.append(1)
    return jax.grad(lambda y: (y ** 2).sum())(x)
for _ in range(4):
    step(jnp.ones(3))
print(len(calls))
"""


def test_a_named_function_is_compiled(tmp_path):
    found = run(tmp_path, PROGRAM, fix="jax-jit", value="step")
    assert found.lines == ["2"]  # once as it was, once while it is traced
    assert found.changed == ["step: compiled"]


def test_a_compiled_function_is_left_alone(tmp_path):
    program = PROGRAM.replace("def step", "@jax.jit\ndef step")
    found = run(tmp_path, program, fix="jax-jit", value="step")
    assert not found.changed
    assert found.left == ["step, which is compiled already"]


TRAINER = """
import jax, jax.numpy as jnp
class Trainer:
    def __init__(self):
        self.weights = jnp.ones(3)
    def update(self, x):
        gradient = jax.grad(lambda w: ((w - x) ** 2).sum())(self.weights)
        self.weights = self.weights - 0.5 * gradient
trainer = Trainer()
for step in range(4):
    trainer.update(jnp.full(3, float(step)))
print(trainer.weights.tolist())
"""


def test_a_method_is_not_compiled(tmp_path):
    found = run(tmp_path, TRAINER, fix="jax-jit", value="Trainer.update")
    assert found.lines == ["[3.0, 3.0, 3.0]"]
    assert not found.changed
    assert "which is a method" in found.left[0]
    assert "function outside of the class" in found.left[0]


def test_a_function_that_sets_attributes_is_not_compiled(tmp_path):
    program = TRAINER + (
        "def train(x):\n"
        "    trainer.weights = x - jax.grad(lambda w: w.sum())(x)\n"
        "for step in range(4):\n    train(jnp.full(3, float(step)))\n"
        "print(trainer.weights.tolist())\n"
    )
    found = run(tmp_path, program, fix="jax-jit", value="train")
    assert found.lines[-1] == "[2.0, 2.0, 2.0]"
    assert not found.changed


def test_a_function_that_cannot_be_compiled_runs_as_it_was(tmp_path):
    program = PROGRAM.replace("calls.append(1)", "calls.append(float(x[0]))")
    found = run(tmp_path, program, fix="jax-jit", value="step")
    assert found.lines == ["4"]
    assert found.refused == ["step cannot be compiled (ConcretizationTypeError)"]


def test_debugging_settings_are_off(tmp_path):
    program = (
        "import jax\njax.config.update('jax_debug_nans', True)\nprint(jax.config.jax_debug_nans)"
    )
    found = run(tmp_path, program, fix="jax-debug-off")
    assert found.lines == ["False"]
    assert found.changed == ["jax.config.jax_debug_nans: off"]
