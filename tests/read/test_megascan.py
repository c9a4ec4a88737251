"""MegaScan traces: raw and aggregated, nested ranges, and what becomes of damaged files."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.megascan_samples import MS, aggregated, raw

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError, StepwhyError
from stepwhy.engine.explain import explain
from stepwhy.read.formats.megascan import reader as megascan
from stepwhy.read.formats.megascan.iterations import NOT_RECORDED
from stepwhy.read.formats.megascan.ranges import Ranges, add_ranges
from stepwhy.read.inputs.source import Source
from stepwhy.trace import NULL, DeviceKind, Kind, Meta, Phase, TraceBuilder
from stepwhy.trace.integrity import check
from stepwhy.trace.ranks import split_ranks


def read(data):
    source = Source(data, "sample")
    assert megascan.recognise(source)
    trace = megascan.read(source)
    check(trace)
    return trace


def slices(trace):
    """(track, kind, name, phase, start and duration in ms) of every slice."""
    return [
        (
            trace.string(trace.tracks.name[trace.slices.track[i]]),
            Kind(trace.slices.kind[i]).name,
            trace.string(trace.slices.name[i]),
            Phase(trace.slices.phase[i]).name,
            int(trace.slices.start_ns[i]) / MS,
            int(trace.slices.dur_ns[i]) / MS,
        )
        for i in range(len(trace.slices))
    ]


def counters(trace):
    return {c.counter: c.count for c in trace.health.counters}


# Of every 100 ms: forward 20, backward 30.
PASSES = [("forward", 1, 21), ("backward", 50, 80)]


def test_iterations_follow_each_other_by_their_wall_time_and_the_pause_before():
    trace = read(raw((0, 100, PASSES), (5, 90, PASSES)))
    assert [s for s in slices(trace) if s[1] == "STEP"] == [
        ("rank 0", "STEP", "iteration 0", "UNKNOWN", 0, 100),
        ("rank 0", "STEP", "iteration 1", "UNKNOWN", 105, 90),
    ]
    assert [s for s in slices(trace) if s[1] == "KERNEL"] == [
        ("stream 0", "KERNEL", "forward", "FORWARD", 1, 20),
        ("stream 0", "KERNEL", "backward", "BACKWARD", 50, 30),
        ("stream 0", "KERNEL", "forward", "FORWARD", 106, 20),
        ("stream 0", "KERNEL", "backward", "BACKWARD", 155, 30),
    ]
    assert trace.health.events_read == trace.health.events_kept == 12
    assert trace.meta.rank == 0


def test_without_a_pipeline_gaps_between_passes_have_no_cause():
    facts = Facts(read(raw(*[(0, 100, PASSES)] * 3)))
    assert facts.breakdown["compute"] == 50 * MS
    assert facts.breakdown["unexplained"] == 50 * MS
    assert facts.steps.durations_ns.tolist() == [100 * MS] * 3


def test_the_gaps_of_a_pipeline_stage_are_waits_for_other_stages():
    trace = read(raw((0, 100, PASSES), rank=2))
    waits = [s[1:] for s in slices(trace) if s[0] == "pipeline"]
    assert waits == [
        ("WAIT", NOT_RECORDED, "UNKNOWN", 0, 1),
        ("WAIT", NOT_RECORDED, "UNKNOWN", 21, 29),
    ]
    facts = Facts(trace)
    assert facts.breakdown["compute"] == 50 * MS
    assert facts.breakdown["communication"] == 30 * MS
    assert facts.breakdown["unexplained"] == 20 * MS  # the weights are updated there, perhaps
    assert trace.meta.rank == 2
    verdict = decide(facts)
    assert verdict.bound_by == "communication"
    assert verdict.confidence < 0.5  # it rests on a guess, and says so
    assert any("A host that launches too late" in note for note in trace.meta.notes)


def test_the_first_stage_does_not_wait_before_its_first_pass():
    chunks = [("forward", 1, 21, 0, 0), ("forward", 30, 40, 0, 1)]
    trace = read(raw((0, 100, chunks)))
    assert [s[4:] for s in slices(trace) if s[0] == "pipeline"] == [(21, 9)]


def test_recorded_exchanges_need_no_guess():
    ranges = [("recv-forward", 0, 10), ("forward", 10, 40), ("send_forward", 40, 45)]
    trace = read(raw((0, 100, ranges), rank=1))
    assert [s[1:4] for s in slices(trace) if s[0] == "stream 0"] == [
        ("COLLECTIVE", "recv-forward", "COMMUNICATION"),
        ("KERNEL", "forward", "FORWARD"),
        ("COLLECTIVE", "send_forward", "COMMUNICATION"),
    ]
    facts = Facts(trace)
    assert facts.breakdown["communication"] == 15 * MS
    assert facts.breakdown["unexplained"] == 55 * MS


def test_an_exchange_inside_of_a_pass_is_no_computation():
    ranges = [
        ("forward", 0, 50),
        ("transformer_layer_1", 5, 40),
        ("_reduce", 10, 20),
        ("optimizer", 60, 70),
    ]
    trace = read(raw((0, 100, ranges)))
    assert [s[1:] for s in slices(trace) if s[0] == "stream 0"] == [
        ("DEVICE_ANNOTATION", "forward", "UNKNOWN", 0, 50),
        ("KERNEL", "forward", "FORWARD", 0, 5),
        ("DEVICE_ANNOTATION", "transformer_layer_1", "UNKNOWN", 5, 35),
        ("KERNEL", "transformer_layer_1", "FORWARD", 5, 5),
        ("COLLECTIVE", "_reduce", "COMMUNICATION", 10, 10),
        ("KERNEL", "transformer_layer_1", "FORWARD", 20, 20),
        ("KERNEL", "forward", "FORWARD", 40, 10),
        ("KERNEL", "optimizer", "OPTIMIZER", 60, 10),
    ]
    facts = Facts(trace)
    assert facts.breakdown["compute"] == 50 * MS
    assert facts.breakdown["communication"] == 10 * MS


def test_ranges_of_unknown_meaning_claim_nothing():
    trace = read(raw((0, 100, [*PASSES, ("my own scope", 82, 90)])))
    assert [s[1] for s in slices(trace) if s[2] == "my own scope"] == ["DEVICE_ANNOTATION"]
    assert Facts(trace).breakdown["compute"] == 50 * MS


def test_newer_files_tell_the_rank_of_the_whole_job():
    trace = read(raw((0, 100, PASSES), rank=1, told={"g_rk": 5, "pp_rk": 1, "dev": 3}))
    assert trace.meta.rank == 5
    assert [trace.string(n) for n in trace.devices.name] == ["GPU:3"]
    assert trace.tracks.process.tolist() == [5] * len(trace.tracks)


def test_kernels_are_not_claimed():
    trace = read(raw((0, 100, PASSES)))
    (totals,) = Facts(trace).totals
    assert (totals.busy_ns, totals.kernels, totals.kernel_ns) == (50 * MS, None, None)
    assert (totals.h2d_bytes, totals.d2h_bytes) == (None, None)
    assert trace.meta.signals == {"passes"}
    assert counters(trace) == {"guessed-device-time": 2}


def test_ranks_of_one_run_are_combined(tmp_path):
    ahead = [("forward", 1, 11), ("forward", 11, 21), ("backward", 50, 65), ("backward", 66, 81)]
    slow = [("forward", 1, 41), ("backward", 42, 99)]
    for rank, ranges in enumerate((ahead, PASSES, slow)):
        (tmp_path / f"{rank}.json").write_bytes(raw(*[(0, 100, ranges)] * 3, rank=rank))
    result = explain([str(tmp_path / "*.json")])
    assert result.run.ranks == 3
    assert [d.name for d in result.devices] == ["rank 0 GPU", "rank 1 GPU", "rank 2 GPU"]
    assert [d.busy_ns for d in result.devices] == [50 * MS, 50 * MS, 97 * MS]
    assert result.notes[0].startswith("The report covers rank 0, a typical one of the slowest ")
    assert [i.events_kept for i in result.inputs] == [30, 18, 18]


def test_an_evaluation_between_iterations_is_left_out():
    records = json.loads(raw((0, 100, PASSES)))
    evaluation = [{"name": "forward", "ph": p, "rel_ts": t} for p, t in (("B", 1), ("E", 5))]
    trace = read(json.dumps([*records, *evaluation]).encode())
    assert counters(trace)["outside-iteration"] == 2
    assert trace.health.events_kept == 6


def test_an_iteration_without_its_begin_keeps_its_ranges():
    records = json.loads(raw(*[(2, 100, PASSES)] * 3))
    begins = [i for i, r in enumerate(records) if (r["name"], r["ph"]) == ("iteration", "B")]
    whole = read(json.dumps(records).encode())
    trace = read(json.dumps(records[: begins[1]] + records[begins[1] + 1 :]).encode())
    assert trace.slices.dur_ns.tolist() == whole.slices.dur_ns.tolist()
    assert counters(trace)["begin-missing"] == 1
    assert trace.health.events_kept == whole.health.events_kept - 1


@pytest.mark.parametrize("value", [None, -5, 2**63, "soon", True])
def test_ranges_without_a_time_are_counted(value):
    records = json.loads(raw((0, 100, PASSES)))
    next(r for r in records if r["ph"] == "E")["rel_ts"] = value
    trace = read(json.dumps(records).encode())
    assert counters(trace)["unusable-time"] == 2
    assert [s[2] for s in slices(trace) if s[1] == "KERNEL"] == ["backward"]


def test_begins_and_ends_without_each_other_are_counted():
    records = json.loads(raw((0, 100, PASSES), (0, 100, PASSES)))
    del records[2], records[6]  # an end in the first iteration, a begin in the second
    trace = read(json.dumps(records).encode())
    lost = {k: v for k, v in counters(trace).items() if k != "guessed-device-time"}
    assert lost == {"begin-without-end": 1, "end-without-begin": 1}


def test_a_torn_file_gives_what_is_whole():
    data = raw(*[(0, 100, PASSES)] * 10)
    trace = read(data[: len(data) // 2])
    steps = [s for s in slices(trace) if s[1] == "STEP"]
    assert 3 <= len(steps) <= 5
    assert trace.health.has("json-truncated")
    assert trace.meta.notes[-1].startswith("The trace file is truncated")


def test_damage_that_nests_deeply_is_left_out():
    data = raw((0, 100, PASSES), (0, 100, PASSES))
    nested = b"[" * 100_000 + b"]" * 100_000
    for damage in (nested, b'{"name": ' + nested + b"}"):
        steps = [s for s in slices(read(data[:-1] + b", " + damage + b"]")) if s[1] == "STEP"]
        assert len(steps) == 2


def test_a_file_without_a_whole_range_is_refused():
    data = raw((0, 100, PASSES))
    with pytest.raises(CorruptInputError, match="without a single whole range"):
        read(data[: data.index(b'"ph": "E"')])


# --- aggregated --------------------------------------------------------------------------------

# Two stages; the second begins when the first has sent, and computes longer.
STAGES = {
    0: [(0, "forward", 0, 10), (0, "backward", 60, 80)],
    1: [(0, "forward", 12, 30), (0, "backward", 30, 58)],
}


def repeated(ranks, count, every):
    """The ranks with more iterations, each `every` ms after the last one."""
    return {
        rank: [
            (i, name, start + i * every, end + i * every)
            for i in range(count)
            for _, name, start, end in ranges
        ]
        for rank, ranges in ranks.items()
    }


@pytest.mark.parametrize("whole", [False, True])
def test_processes_are_ranks_and_iterations_are_steps_of_all(whole):
    trace = read(aggregated(STAGES, whole=whole))
    assert [s for s in slices(trace) if s[1] in {"STEP", "KERNEL"}] == [
        ("rank 0", "STEP", "iteration 0", "UNKNOWN", 0, 80),
        ("rank 1", "STEP", "iteration 0", "UNKNOWN", 0, 80),
        ("stream 0", "KERNEL", "forward", "FORWARD", 0, 10),
        ("stream 0", "KERNEL", "forward", "FORWARD", 12, 18),
        ("stream 0", "KERNEL", "backward", "BACKWARD", 30, 28),
        ("stream 0", "KERNEL", "backward", "BACKWARD", 60, 20),
    ]
    names = [trace.string(n) for n in trace.devices.name]
    assert names == (["rank 0 GPU:0", "rank 1 GPU:1"] if whole else ["rank 0 GPU", "rank 1 GPU"])
    assert trace.meta.signals == {"passes", "ranks"}
    assert trace.health.events_read == trace.health.events_kept == (4 if whole else 8)


def test_a_stage_waits_for_the_others_before_between_and_after_its_passes():
    first, second = split_ranks(read(aggregated(STAGES)))
    assert [s[4:] for s in slices(first) if s[0] == "pipeline"] == [(10, 50)]
    assert [s[4:] for s in slices(second) if s[0] == "pipeline"] == [(0, 12), (58, 22)]
    assert Facts(first).breakdown["communication"] == 50 * MS
    assert Facts(second).breakdown["communication"] == 34 * MS
    assert (first.meta.rank, second.meta.rank) == (0, 1)


def test_all_ranks_of_a_file_are_explained_as_one_run(tmp_path):
    path = tmp_path / "all.json"
    path.write_bytes(aggregated(repeated(STAGES, 4, 100)))
    result = explain([str(path)])
    assert (result.run.ranks, result.run.world_size) == (2, None)
    assert [d.name for d in result.trace.devices] == ["rank 0 GPU", "rank 1 GPU"]
    assert [d.busy_ns for d in result.trace.devices] == [120 * MS, 184 * MS]
    assert [d.busy_fraction for d in result.devices] == [0.375, 0.575]
    assert result.verdict.bound_by == "communication"
    assert result.notes[0].startswith("The report covers rank 1, a typical one of the slowest ")
    assert result.notes[1].startswith("Rank 1 has the most work: it is idle for")
    assert "20.0 ms in the median" in result.notes[2]
    assert [i.events_read for i in result.inputs] == [32]
    assert (result.steps.count, result.steps.median_ns) == (4, 80 * MS)
    assert result.findings[0].id == "pipeline-bubble"


def test_diagnoses_of_kernels_abstain(tmp_path):
    path = tmp_path / "all.json"
    path.write_bytes(aggregated(repeated(STAGES, 4, 100)))
    verdicts = {f.id: f.verdict for f in explain([str(path)]).findings}
    for name in ("dominant-op", "unfavourable-layout", "launch-bound", "exposed-transfer"):
        assert verdicts[name] == "no_data", name


def test_marks_of_the_beginning_begin_the_step():
    trace = read(aggregated(repeated(STAGES, 2, 100), begins={0: 0, 1: 95}))
    assert [s[4:] for s in slices(trace) if s[1] == "STEP"] == [(0, 80)] * 2 + [(95, 85)] * 2
    assert trace.health.events_read == trace.health.events_kept == 20


def test_marks_of_the_end_end_the_step_but_not_the_wait_for_others():
    times = {"begins": {0: 0, 1: 100}, "ends": {0: 95, 1: 195}}
    trace = read(aggregated(repeated(STAGES, 2, 100), **times))
    assert [s[4:] for s in slices(trace) if s[1] == "STEP"] == [(0, 95)] * 2 + [(100, 95)] * 2
    waits = [s[4:] for s in slices(split_ranks(trace)[1]) if s[0] == "pipeline"]
    assert waits[:2] == [(0, 12), (58, 22)]
    assert not any("does not say when" in note for note in trace.meta.notes)


def test_two_runs_in_one_file_are_not_mixed_up():
    other = [{**r, "tid": 1} for r in json.loads(aggregated(STAGES, begins={0: 0}))]
    trace = read(aggregated(STAGES, begins={0: 0}, extra=other))
    assert "lays two runs" in trace.meta.limit
    assert decide(Facts(split_ranks(trace)[0])).bound_by == "unknown"


def test_names_of_processes_and_arrows_are_counted():
    extra = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "DP0-PP0-TP0"}},
        {"ph": "s", "name": "x", "pid": 0, "ts": 5, "id": 1, "args": {}},
    ]
    trace = read(aggregated(STAGES, extra=extra))
    lost = {k: v for k, v in counters(trace).items() if k != "guessed-device-time"}
    assert lost == {"metadata-record": 1, "other-record": 1}


def test_passes_in_a_row_of_one_name_are_told_apart():
    rows = {0: [(0, "forward", 0, 10), (0, "forward", 10, 25), (0, "forward", 26, 30)]}
    trace = read(aggregated(rows))
    assert [s[4:] for s in slices(trace) if s[1] == "KERNEL"] == [(0, 10), (10, 15), (26, 4)]


def test_ranges_of_no_step_are_of_another_tool():
    data = aggregated({0: [(0, "something", 0, 10)]})
    assert megascan.read(Source(data, "sample")) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'[{"name": "forward", "ph": "B", "ts": 1, "pid": 0, "args": {"iteration": 0}}]',
        b'[{"name": "x", "cname": "good", "ph": "X", "args": {"iteration": 0}}]',
        b'{"traceEvents": [{"cname": "rail_load", "ph": "X", "args": {"iteration": 0}}]}',
        b'[{"name": "iteration", "ph": "B", "pad_before": 0}]',
        b'[{"name": "epoch", "ph": "B", "pad_before": 0, "rel_ts": 0}]',
    ],
)
def test_other_files_are_not_taken(data):
    assert not megascan.recognise(Source(data, "sample"))


RAW, AGGREGATED = raw((0, 100, PASSES), (5, 90, PASSES), rank=1), aggregated(STAGES)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.sampled_from([RAW, AGGREGATED]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=8),
    st.integers(0, 10_000),
)
def test_damage_never_surprises(sample, flips, cut):
    data = bytearray(sample)
    for position, value in flips:
        data[position % len(data)] = value
    source = Source(bytes(data[: len(data) - cut % len(data)]), "sample")
    megascan.recognise(source)
    try:
        trace = megascan.read(source)
    except StepwhyError:
        return
    if trace is not None:
        check(trace)


def test_a_rank_that_is_not_told_is_null():
    records = json.loads(raw((0, 100, PASSES)))
    for record in records:
        record.pop("pp_rank", None)
    assert read(json.dumps(records).encode()).meta.rank == NULL


# --- memory ------------------------------------------------------------------------------------


def passes_of_layers(count):
    """Passes of 100 ns, each with a layer and a layer in it."""
    start_ns = np.arange(count, dtype=np.int64)[:, np.newaxis] * 100 + [0, 10, 20]
    name = np.broadcast_to(np.arange(3, dtype=np.int32), (count, 3)).ravel()
    none = np.broadcast_to(np.int32(0), 3 * count)
    end_ns = np.add(start_ns, [90, 70, 50]).ravel()
    names = ["forward", "layer", "block"]
    return Ranges(names, name, none, none, start_ns.ravel(), end_ns, none, none, none)


def test_ranges_become_slices_in_little_memory():
    """A slice of the trace has 26 bytes; a range has 300 in the file."""
    # The first call may import the compiler, whose memory is not of interest here.
    for _ in range(2):
        ranges, builder = passes_of_layers(20_000), TraceBuilder()
        devices = {0: builder.device("GPU:0", DeviceKind.GPU)}
        tracemalloc.start()
        add_ranges(builder, ranges, devices)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    slices = builder.finish(Meta("test")).slices
    assert len(slices) == (3 + 4) * 20_000
    assert slices.dur_ns[:4].tolist() == [90, 10, 70, 10]
    assert most < 65 * len(slices)
