"""Pipeline schedules of Primus, one file per rank."""

import os
from pathlib import Path

import pytest
from tests.read.pipeline_schedule_samples import FIRST, LAST, schedule, seeds

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.engine.explain import explain
from stepwhy.engine.opening import open_one
from stepwhy.read.inputs.source import Source
from stepwhy.read.registry import read_trace
from stepwhy.trace import Kind, Phase
from stepwhy.trace.integrity import check

RECORDED = Path(os.environ.get("STEPWHY_TRACES", "."), "../traces2/megatron/pp8")
MS = 1_000_000


def read(data):
    trace, name = read_trace(Source(data, "schedule.json"))
    assert name == "pipeline-schedule"
    check(trace)
    return trace


def slices(trace):
    """(track, kind, phase, start and duration in ms) of every slice."""
    columns, tracks = trace.slices, trace.tracks
    return [
        (
            trace.string(tracks.name[columns.track[i]]),
            Kind(columns.kind[i]).name,
            Phase(columns.phase[i]).name,
            int(columns.start_ns[i]) / MS,
            int(columns.dur_ns[i]) / MS,
        )
        for i in range(len(columns))
    ]


def test_passes_compute_and_the_time_between_them_is_a_wait():
    assert sorted(slices(read(schedule(FIRST, LAST))), key=lambda s: (s[3], s[0])) == [
        ("compute", "KERNEL", "FORWARD", 0, 10),
        ("rank", "STEP", "UNKNOWN", 0, 100.5),
        ("compute", "KERNEL", "FORWARD", 10, 10),
        ("pipeline", "WAIT", "UNKNOWN", 20, 20),
        ("compute", "KERNEL", "BACKWARD", 40, 20),
        ("pipeline", "WAIT", "UNKNOWN", 60, 20),
        ("compute", "KERNEL", "BACKWARD", 80, 20),
        ("pipeline", "WAIT", "UNKNOWN", 100.5, 15),
        ("rank", "STEP", "UNKNOWN", 100.5, 90),
        ("compute", "KERNEL", "FORWARD", 115.5, 10),
        ("compute", "KERNEL", "BACKWARD", 125.5, 10),
        ("compute", "KERNEL", "BACKWARD", 135.5, 3),
        ("pipeline", "WAIT", "UNKNOWN", 138.5, 2),
        ("compute", "KERNEL", "FORWARD", 140.5, 10),
        ("compute", "KERNEL", "BACKWARD", 150.5, 10),
        ("compute", "KERNEL", "BACKWARD", 160.5, 10),
    ]


def test_the_files_of_a_folder_are_the_ranks_of_one_job(tmp_path):
    for files in seeds():
        for name, data in files.items():
            (tmp_path / name).write_bytes(data)
    result = explain([str(tmp_path)])
    assert (result.run.ranks, result.run.world_size) == (2, 2)
    assert result.verdict.bound_by == "communication"
    assert any("config.json" in note for note in result.notes)


# Two forward passes before the first backward pass: rank 0 of two, or rank 1 of three.
AHEAD = {
    "total": 90,
    "fwd_start": [0, 10, 50], "fwd_end": [10, 20, 60],
    "bwd_start": [30, 60, 80], "bwd_end": [50, 80, 90],
}  # fmt: skip


@pytest.mark.parametrize(
    ("rank", "iterations", "stages"),
    [
        (0, [AHEAD, AHEAD], 2),
        (1, [AHEAD], 3),
        (0, [{**AHEAD, "wgrad_start": [85], "wgrad_end": [88]}], 1),
        (0, [{**AHEAD, "bwd_start": [60, 70, 80], "bwd_end": [70, 80, 90]}], 1),
    ],
    ids=["rank-0", "rank-1", "split-backward", "all-forward-first"],
)
def test_the_number_of_stages_follows_from_the_schedule(tmp_path, rank, iterations, stages):
    file = tmp_path / f"pp_rank_{rank}.json"
    file.write_bytes(schedule(*iterations))
    meta = open_one(str(file)).trace.meta
    assert len(meta.stages) == stages
    assert any("is inferred from" in note for note in meta.notes) == (stages > 1)


def test_unusable_passes_are_counted():
    bad = {**FIRST, "fwd_start": [-1, 10], "bwd_end": [1, 1e12]}
    trace = read(schedule(FIRST, bad, {**FIRST, "total": 0}))
    assert (trace.health.events_read, trace.health.events_kept) == (12, 5)
    assert {c.counter: c.count for c in trace.health.counters} == {"unusable-pass": 7}
    with pytest.raises(EmptyInputError, match="no pass"):
        read(schedule({**FIRST, "total": -1}))


def test_damage_is_a_typed_error():
    with pytest.raises(CorruptInputError, match="damaged pipeline schedule"):
        read(schedule(FIRST)[:-5])
    with pytest.raises(CorruptInputError, match="damaged pipeline schedule"):
        read(schedule({**FIRST, "fwd_end": ["late"]}))


@pytest.mark.traces
@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded schedule beside STEPWHY_TRACES")
def test_a_recorded_schedule_waits_for_its_pipeline():
    """Length of the iterations, computation and idle share as measured independently."""
    result = explain([str(RECORDED / "pp_rank_0.json")])
    first, second = result.steps.durations_ns[:2]
    assert (round(first / MS, 1), round(second / MS, 1)) == (7557.0, 3193.6)
    assert result.steps.count == 20
    wall, categories = result.breakdown.wall_ns, result.breakdown.categories
    assert categories["compute"] / MS == pytest.approx(2067.7, rel=0.01)
    assert categories["communication"] / wall == pytest.approx(0.36, abs=0.005)
    assert explain([str(RECORDED)]).run.ranks == 8
