"""Stages of the input, from what was noted of them."""

from __future__ import annotations

import json

import pytest

from stepwhy.analyse.input.batch_size import batch_size
from stepwhy.read.formats.run_directory.pipeline_log import add_loaders, add_pipeline
from stepwhy.trace import NULL, Meta, TraceBuilder

STAGES = [
    {"id": 6, "name": "Root", "inputs": [5], "asynchronous": False, "elements": 9,
     "epochs": 3},
    {"id": 5, "name": "Prefetch", "inputs": [3], "asynchronous": True, "elements": 9,
     "processing_ns": 100, "buffered": 2, "buffer_size": 4},
    {"id": 3, "name": "Zip", "inputs": [1, 2], "asynchronous": False, "elements": 9},
    {"id": 1, "name": "Range", "inputs": [], "asynchronous": False, "elements": 9},
    {"id": 2, "name": "Range", "inputs": [], "asynchronous": False, "elements": 0,
     "parallelism": 1, "tuned": False, "random": True},
]  # fmt: skip


def read(add, content):
    builder = TraceBuilder()
    add(content, builder)
    return builder.finish(Meta("step-log"))


def test_stages_have_their_takers_and_what_is_known_of_them():
    data = json.dumps({"schema": "stepwhy.pipeline/1", "time_ns": 1, "stages": STAGES}).encode()
    trace = read(add_pipeline, data)
    stages = trace.stages
    names = [trace.string(n) for n in stages.name]
    assert names == ["Prefetch[5]", "Zip[3]", "Range[1]", "Range[2]"]
    assert [trace.string(t) for t in stages.consumer] == ["", "Prefetch[5]", "Zip[3]", "Zip[3]"]
    assert stages.buffered.tolist() == [1, 0, 0, 0]
    assert stages.buffer_size.tolist() == [4, NULL, NULL, NULL]
    assert stages.processing_ns.tolist() == [100, NULL, NULL, NULL]
    assert stages.elements.tolist() == [9, 9, 9, 0]
    assert stages.tuned.tolist() == [NULL, NULL, NULL, 0]
    assert stages.random.tolist() == [NULL, NULL, NULL, 1]
    assert stages.epochs.tolist() == [3, 3, 3, 3]


def test_loaders_are_one_stage_each():
    lines = [
        b'{"name":"Images","workers":4,"prefetch_factor":2,"batch_size":null,"time_ns":3}',
        b'{"name":"Images 2","workers":0,"prefetch_factor":null,"persistent_workers":false}',
        b'{"name":"torn',
    ]
    trace = read(add_loaders, lines)
    stages = trace.stages
    assert [trace.string(n) for n in stages.name] == ["Images", "Images 2"]
    assert stages.parallelism.tolist() == [4, 0]
    assert stages.buffer_size.tolist() == [8, 0]
    assert stages.buffered.tolist() == [1, 0]
    assert stages.persistent.tolist() == [NULL, 0]


def test_the_size_of_a_loaders_batches_is_an_event():
    lines = [
        b'{"name":"Images","workers":4,"prefetch_factor":2,"batch_size":16,"time_ns":3}',
        b'{"name":"Words","workers":0,"batch_size":null,"time_ns":4}',
    ]
    trace = read(add_loaders, lines)
    assert [trace.string(n) for n in trace.events.name] == ["Images"]
    assert trace.events.count.tolist() == [16]
    assert batch_size(trace) == 16


@pytest.mark.parametrize("data", [b"", b"{}", b'{"stages":[{"id":1}]}', b'{"stages":[', b"\xff"])
def test_a_damaged_file_adds_nothing(data):
    assert len(read(add_pipeline, data).stages) == 0


def test_a_loader_over_an_iterable_data_set_is_known():
    lines = [
        b'{"name":"Lines","time_ns":7,"sampler":"_InfiniteConstantSampler"}',
        b'{"name":"Images","time_ns":8,"sampler":"RandomSampler"}',
    ]
    trace = read(add_loaders, lines)
    assert [trace.string(name) for name in trace.events.name.tolist()] == ["Lines"]
    assert [trace.string(kind) for kind in trace.events.kind.tolist()] == ["iterable"]
