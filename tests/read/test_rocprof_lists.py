"""Results of rocprofv3 in chunks: they tell what the whole document does, whatever is damaged."""

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.rocprof_samples import copy, kernel, process, record, results

from fuzz import seeds
from stepwhy.base.errors import StepwhyError
from stepwhy.read.formats.rocprof import lists
from stepwhy.read.formats.rocprof import reader as rocprof
from stepwhy.read.formats.rocprof.lists import IrregularError, read_lists
from stepwhy.read.inputs.source import Source
from stepwhy.trace.schema import TABLES, columns_of

MANY = process({
    "kernel_dispatch": [kernel(n % 4, 100 * n, 80, stream=n // 20) for n in range(30)],
    "hip_api": [record("hipLaunchKernel", 90 * n, 9, n) for n in range(30)],
    "hsa_api": [],
    "memory_copy": [copy("HOST_TO_DEVICE", 10, 30, 37944, 37946)],
    "marker_api": [record("roctxRangePushA", 50 * n, 40, n) for n in range(9)],
    "scratch_memory": [{"kind": 3}],
})  # fmt: skip
FILES = [*(data for _, data in seeds.rocprof()), results(MANY, MANY)]


def outcome(data):
    """What reading gives: all of the trace, or the error."""
    try:
        trace = rocprof.read(Source(data, "sample"))
    except StepwhyError as error:
        return type(error), str(error)
    columns = {
        (table, c.name): [trace.string(v) for v in values] if c.unit == "string" else values
        for table in TABLES
        for c in columns_of(table)
        for values in [getattr(trace.table(table), c.name).tolist()]
    }
    health = trace.health
    return columns, trace.meta, health.counters, health.events_read, health.events_kept


def in_chunks_and_whole(data):
    with patch.object(lists, "_CHUNK", 700):
        chunks = outcome(data)
    with patch.object(rocprof, "read_lists", side_effect=IrregularError):
        return chunks, outcome(data)


@pytest.mark.parametrize("data", FILES)
def test_chunks_give_the_same_as_the_whole_document(data):
    chunks, whole = in_chunks_and_whole(data)
    assert chunks == whole


@settings(derandomize=True, max_examples=120, deadline=None)
@given(st.sampled_from(FILES), st.data())
def test_a_damaged_file_tells_the_same_in_chunks(data, draw):
    """Or a torn one."""
    damaged = bytearray(data[: draw.draw(st.integers(len(data) // 2, 2 * len(data)))])
    for _ in range(draw.draw(st.integers(0, 3))):
        damaged[draw.draw(st.integers(0, len(damaged) - 1))] = draw.draw(st.integers(0, 255))
    chunks, whole = in_chunks_and_whole(bytes(damaged))
    assert chunks == whole


def test_a_list_is_read_in_several_chunks():
    with patch.object(lists, "_CHUNK", 700):
        (first, _) = read_lists(Source(results(MANY, MANY), "sample")).processes
    sizes = [len(records) for records in first.buffers["kernel_dispatch"]]
    assert len(sizes) > 3
    assert sum(sizes) == 30
    assert first.buffers["kernel_dispatch"].has_streams()
    assert not first.buffers["hip_api"].has_streams()


@pytest.mark.parametrize(
    "value", ["7", '"x"', '{"a": 1}', "[1, 2", "[{}, 2]", '[{"stream_id": 1}]']
)
def test_other_values_than_lists_of_records_are_left_to_the_whole_document(value):
    data = results(process({"hip_api": []})).replace(
        b'"hip_api": []', b'"hip_api": ' + value.encode()
    )
    with pytest.raises(IrregularError):
        read_lists(Source(data, "sample"))
