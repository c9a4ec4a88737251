"""Samples of a `tf.data` pipeline, and their interval."""

from __future__ import annotations

import importlib.util
import json
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.record.test_loop import Window

from stepwhy.record.core.recorder import Recorder
from stepwhy.record.steps.loop import Loop
from stepwhy.record.tf2 import pipeline
from stepwhy.record.tf2.pipeline import Pipelines, capacity_of, stages_of

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000_000


class Iterator:
    """An iterator that has produced some elements."""

    def __init__(self, elements: int) -> None:
        self.elements = elements


def stages(iterator: Any) -> list[dict[str, Any]]:
    prefetch = {"id": 2, "name": "Prefetch", "inputs": [], "asynchronous": True, "buffered": 1}
    prefetch |= {"elements": iterator.elements, "buffer_size": 4}
    root = {"id": 1, "name": "Root", "inputs": [2], "asynchronous": False}
    return [root | {"elements": iterator.elements}, prefetch]


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipelines:
    monkeypatch.setattr(pipeline, "_model_of", lambda iterator: iterator)
    monkeypatch.setattr(pipeline, "stages_of", stages)
    return Pipelines(Loop(Recorder(str(tmp_path), "tensorflow", "2.0", "tf2-function"), Window()))


def kept(pipelines: Pipelines, tmp_path: Path, name: str) -> list[dict[str, Any]]:
    recorder = pipelines._loop.recorder
    recorder.step("{}")
    recorder.close()
    path = tmp_path / f"process-{os.getpid()}" / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_no_sample_before_there_is_an_iterator(pipelines: Pipelines) -> None:
    assert not pipelines.sample(SECOND)


def test_the_levels_of_asynchronous_stages(pipelines: Pipelines, tmp_path: Path) -> None:
    training = Iterator(10)
    pipelines.add(training)
    assert pipelines.sample(SECOND)
    (level,) = kept(pipelines, tmp_path, "levels.jsonl")
    assert (level["kind"], level["name"]) == ("tf.data", "Prefetch[2]")
    assert (level["value"], level["capacity"]) == (1, 4)
    (whole,) = kept(pipelines, tmp_path, "pipeline.json")
    assert whole["schema"] == "stepwhy.pipeline/1"
    assert whole["stages"] == stages(training)


def test_pipeline_that_feeds_the_training_is_logged(pipelines: Pipelines) -> None:
    training, evaluation = Iterator(10), Iterator(20)
    pipelines.add(training)
    pipelines.add(evaluation)
    assert pipelines._busiest() == stages(evaluation)
    training.elements += 5
    assert pipelines._busiest() == stages(training)


def test_passes_over_a_data_set_are_counted(pipelines: Pipelines, tmp_path: Path) -> None:
    source = type("_RangeDataset", (), {"_inputs": lambda _: [], "_functions": lambda _: []})()
    shuffled = {"_inputs": lambda _: [source], "_functions": lambda _: []}
    first, second = Iterator(10), Iterator(5)
    first._dataset = second._dataset = type("_PrefetchDataset", (), shuffled)()  # type: ignore[attr-defined]
    pipelines.ended(first)
    pipelines.add(second)
    assert pipelines.sample(SECOND)
    (whole,) = kept(pipelines, tmp_path, "pipeline.json")
    root, prefetch, ended = whole["stages"]
    assert (root["epochs"], prefetch["inputs"], ended["name"]) == (2, [3], "Range")


def test_the_end_of_an_iterator_without_a_data_set_harms_nothing(pipelines: Pipelines) -> None:
    without = Iterator(3)
    pipelines.ended(without)
    without._dataset = None  # type: ignore[attr-defined]
    pipelines.ended(without)
    pipelines.add(without)
    assert pipelines.sample(SECOND)


