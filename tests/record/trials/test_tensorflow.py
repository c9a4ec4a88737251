"""Fixes of TensorFlow and Keras, applied to unmodified programs."""

from __future__ import annotations

import importlib.util
from functools import partial

import pytest
from tests.record.trials import programs
from tests.record.trials.programs import APPLY

# To import it would cost each worker seconds.
pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]


@pytest.fixture(name="run")
def run_in_fork(forks):
    """Returns what runs a program with a fix, in a fork that has imported the framework."""
    return partial(programs.run, forks=forks("tensorflow"))


FIT = """
import keras, numpy as np
model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)
model.fit(np.ones([8, 4]), np.ones([8, 1]), batch_size=2, epochs=2, verbose=0)
print(model.run_eagerly, model.jit_compile)
"""


def test_fit_is_compiled_although_it_asks_for_eager_steps(run, tmp_path):
    found = run(tmp_path, FIT, fix="keras-compiled")
    assert found.lines[-1].startswith("False")
    assert found.changed == ["Model.compile: run_eagerly=False instead of True"]
    assert [len(about["losses"]) for about in found.reports if "losses" in about] == [2]
    (steps,) = [about["steps"] for about in found.reports if "steps" in about]
    assert len(steps) == 8


def test_a_compiled_fit_is_left_alone(run, tmp_path):
    found = run(tmp_path, FIT.replace(", run_eagerly=True", ""), fix="keras-compiled")
    assert not found.changed
    assert found.left == ["a model that is compiled with run_eagerly=False already"]


PIPELINE = """
import tensorflow as tf
calls = tf.Variable(0, dtype=tf.int64)
def count(x):
    return x * 2
data = tf.data.Dataset.range(4).map({function}).batch(2)
for _ in range(2):
    print([batch.numpy().tolist() for batch in data])
"""
BATCHES = ["[[0, 2], [4, 6]]"] * 2


def test_a_map_runs_in_parallel(run, tmp_path):
    found = run(tmp_path, PIPELINE.format(function="count"), fix="parallel-map")
    assert found.lines == BATCHES
    assert found.changed == ["Dataset.map: num_parallel_calls=AUTOTUNE"]


def test_a_pipeline_prefetches(run, tmp_path):
    found = run(tmp_path, PIPELINE.format(function="count"), fix="data-prefetch")
    assert found.lines == BATCHES
    assert found.changed == ["Dataset: prefetch(2) at the end"]


def test_a_pipeline_that_prefetches_is_left_alone(run, tmp_path):
    program = PIPELINE.format(function="count").replace(".batch(2)", ".batch(2).prefetch(1)")
    found = run(tmp_path, program, fix="data-prefetch")
    assert found.lines == BATCHES
    assert found.left == ["a pipeline that ends with prefetch already"]


def test_the_results_of_a_map_are_cached(run, tmp_path):
    found = run(tmp_path, PIPELINE.format(function="count"), fix="data-cache")
    assert found.lines == BATCHES
    assert found.changed == ["Dataset: cache() after map"]


def test_maps_that_differ_each_time_are_not_cached(run, tmp_path):
    functions = {
        "lambda x: x + tf.random.uniform([], 0, 2, tf.int64)": "RandomUniformInt",
        "lambda x: tf.py_function(lambda y: y, [x], tf.int64)": "EagerPyFunc",
        "lambda x: x + calls": "ReadVariableOp",
    }
    program = "".join(PIPELINE.format(function=function) for function in functions)
    found = run(tmp_path, program, fix="data-cache")
    assert not found.changed
    assert all(kind in left for left, kind in zip(found.left, functions.values(), strict=True))


def test_maps_behind_data_that_differ_each_time_are_not_cached(run, tmp_path):
    known = ".apply(tf.data.experimental.assert_cardinality(4)).map"
    plain = PIPELINE.format(function="count")
    program = "".join(
        [
            plain.replace(".map", f".shuffle(4){known}"),
            plain.replace(
                ".map", f".interleave(lambda x: tf.data.Dataset.random(seed=3).take(1)){known}"
            ),
            plain.replace("range(4)", "from_generator(lambda: range(4), tf.int64)", 1).replace(
                ".map", known
            ),
        ]
    )
    found = run(tmp_path, program, fix="data-cache")
    assert found.lines[-2:] == BATCHES
    assert not found.changed
    kinds = ["_ShuffleDataset", "RandomDataset", "PyFunc"]
    assert all(kind in left for left, kind in zip(found.left, kinds, strict=True))


