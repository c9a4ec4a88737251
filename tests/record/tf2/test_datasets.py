"""Stages of a data set as the program wrote them."""

from __future__ import annotations

import importlib.util
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.record.tf2.datasets import completed, made_at, written_stages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.forks import Forks


def graph(*ops: str, nested: tuple[str, ...] = ()) -> Any:
    nodes, inner = ([SimpleNamespace(op=op) for op in kinds] for kinds in (ops, nested))
    library = SimpleNamespace(function=[SimpleNamespace(node_def=inner)])
    definition = SimpleNamespace(node=nodes, library=library)
    defined = SimpleNamespace(as_graph_def=lambda **_: definition)
    return SimpleNamespace(function=SimpleNamespace(graph=defined))


def dataset(name: str, *inputs: Any, function: Any = None) -> Any:
    functions = [function] if function else []
    about = {"_inputs": lambda _: list(inputs), "_functions": lambda _: functions}
    return type(name, (), about)()


@pytest.mark.parametrize(
    ("function", "random"),
    [
        (graph("DecodeJpeg", "Mul"), {"random": False}),
        (graph("Placeholder", "RandomUniform"), {"random": True}),
        (graph("StatelessRandomUniformV2"), {"random": True}),
        (graph("While", nested=("TruncatedNormal",)), {"random": True}),
        (graph("EagerPyFunc"), {}),
        (None, {}),
    ],
)
def test_whether_a_function_draws_random_numbers(function: Any, random: dict[str, bool]) -> None:
    mapped = dataset("_ParallelMapDataset", dataset("_RangeDataset"), function=function)
    assert written_stages(mapped) == [{"name": "ParallelMap", **random}, {"name": "Range"}]


def test_options_are_no_stage_and_several_inputs_end_the_chain() -> None:
    zipped = dataset("_ZipDataset", dataset("_RangeDataset"), dataset("_RangeDataset"))
    assert written_stages(dataset("_OptionsDataset", zipped)) == [{"name": "Zip"}]


def model(*names: str) -> list[dict[str, Any]]:
    inputs = [[number + 1] for number in range(1, len(names))]
    return [
        {"id": number, "name": name, "inputs": source}
        for number, (name, source) in enumerate(zip(names, [*inputs, []], strict=True), 1)
    ]


WRITTEN: list[dict[str, Any]] = [
    {"name": "Prefetch"},
    {"name": "Batch"},
    {"name": "ParallelMap", "random": True},
    {"name": "Shuffle"},
    {"name": "ParallelMap", "random": False},
    {"name": "TensorSlice"},
]


def chain(stages: list[dict[str, Any]]) -> list[tuple[str, list[int], bool | None]]:
    return [(stage["name"], stage["inputs"], stage.get("random")) for stage in stages]


def test_stages_that_have_ended_follow_those_of_the_model() -> None:
    found = completed(model("Root", "Prefetch", "MapAndBatch", "Shuffle"), WRITTEN)
    assert chain(found) == [
        ("Root", [2], None),
        ("Prefetch", [3], None),
        ("MapAndBatch", [4], True),
        ("Shuffle", [5], None),
        ("ParallelMap", [6], False),
        ("TensorSlice", [], None),
    ]


def test_a_stage_that_tensorflow_adds_is_passed_over() -> None:
    found = completed(model("Root", "Prefetch", "FiniteTake", "MemoryCache"), [
        {"name": "Take"}, {"name": "Cache"}, {"name": "Range"},
    ])  # fmt: skip
    assert chain(found)[-2:] == [("MemoryCache", [5], None), ("Range", [], None)]


def test_a_whole_model_stays_as_it_is() -> None:
    names = ("Prefetch", "MapAndBatch", "Shuffle", "ParallelMapV2", "TensorSlice")
    assert chain(completed(model(*names), WRITTEN))[-2:] == [
        ("ParallelMapV2", [5], False),
        ("TensorSlice", [], None),
    ]


@pytest.mark.parametrize("written", [[], [{"name": "Batch"}, {"name": "Range"}]])
def test_nothing_is_added_where_the_last_stage_is_not_found(written: list[dict[str, Any]]) -> None:
    stages = model("Prefetch", "Shuffle")
    assert completed(stages, written) == stages


def test_a_pipeline_with_branches_stays_as_it_is() -> None:
    stages = [
        {"id": 1, "name": "Zip", "inputs": [2, 3]},
        {"id": 2, "name": "Range", "inputs": []},
        {"id": 3, "name": "Range", "inputs": []},
    ]
    assert completed(stages, WRITTEN) == stages
    assert completed([], WRITTEN) == []


PROGRAM = """
import json, tensorflow as tf
from stepwhy.record.tf2.datasets import completed, made_at, written_stages
from stepwhy.record.tf2.pipeline import _model_of, stages_of
random = lambda x: tf.cast(x, tf.float32) + tf.random.uniform([])
dataset = tf.data.Dataset.range(40).map(lambda x: 2 * x, tf.data.AUTOTUNE).cache().shuffle(40)
dataset = dataset.map(random, tf.data.AUTOTUNE).batch(4).prefetch(2)
iterator = iter(dataset)
next(iterator)
stages = completed(stages_of(_model_of(iterator)), written_stages(iterator._dataset))
print(json.dumps([[stage["name"], stage.get("random")] for stage in stages]))
"""


@pytest.mark.framework
@pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="no tensorflow")
def test_stages_of_tensorflow(tmp_path: Path, forks: Callable[[str], Forks]) -> None:
    shown = forks("tensorflow").check_output(PROGRAM, tmp_path)
    stages = json.loads(shown.splitlines()[-1])
    after_shuffle = stages[[name for name, _ in stages].index("Shuffle") :]
    assert [name for name, _ in after_shuffle] == ["Shuffle", "Cache", "ParallelMap", "Range"]
    assert dict(map(tuple, after_shuffle))["ParallelMap"] is False
    assert [random for name, random in stages if name.startswith("MapAndBatch")] == [True]


def test_a_stage_has_the_line_that_made_it() -> None:
    source = dataset("_RangeDataset")
    mapped = dataset("_ParallelMapDataset", source)
    made_at(source, "train.py(3): main")
    made_at(mapped, "")
    assert written_stages(mapped) == [
        {"name": "ParallelMap"},
        {"name": "Range", "line": "train.py(3): main"},
    ]


def test_a_call_that_is_fused_with_batches_has_the_line_of_the_call() -> None:
    written = [
        {"name": "Batch", "line": "a.py(2): f"},
        {"name": "ParallelMap", "line": "a.py(1): f"},
    ]
    assert [s.get("line") for s in completed(model("MapAndBatch"), written)] == ["a.py(1): f"]


def test_stages_in_branches_have_the_line_of_their_kind_if_it_is_one() -> None:
    for line in ("a.py(1): f", "a.py(2): f"):
        made_at(dataset("_OnceTwiceDataset"), line)
    made_at(dataset("_OnceOnlyDataset"), "a.py(3): f")
    stages = [
        {"id": 1, "name": "Interleave", "inputs": [2, 3, 4]},
        {"id": 2, "name": "ParallelMapV2", "inputs": []},
        {"id": 3, "name": "OnceTwice", "inputs": []},
        {"id": 4, "name": "OnceOnly", "inputs": []},
    ]
    written = [{"name": "Interleave"}, {"name": "ParallelMap", "line": "b.py(7): g"}]
    lines = [stage.get("line") for stage in completed(stages, written)]
    assert lines == [None, "b.py(7): g", None, "a.py(3): f"]
