"""RunMetadata in chunks: they tell what the whole message does, whatever is damaged in it."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.tf_samples import CPU, graph, run_metadata, source_of, step_stats

from fuzz import seeds
from stepwhy.base.errors import InputError
from stepwhy.read.formats.run_metadata import reader as importer
from stepwhy.read.formats.run_metadata import step_stats as reader
from stepwhy.read.formats.run_metadata.step_stats import Chunks, DamagedError, Whole
from stepwhy.trace.schema import TABLES, columns_of

FILES = [files["run_metadata.pb"] for files in seeds.run_metadata()]
ENTRIES = [(f"x{i}", f"x{i} = Relu(x{i - 1})", i, 1, 300) for i in range(9)]
STATS = step_stats([(CPU, ENTRIES), ("/gpu:0", ENTRIES)]).SerializeToString()


def told(trace):
    """All that a trace holds, texts in place of their numbers, and its counters."""
    columns = {
        (table, c.name): [trace.string(v) for v in values] if c.unit == "string" else values
        for table in TABLES
        for c in columns_of(table)
        for values in [getattr(trace.table(table), c.name).tolist()]
    }
    return columns, trace.meta, trace.health.counters


def outcome(data):
    """What reading gives: all of the trace, or the error."""
    try:
        trace = importer.read(source_of(data))
    except InputError as error:
        return type(error), str(error)
    return trace if trace is None else told(trace)


def in_chunks_and_whole(data):
    with patch.object(reader, "_CHUNK", 64):
        chunks = outcome(data)
    with patch.object(importer, "Chunks", side_effect=DamagedError):
        return chunks, outcome(data)


@pytest.mark.parametrize("data", [*FILES, STATS])
def test_chunks_give_the_same_as_the_whole_message(data):
    chunks, whole = in_chunks_and_whole(data)
    assert chunks == whole


@settings(derandomize=True, max_examples=80, deadline=None)
@given(st.sampled_from([*FILES, STATS]), st.data())
def test_a_torn_file_tells_the_same_in_chunks(data, draw):
    chunks, whole = in_chunks_and_whole(data[: draw.draw(st.integers(0, len(data)))])
    assert chunks == whole


@settings(derandomize=True, max_examples=120, deadline=None)
@given(st.sampled_from([*FILES, STATS]), st.data())
def test_a_damaged_file_tells_the_same_in_chunks(data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        damaged[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
    chunks, whole = in_chunks_and_whole(bytes(damaged))
    assert chunks == whole


def test_a_device_is_read_in_several_chunks():
    with patch.object(reader, "_CHUNK", 64):
        (cpu, gpu) = Chunks("StepStats", STATS).devices()
        sizes = [len(chunk.node_stats) for chunk in cpu.chunks]
        names = [node.node_name for chunk in gpu.chunks for node in chunk.node_stats]
    assert (cpu.name, gpu.name) == (CPU.encode(), b"/gpu:0")
    assert len(sizes) > 3
    assert sum(sizes) == 9
    assert names == [f"x{i}".encode() for i in range(9)]


def test_a_graph_without_nodes_is_a_graph():
    message = run_metadata([], [graph()])
    assert len(Chunks("RunMetadata", message.SerializeToString()).graphs) == 1


def test_what_is_no_message_is_damaged():
    data = b"\x0a\x01\xff" + STATS
    with pytest.raises(DamagedError):
        Whole("StepStats", data)
    with pytest.raises(DamagedError):
        list(Chunks("StepStats", data).devices())
