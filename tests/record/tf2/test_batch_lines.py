"""Which lines of TensorFlow's graphs compute from the batch alone."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.tf2 import traced_graphs
from stepwhy.record.watchers.batch_lines import batch_lines, log_batch_lines, pair_lines
from stepwhy.record.watchers.graph_lines import stack_lines

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]
SOURCE = Path(__file__).read_text().splitlines()


def code_at(lines: list[str]) -> list[str]:
    return [SOURCE[int(re.findall(r"\((\d+)\)", line)[0]) - 1].strip() for line in lines]


def of_function(prepare: Callable[[Any, Any], Any], *, trains: bool = True) -> list[str]:
    import tensorflow as tf

    weights = tf.Variable(tf.ones([64, 4]))

    def step(batch: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(prepare(batch, weights) @ weights)
        return tape.gradient(loss, weights) if trains else loss

    concrete = tf.function(step).get_concrete_function(tf.ones([128, 64]))
    return code_at(batch_lines(concrete.graph, lambda graph: traced_graphs._NodeLines(graph).of))


def squared(batch: Any, _: Any) -> Any:
    return batch**2


def with_noise(batch: Any, _: Any) -> Any:
    import tensorflow as tf

    noise = tf.random.normal([128, 64])
    return (batch + noise) ** 2


def with_stateless_noise(batch: Any, _: Any) -> Any:
    import tensorflow as tf

    noise = tf.random.stateless_normal([128, 64], [1, 2])
    return (batch + noise) ** 2


def with_weights(batch: Any, weights: Any) -> Any:
    import tensorflow as tf

    return batch * tf.reduce_sum(weights)


def in_loop(batch: Any, _: Any) -> Any:
    import tensorflow as tf

    return tf.map_fn(lambda row: row**2, batch)


def moved(batch: Any, _: Any) -> Any:
    import tensorflow as tf

    return tf.reshape(tf.transpose(batch), [128, 64])


def called(batch: Any, weights: Any) -> Any:
    import tensorflow as tf

    @tf.function(autograph=False)
    def inner(features: Any, scaled: Any) -> Any:
        cubed = features**3
        return cubed + scaled * 2

    return inner(batch, with_weights(batch, weights))


def constant(batch: Any, _: Any) -> Any:
    import tensorflow as tf

    table = tf.exp(tf.ones([128, 64]))
    return tf.concat([batch[:64], table[64:]], 0)


@pytest.mark.parametrize(
    ("prepare", "lines"),
    [
        (squared, ["return batch**2"]),
        (with_noise, []),
        (with_stateless_noise, []),
        (with_weights, []),
        (in_loop, []),
        (moved, []),
        (called, ["cubed = features**3"]),
        (constant, []),
    ],
)
def test_only_what_depends_on_nothing_else_counts(
    prepare: Callable[[Any, Any], Any], lines: list[str]
) -> None:
    assert of_function(prepare) == lines


def test_the_inputs_of_a_function_without_gradients_may_be_anything() -> None:
    assert of_function(squared, trains=False) == []


def test_the_graph_of_a_session() -> None:
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph:
        batch = tf.placeholder(tf.float32, [None, 64])
        features = tf.exp(batch)
        weights = tf.Variable(tf.ones([64, 4]), use_resource=False)
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(features @ weights))
    assert code_at(batch_lines(graph, stack_lines)) == ["features = tf.exp(batch)"]


def test_a_graph_that_cannot_be_read_is_left_alone() -> None:
    log_batch_lines(object(), "graph", stack_lines, log=None)  # type: ignore[arg-type]


def difference(a: Any, b: Any) -> Any:
    import tensorflow as tf

    apart = tf.expand_dims(a, 1) - tf.expand_dims(b, 0)
    squares = tf.square(apart)
    return tf.reduce_sum(squares, -1)


def squared_difference(a: Any, b: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(tf.math.squared_difference(a[:, None], b[None]), -1)


def needed(a: Any, b: Any) -> Any:
    import tensorflow as tf

    apart = a[:, None] - b[None]
    return tf.reduce_sum(apart**2, -1), tf.nn.relu(apart)


def absolute(a: Any, b: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum(tf.abs(a[:, None] - b[None]), -1)


def multiplied(a: Any, b: Any) -> Any:
    import tensorflow as tf

    apart = a[:, None] - b[None]
    return tf.reduce_sum(apart * apart, -1)


def weighted(a: Any, b: Any) -> Any:
    import tensorflow as tf

    apart = a[:, None] - b[None]
    return tf.reduce_sum(apart * a[:, None], -1)


def of_points(a: Any, b: Any) -> Any:
    return difference(a[:, :3], b[:, :3])


def of_rows(a: Any, b: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_sum((a[:4] - b[:4]) ** 2, -1)


@pytest.mark.parametrize(
    ("distances", "count"),
    [
        (difference, 3),
        (squared_difference, 1),
        (needed, 0),
        (multiplied, 2),
        (absolute, 0),
        (weighted, 0),
        (of_points, 0),
        (of_rows, 0),
    ],
)
@pytest.mark.parametrize("size", [16, None])
def test_distances_of_all_pairs(
    distances: Callable[[Any, Any], Any], count: int, size: int | None
) -> None:
    import tensorflow as tf

    inner = tf.function(distances, autograph=False)

    @tf.function(autograph=False)
    def step(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(a)
            loss = tf.reduce_sum(tf.nest.flatten(inner(a, b))[0])
        return tape.gradient(loss, a)

    shape = tf.TensorSpec([size, 32], tf.float32)
    graph = step.get_concrete_function(shape, shape).graph
    lines = pair_lines(graph, lambda each: traced_graphs._NodeLines(each).of)
    assert len(lines) == count
