"""The lines of the program behind the nodes of traced functions."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.core.process import losses
from stepwhy.record.tf2 import traced_graphs
from stepwhy.record.tf2.tracing_notes import noting
from stepwhy.record.watchers import layer_lines
from stepwhy.record.watchers.graph_lines import GraphLines, called_graphs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]
PACKAGES = str(Path(pytest.__file__).parents[1])
HERE = "tf2/test_traced_graphs.py"  # shorter or longer, depending on what runs the tests


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_graphs, "_graphs", [])
    monkeypatch.setattr(traced_graphs, "_callers", {})
    monkeypatch.setattr(traced_graphs, "_lines", GraphLines())


def traced(function: Any, *arguments: Any) -> Any:
    """The concrete function, traced as the observer traces it."""
    with noting():
        concrete = function.get_concrete_function(*arguments)
    traced_graphs.note(concrete)
    return concrete


def line_numbers() -> dict[str, int]:
    """Line of each node, of all functions, relative to the first line of its function."""
    found = {}
    for function in traced_graphs.function_lines().values():
        for line, scopes in function.items():
            file, _, number_text = line.partition(")")[0].rpartition("(")
            assert file.endswith(HERE)
            number = int(number_text)
            for scope, names in scopes.items():
                prefix = f"{scope}/" if scope else ""
                found.update({prefix + name: number for name in names.split(" ")})
    return found


def logged_gradients(function: Any, *arguments: Any) -> list[tuple[int, str]]:
    """Line, relative to this file, and share of gradients that were logged as repeated."""
    events: list[tuple[int, str]] = []

    def event(kind: str, **about: Any) -> None:
        assert kind == "repeated-gradient"
        line = about["source"].partition(")")[0].rpartition("(")[2]
        events.append((int(line), about["reason"]))

    recorder: Any = SimpleNamespace(event=event)
    traced_graphs.log_repeated_gradients(traced(function, *arguments), recorder)
    return events


def test_gradients_of_the_same_layers_that_are_added_are_logged() -> None:
    import tensorflow as tf

    weights = tf.Variable(tf.ones([3, 3]))

    @tf.function
    def step(batch: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            hidden = tf.tanh(batch @ weights)
            losses = [tf.reduce_sum(hidden * factor) for factor in (1.0, 2.0, 3.0)]
        parts = [tape.gradient(loss, weights) for loss in losses]
        total = tf.zeros([3, 3])
        for part in parts:
            total = total + part
        return total

    ((line, share),) = logged_gradients(step, tf.ones([2, 3]))
    asks = step.python_function.__code__.co_firstlineno + 5
    assert line == asks
    # Of each loss, the sum and the product have a gradient of their own, two layers a common one.
    assert float(share) == pytest.approx(4 / 12, abs=0.001)


def test_gradients_of_several_networks_and_of_gradients_are_not_repeated() -> None:
    import tensorflow as tf

    first, second = tf.Variable(tf.ones([3, 3])), tf.Variable(tf.ones([3, 3]))

    @tf.function
    def step(batch: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            with tf.GradientTape() as inner:
                inner.watch(batch)
                inside = tf.reduce_sum(tf.tanh(batch @ first))
            penalty = tf.reduce_sum(inner.gradient(inside, batch) ** 2) + inside
            other = tf.reduce_sum(batch @ second)
        return tape.gradient(penalty, first), tape.gradient(other, second)

    assert logged_gradients(step, tf.ones([2, 3])) == []


def test_derivatives_by_inputs_that_are_added_are_no_gradients_of_losses() -> None:
    import tensorflow as tf

    weights = tf.Variable(tf.ones([2, 3]))

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([x, y])
                u, v, _ = tf.split(tf.tanh(tf.concat([x, y], 1) @ weights), 3, axis=1)
            divergence = inner.gradient(u, x) + inner.gradient(v, y)
            loss = tf.reduce_sum(divergence**2)
        return outer.gradient(loss, weights)

    assert logged_gradients(step, tf.ones([5, 1]), tf.ones([5, 1])) == []


def test_gradients_are_of_the_line_of_their_forward_operation() -> None:
    import tensorflow as tf

    weight = tf.Variable(tf.ones([3, 3]))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.tanh(x)
            z = y @ weight
            loss = tf.reduce_sum(tf.tanh(z))
        return tape.gradient(loss, weight)

    traced(tf.function(step), tf.ones([2, 3]))
    first = step.__code__.co_firstlineno
    lines = {name: number - first for name, number in line_numbers().items()}
    expected = {"Tanh": 2, "matmul": 3, "Tanh_1": 4, "gradient_tape/TanhGrad": 4}
    assert {name: lines[name] for name in expected} == expected
    assert lines["gradient_tape/matmul/MatMul"] == 3


def test_what_autograph_rewrites_has_its_own_lines() -> None:
    import tensorflow as tf

    def step(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.tanh(x)
        return x

    traced(tf.function(step), tf.ones([2]))
    first = step.__code__.co_firstlineno
    assert line_numbers()["while/Tanh"] - first == 2


def test_layers_of_a_functional_model_are_of_their_declarations(keras: Any) -> None:
    import tensorflow as tf

    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(3, activation="tanh")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2)(hidden))
    declared = sys._getframe().f_lineno - 2

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(x))
        return tape.gradient(loss, model.trainable_variables)

    traced(tf.function(step), tf.ones([2, 4]))
    lines = line_numbers()
    of_tanh = {number for name, number in lines.items() if name.endswith(("/Tanh", "/TanhGrad"))}
    assert of_tanh == {declared}
    products = [number for name, number in lines.items() if name.endswith("/MatMul")]
    assert set(products) == {declared, declared + 1}


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    keras = pytest.importorskip("keras")
    from keras.src.ops import operation

    original = operation.Operation.__init__
    monkeypatch.setattr(layer_lines, "_lines", type(layer_lines._lines)())
    layer_lines.observe_layers(operation, "")
    yield keras
    operation.Operation.__init__ = original


def test_metrics_of_keras_are_of_their_declarations(
    keras: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf
    from keras.src.metrics import metric

    monkeypatch.setattr(metric.Metric, "__init__", metric.Metric.__init__)
    monkeypatch.setattr(layer_lines, "_metrics", {})
    layer_lines.observe_metrics(metric, "")
    area, exact = keras.metrics.AUC(thresholds=[0.1, 0.4, 0.7]), keras.metrics.Precision()
    declared = sys._getframe().f_lineno - 1
    one = keras.metrics.BinaryAccuracy()
    two = keras.metrics.CategoricalAccuracy()
    other = keras.metrics.AUC(curve="PR", thresholds=[0.1, 0.4, 0.7])

    def step(x: Any) -> None:
        for each in (area, exact, one, two, other):
            each.update_state(x, x)

    traced(tf.function(step), tf.ones([2, 4]))
    # The same code of Keras updates both accuracies, and both areas, which are of one class.
    assert set(line_numbers().values()) == {declared, step.__code__.co_firstlineno + 2}
    named = {
        line.partition(": ")[2] for of in traced_graphs.function_lines().values() for line in of
    }
    assert {"AUC.update_state", "Precision.update_state"} <= named


def test_operations_of_keras_without_a_constructor_of_their_own(keras: Any) -> None:
    # Schedules with a warm-up make one.
    schedule = keras.optimizers.schedules.CosineDecay(0.1, 10, warmup_target=0.2, warmup_steps=2)
    assert float(schedule(1)) == pytest.approx(0.15)


def test_the_line_that_calls_a_function() -> None:
    import tensorflow as tf

    traced(tf.function(lambda x: x + 1), tf.ones([2]))
    (line,) = traced_graphs.callers().values()
    assert f"{HERE}(" in line


def test_nothing_is_replaced_after_tracing() -> None:
    from tensorflow.python.eager import backprop

    before = backprop._MockOp
    with noting():
        with noting():
            assert backprop._MockOp is not before
        assert backprop._MockOp is not before
    assert backprop._MockOp is before


def test_a_name_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    name = "tensorflow.python.eager.backprop"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(losses, "texts", [])
    with noting():
        tf.function(lambda x: x + 1).get_concrete_function(tf.ones([2]))
    (text,) = losses.texts
    assert text.startswith("lines of the gradients of a traced TensorFlow function cannot be")
    assert text.endswith("this version of the framework has no '_MockOp'")


def test_reading_takes_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    traced(tf.function(lambda x: x + 1), tf.ones([2]))
    lines = GraphLines()
    monkeypatch.setattr(lines, "_left_ns", 0)
    monkeypatch.setattr(traced_graphs, "_lines", lines)
    assert traced_graphs.function_lines() == {}


def test_functions_that_a_session_calls() -> None:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.compat.v1.enable_control_flow_v2()
        try:
            tf.while_loop(lambda i: i < 3, lambda i: i + 1, (tf.constant(0),))
        finally:
            tf.compat.v1.disable_control_flow_v2()
    found = GraphLines().of(called_graphs(graph))
    assert all(f"{HERE}(" in line for lines in found.values() for line in lines)
    assert found


def test_the_lines_of_loops_are_logged_but_not_those_of_gradients_and_data_sets() -> None:
    events: list[tuple[str, str, str]] = []

    def operation(kind: str, name: str, line: int, *calls: str) -> Any:
        frames = [SimpleNamespace(filename=__file__, lineno=line, name="augment")]
        frames += [SimpleNamespace(filename=file, lineno=1, name="call") for file in calls]
        return SimpleNamespace(type=kind, name=name, traceback=frames)

    recorder = SimpleNamespace(
        event=lambda _, *, name, source, reason, **__: events.append((name, source, reason))
    )
    operations = [
        operation("MatMul", "MatMul", 3),
        operation("StatelessWhile", "map/while", 7),
        operation("While", "map_1/while", 7),
        operation("While", "gradient_tape/map/while_grad", 9),
        operation("While", "map_2/while", 11, PACKAGES + "/tensorflow/python/ops/map_fn.py"),
    ]
    for name in ("step", "Dataset_map_parse"):
        graph = SimpleNamespace(name=name, get_operations=lambda: operations)
        traced_graphs.log_loops(SimpleNamespace(graph=graph), recorder)  # type: ignore[arg-type]
    assert [(name, source[-12:], reason) for name, source, reason in events] == [
        ("step", "(7): augment", ""),
        ("step", "11): augment", "map"),
    ]
