"""rocprofv3 and MegaScan traces of other people's runs, against facts measured independently.

The folder named by STEPWHY_TRACES holds them and `FACTS.json`; they are no part of the package.
"""

import functools
import json
import os
from pathlib import Path

import pytest

from stepwhy.analyse.facts import Facts
from stepwhy.engine.explain import explain
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.registry import read_trace
from stepwhy.trace import Kind
from stepwhy.trace.integrity import check
from stepwhy.trace.ranks import split_ranks

TRACES = os.environ.get("STEPWHY_TRACES")
pytestmark = [
    pytest.mark.traces,
    pytest.mark.skipif(not TRACES, reason="STEPWHY_TRACES names no folder of traces"),
]

TOLERANCE = 0.01
ROUNDING_MS = 0.001  # the facts are written with three decimals

ROCPROF = "other/rocprofv3_mi350_train_results.json.gz"
AGGREGATED = "megatron/pp4_aggregated.json"
RANKS = [f"megatron/pp4_rank{rank}_raw.json" for rank in range(4)]

# The expert's primary cause is a pipeline bubble: stages that wait for each other. Waiting for
# another process is communication in a breakdown.
BOUND_BY = {"communication": "communication", "pipeline_bubble": "communication"}


@functools.cache
def measured(name):
    return json.loads(Path(TRACES, "FACTS.json").read_text())[name]


@functools.cache
def trace_of(name):
    return read_trace(read_source(Path(TRACES, name)))[0]


@functools.cache
def explained(*names):
    return explain([str(Path(TRACES, n)) for n in names])


def agrees(ours_ns, theirs_ms):
    return ours_ns / 1e6 == pytest.approx(theirs_ms, rel=TOLERANCE, abs=ROUNDING_MS)


@pytest.mark.parametrize("name", [ROCPROF, AGGREGATED, *RANKS])
def test_records_are_kept_or_counted_and_every_step_is_closed(name):
    trace = trace_of(name)
    check(trace)
    expected = measured(name).get("n_events") or measured(name)["kernels"]
    assert trace.health.events_read == expected
    for facts in map(Facts, split_ranks(trace)):
        assert (facts.per_step.sum(axis=1) == facts.steps.durations_ns).all()
        assert (facts.per_step >= 0).all()
        assert sum(facts.breakdown.values()) == facts.wall_ns


@pytest.mark.parametrize("name", [ROCPROF, AGGREGATED])
def test_the_verdict_is_the_experts(name):
    result = explained(name)
    assert result.verdict.bound_by == BOUND_BY[measured(name)["expert"]["primary"]]


# --- rocprofv3 ---------------------------------------------------------------------------------


def test_totals_of_the_gpu():
    (theirs,) = measured(ROCPROF)["gpu"].values()
    (ours,) = explained(ROCPROF).trace.devices
    trace = trace_of(ROCPROF)
    blits = trace.is_kind(Kind.MEMCPY, Kind.MEMSET).sum()  # which others count as kernels
    assert ours.kernels + blits == theirs["kernels"] == measured(ROCPROF)["kernels"]
    assert agrees(ours.busy_ns, theirs["busy_ms"])
    assert agrees(ours.communication_ns, theirs["comm_ms"])
    assert agrees(ours.exposed_communication_ns, theirs["exposed_comm_ms"])
    assert agrees(explained(ROCPROF).trace.span_ns, theirs["span_ms"])


def test_the_kernels_that_take_longest():
    (theirs,) = measured(ROCPROF)["gpu"].values()
    trace = trace_of(ROCPROF)
    names = [trace.string(i) for i in trace.slices.name]
    for top in theirs["top_kernels"]:
        own = [i for i, n in enumerate(names) if kernel(n) == top["name"]]
        assert len(own) == top["count"]
        assert agrees(int(trace.slices.dur_ns[own].sum()), top["total_ms"])


