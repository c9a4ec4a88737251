"""Products in the loops of a graph that no later round needs."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from stepwhy.record.tf2.loop_products import products_of
from stepwhy.record.watchers.graph_lines import called_graphs

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]


def found_in(round_of: Any, *, start: Any = None, differentiate: bool = True) -> Any:
    """Elements of the weights of products that no later round of a loop needs, and of the others.

    Args:
        round_of: From state and input of a time step to the next state and the output.
        start: The first state; zeros by default.
        differentiate: Whether the function computes gradients of the outputs.
    """
    import tensorflow as tf

    @tf.function
    def step(sequence: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs = tf.TensorArray(tf.float32, 20)
            state = tf.zeros([2, 3]) if start is None else start
            for t in tf.range(20):
                state, output = round_of(state, sequence[t], weights)
                outputs = outputs.write(t, output)
            loss = tf.reduce_sum(outputs.stack())
        return tape.gradient(loss, weights) if differentiate else loss

    shapes = [tf.TensorSpec([3, 3]), tf.TensorSpec([3, 3]), tf.TensorSpec([3, 6])]
    graph = step.get_concrete_function(tf.TensorSpec([20, 2, 3]), shapes).graph
    bodies = {each.name: each for each in called_graphs(graph)}
    loops = [each for each in graph.get_operations() if each.type in {"While", "StatelessWhile"}]
    needed, others = products_of(bodies[loops[0].get_attr("body").name])
    return sorted(others.values()), sorted(needed.values())


def cell(state: Any, row: Any, weights: Any) -> Any:
    import tensorflow as tf

    return tf.tanh(row @ weights[0] + state @ weights[1])


@pytest.mark.parametrize("differentiate", [True, False])
def test_an_output_layer_in_a_cell(differentiate):
    def with_scores(state: Any, row: Any, weights: Any) -> Any:
        state = cell(state, row, weights)
        return state, state @ weights[2]

    assert found_in(with_scores, differentiate=differentiate) == ([18], [9, 9])


def test_an_output_that_the_next_round_reads_is_needed():
    def feeds_back(state: Any, row: Any, weights: Any) -> Any:
        state = cell(state, row, weights)
        scores = state @ weights[2]
        return state + scores[:, :3], scores

    assert found_in(feeds_back) == ([], [9, 9, 18])


def test_states_are_no_outputs_of_their_own():
    def plain(state: Any, row: Any, weights: Any) -> Any:
        state = cell(state, row, weights)
        return state, state

    assert found_in(plain) == ([], [9, 9])


def test_products_of_values_of_one_round_stay():
    def attends(state: Any, row: Any, weights: Any) -> Any:
        import tensorflow as tf

        state = cell(state, row, weights)
        return state, tf.matmul(state, row, transpose_b=True)

    assert found_in(attends) == ([], [9, 9])