def test_the_file_keeps_the_pipeline_that_produced_most(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    training, validation = Iterator(10), Iterator(0)
    for iterator in (training, validation):
        about = {"_inputs": lambda _: [], "_functions": lambda _: []}
        iterator._dataset = type("_PrefetchDataset", (), about)()  # type: ignore[attr-defined]
        pipelines.add(iterator)
    assert pipelines.sample(SECOND)
    validation.elements = 6
    pipelines._due_ns = 0
    assert pipelines.sample(2 * SECOND)
    (whole,) = kept(pipelines, tmp_path, "pipeline.json")
    assert whole["stages"][0]["elements"] == 10


def test_a_data_set_of_another_version_is_described_by_its_model(pipelines: Pipelines) -> None:
    training = Iterator(10)
    training._dataset = object()  # type: ignore[attr-defined]
    pipelines.add(training)
    assert pipelines._busiest() == stages(training)


def test_iterators_are_not_kept_alive(pipelines: Pipelines) -> None:
    pipelines.add(Iterator(1))
    assert pipelines.sample(SECOND)
    assert pipelines._busiest() == []


def test_samples_are_rare(pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    time = iter(range(SECOND, SECOND * SECOND, 5_000_000))
    monkeypatch.setattr(pipeline, "now_ns", lambda: next(time))
    training = Iterator(10)
    pipelines.add(training)
    for _ in range(3):
        assert pipelines.sample(pipelines._due_ns)
    # With this clock, a sample takes 5 to 10 ms.
    ended = next(time)
    assert not pipelines.sample(ended + 4 * SECOND)
    assert pipelines.sample(ended + 20 * SECOND)


def test_pipeline_without_a_model_is_reported_once(
    pipelines: Pipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> Any:
        raise LookupError

    monkeypatch.setattr(pipeline, "_model_of", fail)
    training = Iterator(10)
    pipelines.add(training)
    assert pipelines.sample(SECOND)
    assert not pipelines.sample(100 * SECOND)
    (message,) = kept(pipelines, tmp_path, "messages.jsonl")
    assert message["slug"] == "no-pipeline-model"


def test_a_version_that_does_not_show_its_model_is_named_as_the_reason(
    pipelines: Pipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Any) -> Any:
        raise ModuleNotFoundError

    monkeypatch.setattr(pipeline, "_model_of", fail)
    training = Iterator(10)
    pipelines.add(training)
    assert pipelines.sample(SECOND)
    (message,) = kept(pipelines, tmp_path, "messages.jsonl")
    assert message["text"].endswith(
        "TensorFlow shows its model of a pipeline only in later versions"
    )


def test_a_buffer_without_a_known_size_has_none() -> None:
    assert capacity_of({"parallelism": 2}) == 2
    assert capacity_of({}) is None


@pytest.mark.framework
@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
)
def test_a_model_of_tensorflow() -> None:
    import tensorflow as tf

    data = tf.data.Dataset.range(1000).map(lambda x: x * 2, num_parallel_calls=2)
    iterator = iter(data.shuffle(4).batch(8).prefetch(3))
    for _ in range(20):
        next(iterator)
    found = {stage["name"]: stage for stage in pipeline.stages_of(pipeline._model_of(iterator))}
    assert list(found)[:2] == ["Root", "Prefetch"]
    assert found["Prefetch"]["buffer_size"] == 3
    assert 0 <= found["Prefetch"]["buffered"] <= 3
    assert found["Root"]["elements"] == 20
    assert capacity_of(found["ParallelMapV2"]) == 2
    assert found["ParallelMapV2"]["processing_ns"] > 0
    assert "buffered" not in found["Range"]
    assert SimpleNamespace(**found["Range"]).inputs == []


@pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
)
def test_examples_are_counted_in_batches_only() -> None:
    import tensorflow as tf

    rows = tf.data.Dataset.from_tensor_slices((tf.zeros((9, 5)), tf.zeros(9)))
    batches = rows.padded_batch(4).map(lambda x, y: (x + 1, y)).prefetch(1)
    assert pipeline.examples_in(batches, next(iter(batches))) == 4
    for data in (rows, batches.unbatch().prefetch(1)):
        assert pipeline.examples_in(data, next(iter(data))) is None
    with pytest.raises(ValueError, match="too many"):
        pipeline.examples_in(both := tf.data.Dataset.zip((rows, rows)), next(iter(both)))


@pytest.mark.framework
@pytest.mark.parametrize("tuned", [True, False])
def test_a_parallelism_may_be_chosen_by_tensorflow(tuned: bool) -> None:
    model_pb2 = pytest.importorskip("tensorflow.core.framework.model_pb2")
    model = model_pb2.ModelProto(output=1)
    model.nodes[1].id = 1
    model.nodes[1].parameters.add(name="parallelism", value=1, state_value=2, tunable=tuned)
    (stage,) = stages_of(model)
    assert (stage["parallelism"], stage["tuned"]) == (2 if tuned else 1, tuned)
