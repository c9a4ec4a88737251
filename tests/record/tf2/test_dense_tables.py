"""Tables of traced functions whose gradients the program turns into dense tensors."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.tf2 import traced_graphs
from stepwhy.record.tf2.tracing_notes import noting

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.framework,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
    ),
]


class Recorder:
    """Keeps the events."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def event(self, kind: str, **about: Any) -> None:
        self.events.append({"kind": kind, **about})


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_graphs, "_followed", set())


def clean(gradient: Any) -> Any:
    import tensorflow as tf

    return tf.where(tf.math.is_finite(gradient), gradient, tf.zeros_like(gradient))


def events_of(
    use: Callable[[Any, Any], Any] = clean,
    *,
    rows: int = 40_000,
    batch: int | None = 16,
    loss: Callable[[Any, Any], Any] | None = None,
    look_up: Callable[[Any, Any], Any] | None = None,
) -> list[dict[str, Any]]:
    """The events of a step that looks rows of a table up and changes it.

    Args:
        use: Makes what is subtracted of the gradient.
        rows: Rows of the table, of eight numbers.
        batch: Number of examples, each of three rows; None if it is unknown.
        loss: Of the table and the looked up rows.
        look_up: Looks rows up in the table; `tf.gather` by default.
    """
    import tensorflow as tf

    table, layer = tf.Variable(tf.ones([rows, 8])), tf.Variable(tf.ones([8, 4]))

    @tf.function(input_signature=[tf.TensorSpec([batch, 3], tf.int32)])
    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            looked_up = (look_up or tf.gather)(table, ids)
            value = tf.reduce_sum(looked_up @ layer)
            value += 0.0 if loss is None else loss(table, looked_up)
        of_table, of_layer = tape.gradient(value, [table, layer])
        change = use(of_table)
        if isinstance(change, tf.IndexedSlices):
            table.scatter_sub(change)
        else:
            table.assign_sub(change)
        layer.assign_sub(clean(of_layer))
        return value

    with noting():
        concrete = step.get_concrete_function()
    recorder = Recorder()
    traced_graphs.log_tables(concrete, recorder)  # type: ignore[arg-type]
    return recorder.events


def test_a_table_and_what_computes_with_all_of_it():
    table, *parts = events_of()
    assert (table["kind"], table["name"], table["count"]) == ("dense-table", "40000x8", 48)
    assert table["reason"] == ""
    assert table["source"].endswith(": step")
    assert {part["kind"] for part in parts} == {"dense-table-work"}
    shares = {(part["name"], part["source"].rpartition(": ")[2]): part["reason"] for part in parts}
    # The same lines handle the gradient of a small layer.
    assert shares["IsFinite", "clean"] == shares["SelectV2", "clean"] == "1.000"
    assert ("AssignSubVariableOp", "step") in shares
    assert all(float(share) > 0.9 for share in shares.values())


def test_lookups_count_for_each_example_where_their_number_is_unknown():
    (table, *_) = events_of(batch=None)
    assert (table["reason"], table["count"]) == ("per-example", 3)


def test_what_stays_sparse_is_not_logged():
    import tensorflow as tf

    def of_rows(gradient: Any) -> Any:
        values = clean(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)

    assert events_of(of_rows) == []


def test_rows_of_what_is_computed_from_the_table():
    import tensorflow as tf

    def masked(table: Any, ids: Any) -> Any:
        mask = tf.concat([tf.zeros([1, 1]), tf.ones([table.shape[0] - 1, 1])], 0)
        return tf.gather(table * mask, ids)

    table, *parts = events_of(lambda gradient: gradient, look_up=masked, batch=None)
    assert (table["reason"], table["count"]) == ("per-example computed", 3)
    assert {("Mul", "masked")} <= {
        (part["name"], part["source"].rpartition(": ")[2]) for part in parts
    }


def test_small_tables_and_those_that_the_loss_reads_are_not_logged():
    import tensorflow as tf

    assert events_of(rows=1000) == []
    assert events_of(loss=lambda table, _: tf.reduce_sum(table**2)) == []
    assert events_of(loss=lambda table, rows: tf.reduce_sum(rows[0] @ tf.transpose(table))) == []


def test_a_function_is_read_once_and_one_without_gradients_not_at_all():
    import tensorflow as tf

    function = tf.function(lambda x: x + 1).get_concrete_function(tf.ones([2]))
    recorder = Recorder()
    for each in (function, function, object()):
        traced_graphs.log_tables(each, recorder)  # type: ignore[arg-type]
    assert recorder.events == []