def test_a_map_behind_python_is_not_cached(run, tmp_path):
    python = ".map(lambda x: tf.py_function(lambda y: y, [x], tf.int64))"
    known = f"{python}.apply(tf.data.experimental.assert_cardinality(4)).map"
    program = PIPELINE.format(function="count").replace(".map", known)
    found = run(tmp_path, program, fix="data-cache")
    assert "EagerPyFunc" in found.left[-1]
    assert len(found.changed) <= 1


def test_the_first_batch_of_data_without_a_known_end_is_not_repeated(run, tmp_path):
    program = PIPELINE.format(function="count").replace(".map", ".filter(lambda x: x > 1).map")
    program = program.replace("in data", "in data.take(9)")
    found = run(tmp_path, program, fix="constant-batch")
    assert found.lines == ["[[4, 6]]"] * 2
    assert not found.changed
    assert found.left == ["a pipeline of unknown length"]


def test_an_endless_data_set_is_not_cached(run, tmp_path):
    program = PIPELINE.format(function="count").replace(".map", ".repeat().map")
    found = run(tmp_path, program.replace(".batch(2)", ".take(4).batch(2)"), fix="data-cache")
    assert not found.changed
    assert "endless length" in found.left[0]


def test_a_constant_batch_keeps_the_length_of_epochs(run, tmp_path):
    found = run(tmp_path, PIPELINE.format(function="count"), fix="constant-batch")
    assert found.lines == ["[[0, 2], [0, 2]]"] * 2


FUNCTION = """
import tensorflow as tf
traces = []
class Trainer:
    {decorator}
    def step(self, x):
        traces.append(1)
        with tf.GradientTape():
            return tf.reduce_sum(x)
trainer = Trainer()
for size in range(1, 9):
    trainer.step(tf.ones([size]))
print(len(traces))
"""


def test_a_function_is_traced_for_shapes_in_general(run, tmp_path):
    program = FUNCTION.format(decorator="@tf.function")
    found = run(tmp_path, program, fix="reduce-retracing")
    assert int(found.lines[-1]) <= 3
    assert found.changed == ["tf.function: reduce_retracing=True"]


def test_a_named_function_is_compiled(run, tmp_path):
    program = FUNCTION.format(decorator="")
    found = run(tmp_path, program, fix="tf-function", value="Trainer.step")
    assert int(found.lines[-1]) <= 4
    assert found.changed == ["Trainer.step: compiled"]


def test_a_name_that_is_not_there_is_reported(run, tmp_path):
    found = run(tmp_path, FUNCTION.format(decorator=""), fix="tf-function", value="nothing")
    assert found.left == ["there is no function 'nothing' in the program"]
    assert found.lines[-1] == "8"


def test_a_function_that_sets_attributes_is_not_compiled(run, tmp_path):
    program = FUNCTION.format(decorator="").replace("traces.append(1)", "self.size = len(x)")
    found = run(tmp_path, program + "print(trainer.size)", fix="tf-function", value="Trainer.step")
    assert found.lines[-1] == "8"
    assert not found.changed
    assert "sets attributes" in found.left[0]


def test_a_function_that_cannot_be_compiled_runs_as_it_was(run, tmp_path):
    program = FUNCTION.format(decorator="").replace("traces.append(1)", "traces.append(x.numpy())")
    found = run(tmp_path, program, fix="tf-function", value="Trainer.step")
    assert found.lines[-1] == "8"
    assert "cannot be compiled" in found.refused[0]


def test_fixes_are_applied_while_the_framework_is_imported(tmp_path):
    found = programs.run(tmp_path, APPLY.format(packages={"tensorflow", "keras"}))
    number, left = found.lines[-1].split(maxsplit=1)
    assert int(number) >= 5
    assert left == "set()"
    assert "failed" not in str(found.left)
