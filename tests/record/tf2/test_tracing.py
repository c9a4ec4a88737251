"""Arguments of traced functions, according to TensorFlow's types."""

from __future__ import annotations

import importlib.util
import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.tf2.loop import loop_of
from stepwhy.record.tf2.tracing import arguments_of, observe_tracing

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.record.watchers.retraces import Argument

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]


def traced_for(**values: Any) -> dict[str, Argument]:
    from tensorflow.core.function.trace_type import from_value

    kinds = {name: SimpleNamespace(type_constraint=from_value(v)) for name, v in values.items()}
    return arguments_of(SimpleNamespace(parameters=kinds))


def test_nests_are_described_leaf_by_leaf() -> None:
    import tensorflow as tf

    ones = tf.ones([2, 3])
    found = traced_for(batch=(ones, [ones, 4]), features={"age": ones}, rate=0.5, name="secret")
    assert {path: str(argument) for path, argument in found.items()} == {
        "batch[0]": "float32 (2, 3)",
        "batch[1][0]": "float32 (2, 3)",
        "batch[1][1]": "4",
        "features['age']": "float32 (2, 3)",
        "rate": "0.5",
        "name": "str",
    }


def test_tensors_of_unknown_shape_and_objects() -> None:
    import tensorflow as tf

    class Model:
        pass

    first, second = Model(), Model()
    found = traced_for(spec=tf.TensorSpec(None, tf.int32), one=first, same=first, other=second)
    assert str(found["spec"]) == "int32 of unknown rank"
    assert str(found["one"]) == "Model"
    assert found["one"] == found["same"]
    assert found["one"] != found["other"]


def test_a_large_nest_is_cut() -> None:
    assert len(traced_for(values=tuple(range(1000)))) == 64


def test_the_types_of_the_variables_of_a_function_are_logged(tmp_path: Path) -> None:
    import tensorflow as tf

    weights = tf.Variable(tf.zeros((3, 2), tf.float64))
    rate = tf.Variable(0.1, trainable=False)
    function = tf.function(lambda x: x @ weights * tf.cast(rate, tf.float64))
    made = function.get_concrete_function(tf.zeros((1, 3), tf.float64))
    module: Any = SimpleNamespace(_create_concrete_function=lambda *_: made)
    observe_tracing(module, str(tmp_path))
    recorder = loop_of(str(tmp_path)).recorder
    assert [module._create_concrete_function(0, 0, 0, 0) for _ in range(2)] == [made] * 2
    recorder.step("{}")
    recorder.close()
    events = (tmp_path / f"process-{os.getpid()}" / "events.jsonl").read_text().splitlines()
    found = [event for event in map(json.loads, events) if event["kind"] == "parameters"]
    assert [(event["name"], event["count"]) for event in found] == [("float64", 6)]
