"""Operation tables of pipeline-parallel jobs."""

import os
from pathlib import Path

import pytest
from tests.read.operation_table_samples import rows, table

from stepwhy.base.errors import CorruptInputError, EmptyInputError, TooLargeError
from stepwhy.engine.explain import explain
from stepwhy.read.formats.operation_table import reader
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import Kind, Phase
from stepwhy.trace.integrity import check
from stepwhy.trace.ranks import split_ranks

RECORDED = Path(os.environ.get("STEPWHY_TRACES", "."), "../straggler/trace-ST.parquet")
MS = 1_000_000


def read(data):
    trace, name = read_trace(Source(data, "table.parquet"))
    assert name == "operation-table"
    check(trace)
    return trace


def slices(trace):
    """(track, kind, name, phase, start and duration in ms) of every slice."""
    columns, tracks = trace.slices, trace.tracks
    return [
        (
            trace.string(tracks.name[columns.track[i]]),
            Kind(columns.kind[i]).name,
            trace.string(columns.name[i]),
            Phase(columns.phase[i]).name,
            round(int(columns.start_ns[i]) / MS),
            round(int(columns.dur_ns[i]) / MS),
        )
        for i in range(len(columns))
    ]


def test_operations_are_device_time_of_their_rank_and_steps_follow_each_other():
    ranks = split_ranks(read(table(rows())))
    assert [rank.meta.rank for rank in ranks] == [0, 1, 2, 3]
    assert {rank.meta.world_size for rank in ranks} == {4}
    found = slices(ranks[2])
    assert [s for s in found if s[1] == "STEP"] == [
        ("rank 2", "STEP", "step 7", "UNKNOWN", 0, 1600),
        ("rank 2", "STEP", "step 9", "UNKNOWN", 1600, 1600),
    ]
    assert sorted(s for s in found if s[1] != "STEP" and s[4] < 1600) == [
        ("backward-send", "COLLECTIVE", "backward-send", "COMMUNICATION", 1300, 100),
        ("compute", "KERNEL", "backward-compute", "BACKWARD", 700, 600),
        ("compute", "KERNEL", "forward-compute", "FORWARD", 400, 300),
        ("compute", "KERNEL", "optimizer", "OPTIMIZER", 1400, 200),
        ("forward-recv", "COLLECTIVE", "forward-recv", "COMMUNICATION", 100, 300),
        ("params-all-gather", "COLLECTIVE", "params-all-gather", "COMMUNICATION", 0, 100),
    ]
    assert ("rank 0", "PYTHON", "gc", "UNKNOWN", 1500, 0) in slices(ranks[0])


def test_the_report_names_the_longest_stage(tmp_path):
    path = tmp_path / "table.parquet"
    path.write_bytes(table(rows()))
    result = explain([str(tmp_path)])
    assert (result.run.ranks, result.steps.count) == (4, 2)
    assert round(result.steps.median_ns / MS) == 1600
    found = {f.id: f for f in result.findings}
    assert found["stage-imbalance"].evidence[0].where == "stage 1"


def test_unusable_rows_are_counted():
    whole = list(rows(steps=(1,)))
    bad = [
        (None, *whole[0][1:]),
        (-3, *whole[0][1:]),
        (*whole[0][:3], None, 0.0, 1.0),
        (*whole[0][:4], float("nan"), 1.0),
        (*whole[0][:4], 0.0, -1.0),
        (*whole[0][:4], 1e30, 1.0),
    ]
    trace = read(table_of_any(whole + bad))
    assert trace.health.events_read == len(whole) + len(bad)
    assert {c.counter: c.count for c in trace.health.counters} == {"unusable-operation": len(bad)}
    with pytest.raises(EmptyInputError, match="no operation"):
        read(table_of_any(bad))


def table_of_any(found):
    return table([(-1 if rank is None else rank, *rest) for rank, *rest in found])


def test_what_cannot_be_read_is_refused(monkeypatch):
    data = table(rows())
    with pytest.raises(CorruptInputError, match="whose end is missing"):
        read(data[:-20])
    torn = data[:4] + bytes(200) + data[204:]
    with pytest.raises(CorruptInputError, match="damaged Parquet table"):
        read(torn)
    monkeypatch.setattr(reader, "_MOST_RANKS", 3)
    with pytest.raises(TooLargeError, match="of 4 ranks"):
        read(data)


@pytest.mark.traces
@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded table beside STEPWHY_TRACES")
def test_a_recorded_job_agrees_with_what_was_published_about_it():
    """Rows, ranks, steps and step time; the last of four stages slows the step."""
    result = explain([str(RECORDED)])
    assert (result.inputs[0].events_kept, result.run.ranks, result.steps.count) == (6784, 8, 32)
    assert result.steps.median_ns / 1e9 == pytest.approx(2.213, abs=0.0005)
    found = {f.id: f for f in result.findings}
    assert found["stage-imbalance"].verdict == "found"
    assert found["stage-imbalance"].evidence[0].where == "stage 3"
    assert "rank 4, a typical one of the slowest of 8" in result.notes[0]
    # The ranks end the clipping of gradients together, within a millisecond, so it is an exchange.
    assert result.breakdown.phases["optimizer"] / 1e9 == pytest.approx(0.04, abs=0.003)
