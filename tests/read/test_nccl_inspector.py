"""Read files of NCCL Inspector."""

from pathlib import Path

import pytest
from tests.read.nccl_inspector_samples import lines, record, seeds

from stepwhy.base.errors import CorruptInputError
from stepwhy.engine.explain import explain
from stepwhy.read.formats.nccl_inspector import reader
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import NULL


def read(data):
    return reader.read(Source(data, "node.log", Path("node.log")))


def test_the_collectives_of_a_rank():
    verbose = {"event_trace_ts": {"coll_start_ts": 1_752_867_229_235_059}}
    trace = read(lines(record(1, 7), record(1, 8, 4.5, **verbose)))
    calls = trace.collective_calls
    assert (trace.meta.format, trace.meta.rank, trace.meta.world_size) == ("nccl-inspector", 1, 2)
    assert calls.of_rank.tolist() == [1, 1]
    assert calls.sequence.tolist() == [7, 8]
    assert calls.dur_ns.tolist() == [900_000, 4_500]
    assert calls.entered_ns.tolist() == [NULL, 1_752_867_229_235_059_000]
    assert calls.elements.tolist() == [4096, 4096]
    assert trace.string(int(calls.operation[0])) == "AllReduce"


def test_files_are_recognised():
    for files in seeds():
        for name, data in files.items():
            assert read_trace(Source(data, name))[1] == "nccl-inspector"


def test_a_mismatch_is_found_and_a_hang_cannot_be(tmp_path):
    (tmp_path / "a.log").write_bytes(lines(record(0, 1), record(0, 2)))
    (tmp_path / "b.log").write_bytes(lines(record(1, 1), record(1, 2, coll="AllGather")))
    result = explain([str(tmp_path)])
    assert result.run.ending == "Rank 1 called AllGather 2, where rank 0 called AllReduce."
    hung = next(f for f in result.findings if f.id == "hung-collective")
    assert (hung.verdict, hung.abstention.missing) == ("incomplete", ("open-collectives",))


def test_damaged_lines_are_left_out_and_counted():
    bad = [record(0, -1), record(5, 1), record(0, 2, -3.0), {"header": {}}]
    trace = read(lines(record(0, 1), *bad, record(0, 9)) + b'{"header": {"id"')
    assert trace.collective_calls.sequence.tolist() == [1, 9]
    assert {c.counter: c.count for c in trace.health.counters} == {"damaged-line": 5}


def test_a_collective_that_is_there_twice_counts_once():
    trace = read(lines(record(0, 1), record(0, 2)) * 2)
    assert trace.collective_calls.sequence.tolist() == [1, 2]
    assert {c.counter: c.count for c in trace.health.counters} == {"repeated-call": 2}


def test_a_file_without_a_usable_line_is_an_error():
    with pytest.raises(CorruptInputError, match="no usable collective"):
        read(lines(record(0, -1)))


def test_of_very_many_the_newest_are_kept(monkeypatch):
    monkeypatch.setattr(reader, "_MOST_CALLS", 3)
    trace = read(lines(*(record(0, n) for n in range(5))))
    assert trace.collective_calls.sequence.tolist() == [2, 3, 4]
    assert trace.health.dropped == 2
