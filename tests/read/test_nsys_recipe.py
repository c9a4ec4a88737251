"""Tables of the Nsight Systems recipe for projected NVTX ranges."""

import os
from pathlib import Path

import pytest
from tests.read.nsys_recipe_samples import MS, OTHER, seeds, steps, table

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.engine.explain import explain
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import Kind, Phase
from stepwhy.trace.integrity import check
from stepwhy.trace.ranks import split_ranks

RECORDED = Path(
    os.environ.get("STEPWHY_TRACES", "."), "../traces2/jax/maxtext_fsdp4_h100.trace.parquet"
)


def read(data):
    trace, name = read_trace(Source(data, "trace.parquet"))
    assert name == "nsys-recipe"
    check(trace)
    return trace


def slices(trace):
    """(device, track, kind, name, phase, start and duration in ms) of every slice."""
    columns, tracks, devices = trace.slices, trace.tracks, trace.devices
    return [
        (
            trace.string(devices.name[tracks.device[columns.track[i]]])
            if tracks.device[columns.track[i]] >= 0
            else "",
            trace.string(tracks.name[columns.track[i]]),
            Kind(columns.kind[i]).name,
            trace.string(columns.name[i]),
            Phase(columns.phase[i]).name,
            int(columns.start_ns[i]) / MS,
            int(columns.dur_ns[i]) / MS,
        )
        for i in range(len(columns))
    ]


def test_innermost_ranges_are_operations_of_the_gpu_of_their_thread():
    first = [s[1:] for s in slices(read(seeds()[0][1])) if s[0] == "GPU:0" and s[5] < 100]
    assert sorted(s for s in first if s[1] != "DEVICE_ANNOTATION") == [
        ("communication", "COLLECTIVE", "all-gather-start", "COMMUNICATION", 60, 20),
        ("compute", "KERNEL", "copy", "UNKNOWN", 85, 5),
        ("compute", "KERNEL", "gemm", "BACKWARD", 30, 40),
        ("compute", "KERNEL", "loop_fusion", "FORWARD", 0, 30),
    ]
    assert {s[2] for s in first if s[1] == "DEVICE_ANNOTATION"} >= {"while", "NCCL:ncclGroupEnd"}


def test_each_run_of_the_program_on_all_gpus_is_a_step():
    found = [s[3:] for s in slices(read(seeds()[0][1])) if s[2] == "STEP"]
    assert found == [
        ("train_step 0", "UNKNOWN", 0, 91),
        ("train_step 1", "UNKNOWN", 100, 91),
        ("train_step 2", "UNKNOWN", 200, 91),
    ]


def test_reports_of_several_ranks_are_ranks():
    ranks = split_ranks(read(table([*steps(), *steps(rank=1, threads=(5,))])))
    assert [rank.meta.rank for rank in ranks] == [0, 1]
    assert [len(rank.devices) for rank in ranks] == [2, 1]


def test_what_was_left_out_is_counted():
    trace = read(table([*steps(), (OTHER, 0, MS, 7, 1, True, None, 0), *unusable()]))
    assert {c.counter: c.count for c in trace.health.counters} == {
        "range-of-other-thread": 1,
        "range-without-gpu": 4,
    }
    with pytest.raises(EmptyInputError, match="no range that used a GPU"):
        read(table(list(unusable())))


def unusable():
    """Rows without a name, a time, a thread or work on a GPU."""
    yield None, 0, MS, 3, 1, False, None, 0
    yield "x", -5, MS, 3, 1, False, None, 0
    yield "x", 0, MS, None, 1, False, None, 0
    yield "x", 0, MS, 3, 0, False, None, 0


def test_damage_is_a_typed_error():
    data = seeds()[0][1]
    with pytest.raises(CorruptInputError, match="damaged Parquet table"):
        read(data[:4] + bytes(300) + data[304:])


@pytest.mark.traces
@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded table beside STEPWHY_TRACES")
def test_a_recorded_table_has_the_steps_that_were_measured():
    result = explain([str(RECORDED)])
    assert (result.inputs[0].events_read, len(result.devices)) == (21493, 4)
    durations_ms = [ns / MS for ns in result.steps.durations_ns]
    assert durations_ms == pytest.approx([2478.3, 122.8, 130.1, 125.4, 120.1], rel=0.002)
    assert result.steps.warm_up == 1
    assert result.breakdown.categories["compute"] > 0.95 * result.breakdown.wall_ns