def kernel(name):
    """A kernel's own name, without return type, namespaces and arguments."""
    plain = name.replace("(anonymous namespace)::", "")
    return plain.partition("<")[0].partition("(")[0].rpartition(" ")[2].rpartition("::")[2]


def test_the_fifty_steps_that_the_command_asked_for_are_told_by_the_kernels():
    facts = Facts(trace_of(ROCPROF))
    assert (facts.steps.source, len(facts.steps.starts)) == ("periodicity", 50)
    assert facts.steps.warm_up == 1  # five seconds of set-up
    assert facts.share("communication") > 0.5


def test_nothing_private_of_the_file_shows():
    trace = trace_of(ROCPROF)
    shown = "\n".join([*trace.strings, repr(trace.meta), repr(trace.health.counters)])
    assert [t for t in ("smci350", "/workspace", "train.py", "908/") if t in shown] == []


# --- MegaScan ----------------------------------------------------------------------------------


def test_busy_time_and_bubble_of_every_rank():
    theirs, ours = measured(AGGREGATED), explained(AGGREGATED)
    assert agrees(ours.trace.span_ns, theirs["span_ms"])
    by_rank = dict(zip(theirs["ranks"], ours.trace.devices, strict=True))
    for rank, device in by_rank.items():
        assert device.name == f"rank {rank} GPU"
        assert agrees(device.busy_ns, theirs["ranks"][rank]["busy_ms"])
        bubble = 100 * (1 - device.busy_ns / ours.trace.span_ns)
        assert bubble == pytest.approx(theirs["ranks"][rank]["bubble_pct"], rel=TOLERANCE)
        assert (device.kernels, device.kernel_ns) == (None, None)


def test_the_passes_of_every_rank():
    for rank, trace in enumerate(split_ranks(trace_of(AGGREGATED))):
        names = [trace.string(i) for i in trace.slices.name]
        for name, theirs in measured(AGGREGATED)["ranks"][str(rank)]["ops"].items():
            own = [i for i, n in enumerate(names) if n == name]
            assert len(own) == theirs["count"]
            assert agrees(int(trace.slices.dur_ns[own].sum()), theirs["sum_ms"])


def test_iterations_of_all_ranks():
    theirs, ours = measured(AGGREGATED), explained(AGGREGATED)
    assert (ours.steps.count, ours.steps.source) == (theirs["iterations"], "marker")
    assert agrees(ours.steps.median_ns, theirs["iteration_ms"]["median"])
    assert agrees(ours.steps.durations_ns[0], theirs["first_iteration_ms"])
    assert ours.steps.warm_up == 1
    assert ours.run.ranks == len(theirs["ranks"])


@pytest.mark.parametrize("name", RANKS)
def test_iterations_of_one_rank(name):
    theirs, ours = measured(name)["iteration_wall_ms"], explained(name)
    assert (ours.steps.count, ours.steps.source) == (theirs["n"], "marker")
    assert agrees(ours.steps.median_ns, theirs["median"])
    assert agrees(sum(ours.steps.durations_ns), theirs["mean"] * theirs["n"])
    assert agrees(max(ours.steps.durations_ns), theirs["max"])


def test_raw_files_of_all_ranks_are_one_run_and_as_busy_as_when_aggregated():
    raw, joined = explained(*RANKS), explained(AGGREGATED)
    assert raw.run.ranks == 4
    pairs = zip(raw.trace.devices, joined.trace.devices, strict=True)
    assert all(a.busy_ns == pytest.approx(b.busy_ns, rel=TOLERANCE) for a, b in pairs)
    assert raw.verdict.bound_by == joined.verdict.bound_by


def test_the_report_covers_a_typical_stage_and_names_the_longest_one():
    result = explained(AGGREGATED)
    busy = [d.busy_ns for d in result.devices]
    assert busy.index(max(busy)) == 3  # the last stage, which has the loss, too
    assert "The report covers rank 0, a typical one of the slowest" in result.notes[0]
    assert result.findings[0].id == "stage-imbalance"
    assert result.findings[0].evidence[0].where == "stage 3"
