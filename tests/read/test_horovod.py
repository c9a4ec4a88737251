"""Horovod timelines: generated ones, with what can be worked out by hand."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.chrome_samples import HorovodTimeline, lost, slices, source_of, tracks

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError, StepwhyError
from stepwhy.read.formats.horovod import reader as horovod
from stepwhy.read.registry import read_trace
from stepwhy.trace import NULL
from stepwhy.trace.integrity import check

FLOATS = {"dtype": "float32", "shape": "[3, 4]"}


def one_exchange():
    line = HorovodTimeline()
    line.negotiate("grad/w", 100, {0: 101, 1: 140})
    line.exchange(
        "grad/w",
        150,
        200,
        [("QUEUE", 151, 160), ("NCCL_ALLREDUCE", 160, 195)],
        **FLOATS,
    )
    line.cycle(99)
    return line


def training(steps=5, late=1, ranks=3, period_us=1000):
    """Two fused gradients per step, rank `late` always 40 us after the one before it."""
    line = HorovodTimeline()
    line.exchange("w/broadcast", 1, 9, [("MPI_BCAST", 2, 8)], "BROADCAST")
    for step in range(steps):
        at = 100 + step * period_us
        ready = {rank: at + 10 + rank for rank in range(ranks)} | {late: at + 52}
        for tensor, offset in (("grad/w", 0), ("grad/b", 2)):
            line.negotiate(tensor, at + offset, {r: t + offset for r, t in ready.items()})
        for tensor, offset in (("grad/w", 0), ("grad/b", 3)):
            begin = at + 60 + offset
            parts = [
                ("MEMCPY_IN_FUSION_BUFFER", begin + 5, begin + 15),
                ("NCCL_ALLREDUCE", begin + 20, begin + 120),
                ("MEMCPY_OUT_FUSION_BUFFER", begin + 125, begin + 130),
            ]
            line.exchange(tensor, begin, begin + 140, parts, **FLOATS)
    return line


def read(line, **how):
    source = line.source(**how)
    assert horovod.recognise(source)
    trace = horovod.read(source)
    check(trace)
    return trace


def test_rows_are_tracks_and_activities_stand_beside_them():
    trace = read(one_exchange())
    assert tracks(trace) == [
        ("HOST_THREAD", "grad/w", None),
        ("HOST_THREAD", "all tensors: NCCL_ALLREDUCE", None),
        ("HOST_THREAD", "all tensors: NEGOTIATE_ALLREDUCE", None),
        ("HOST_THREAD", "all tensors: QUEUE", None),
    ]
    assert sorted(slices(trace)) == [
        ("all tensors: NCCL_ALLREDUCE", "COLLECTIVE", "NCCL_ALLREDUCE", 160, 35),
        ("all tensors: NEGOTIATE_ALLREDUCE", "WAIT", "NEGOTIATE_ALLREDUCE", 100, 40),
        ("all tensors: QUEUE", "WAIT", "QUEUE", 151, 9),
        ("grad/w", "ANNOTATION", "ALLREDUCE", 150, 50),
        ("grad/w", "ANNOTATION", "NCCL_ALLREDUCE", 160, 35),
        ("grad/w", "ANNOTATION", "NEGOTIATE_ALLREDUCE", 100, 40),
        ("grad/w", "ANNOTATION", "QUEUE", 151, 9),
        ("grad/w", "ANNOTATION", "rank 0 is ready", 101, 0),
        ("grad/w", "ANNOTATION", "rank 1 is ready", 140, 0),
    ]
    assert lost(trace) == {"cycle-marker": 1, "unclosed-list": 1}
    # 4 names, 2 for each of 4 ranges, 2 ticks.
    assert (trace.health.events_read, trace.health.events_kept) == (15, 14)


def sizes(trace):
    return {
        trace.string(n): b
        for n, b in zip(trace.slices.name, trace.slices.bytes, strict=True)
        if b != NULL
    }


def test_the_end_of_an_exchange_tells_its_bytes():
    assert sizes(read(one_exchange())) == {"ALLREDUCE": 48, "NCCL_ALLREDUCE": 48}


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"dtype": "float16", "shape": "[]"}, 2),
        ({"dtype": "int64", "shape": "[2,0]"}, 0),
        ({"dtype": "complex", "shape": "[2]"}, None),
        ({"dtype": "float32", "shape": "2 by 3"}, None),
        ({"dtype": "float32", "shape": "[999999999999, 999999999999]"}, None),
        ({"dtype": "float32", "shape": 7}, None),
        ({"dtype": ["float32"], "shape": "[2]"}, None),
        ({"shape": "[2]"}, None),
        ({}, None),
    ],
)
def test_bytes_that_are_not_told_are_not_zero(args, expected):
    line = HorovodTimeline()
    line.exchange("x", 0, 9, **args)
    assert sizes(read(line)) == ({} if expected is None else {"ALLREDUCE": expected})


def test_what_fused_tensors_do_together_counts_once():
    trace = read(training(steps=1))
    fused = [s for s in slices(trace) if s[0] == "all tensors: NCCL_ALLREDUCE"]
    assert fused == [("all tensors: NCCL_ALLREDUCE", "COLLECTIVE", "NCCL_ALLREDUCE", 180, 103)]
    assert sizes(trace)["NCCL_ALLREDUCE"] == 2 * 48
    kinds = {s[2]: s[1] for s in slices(trace) if s[0].startswith("all tensors")}
    assert kinds == {
        "MPI_BCAST": "COLLECTIVE",
        "MEMCPY_IN_FUSION_BUFFER": "MEMCPY",
        "MEMCPY_OUT_FUSION_BUFFER": "MEMCPY",
        "NCCL_ALLREDUCE": "COLLECTIVE",
        "NEGOTIATE_ALLREDUCE": "WAIT",
    }


def test_steps_follow_a_gradient_that_repeats():
    facts = Facts(read(training(steps=5)))
    assert facts.steps.durations_ns.tolist() == [1_000_000] * 4
    assert any("reduction of 'grad/w'" in n for n in facts.trace.meta.notes)


@pytest.mark.parametrize("steps", [1, 2])
def test_two_reductions_make_no_rhythm(steps):
    facts = Facts(read(training(steps=steps)))
    assert facts.steps.source == "whole-trace"
    assert not any("Each step lasts" in n for n in facts.trace.meta.notes)


def test_a_metric_that_is_reduced_less_often_tells_no_steps():
    line = training(steps=6)
    for at in (50, 2050, 4050):
        line.exchange("loss", at, at + 5)
    assert Facts(read(line)).steps.durations_ns.tolist() == [1_000_000] * 5


def test_the_rank_that_is_late_is_named():
    notes = read(training(steps=10, late=1)).meta.notes
    (late,) = (n for n in notes if "last to be ready" in n)
    # Rank 2 reports 12 us after the start, rank 1 at 52.
    assert "Rank 1" in late
    assert "in 100 % of 20 negotiations" in late
    assert "for a median of 40.0 µs" in late


def test_ranks_that_take_turns_are_not_blamed():
    line = HorovodTimeline()
    for step in range(12):
        at = 1000 * step
        line.negotiate("x", at, {r: at + 5 * ((r + step) % 4) for r in range(4)})
        line.exchange("x", at + 50, at + 60)
    (turns,) = (n for n in read(line).meta.notes if "take turns" in n)
    assert "in 25 % of 12 negotiations" in turns
    assert "15.0 µs" in turns


def test_cached_negotiations_do_not_say_who_is_late():
    line = training(steps=10)
    for step in range(40):
        at = 20_000 + 1000 * step
        line.negotiate("grad/w", at, {})
        line.exchange("grad/w", at + 60, at + 160)
    notes = read(line).meta.notes
    assert any("Only 20 of 60 negotiations say" in n for n in notes)
    assert not any("last to be ready" in n for n in notes)


@pytest.mark.parametrize(
    ("ranks", "size"), [([0, 1, 2], 3), ([0, 2], NULL), ([0], NULL), ([], NULL)]
)
def test_the_size_of_the_world_where_all_ranks_report(ranks, size):
    line = HorovodTimeline()
    line.negotiate("x", 0, {r: r + 1 for r in ranks})
    line.exchange("x", 10, 20)
    assert read(line).meta.world_size == size


def test_no_time_is_explained_and_the_verdict_says_why():
    facts = Facts(read(training(steps=5)))
    verdict = decide(facts)
    assert (verdict.bound_by, verdict.confidence) == ("unknown", 0.0)
    assert "exchanges between the ranks" in verdict.reason.why
    assert facts.breakdown["unexplained"] == facts.wall_ns == 1_000_000
    assert facts.activities == []
    listed = {r.name: (r.count, r.total_ns, r.bytes) for r in facts.ops.largest(100)}
    assert listed == {
        "NCCL_ALLREDUCE": (4, 4 * 103_000, 4 * 96),
        "NEGOTIATE_ALLREDUCE": (4, 4 * 54_000, None),
        "MEMCPY_IN_FUSION_BUFFER": (4, 4 * 13_000, None),
        "MEMCPY_OUT_FUSION_BUFFER": (4, 4 * 8_000, None),
    }


def test_a_closed_list_is_read_as_well():
    trace = read(training(), closed=True)
    assert lost(trace) == {}
    assert slices(trace) == slices(read(training()))


def test_an_exchange_that_was_under_way_when_the_file_ends_is_counted():
    line = HorovodTimeline()
    line.exchange("a", 0, 10)
    line.exchange("b", 20, 60, [("QUEUE", 21, 30), ("NCCL_ALLREDUCE", 30, 50)])
    del line.records[-2:]
    trace = read(line)
    assert lost(trace) == {"begin-without-end": 2, "unclosed-list": 1}
    assert [s[:3] for s in slices(trace) if s[0].startswith("all")] == [
        ("all tensors: ALLREDUCE", "COLLECTIVE", "ALLREDUCE"),
        ("all tensors: QUEUE", "WAIT", "QUEUE"),
    ]


def test_a_torn_record_is_told():
    text = training().text()
    trace = horovod.read(source_of(text[: len(text) * 3 // 4]))
    assert trace.health.has("json-truncated")
    assert len(trace.slices) > 0


def test_times_with_fractions_stay_exact():
    line = HorovodTimeline()
    line.exchange("x", 1_400_000_000_000.125, 1_400_000_000_001.375)
    assert [s[3:] for s in slices(read(line))] == [(1_400_000_000_000.125, 1.25)] * 2


def test_a_timeline_without_an_exchange_is_refused():
    line = HorovodTimeline()
    line.cycle(5)
    line.negotiate("x", 6, {0: 7})
    with pytest.raises(CorruptInputError, match="without a single exchange"):
        horovod.read(line.source())


def test_it_is_recognised_before_other_chrome_traces():
    assert read_trace(training().source())[1] == "horovod-timeline"


@pytest.mark.parametrize(
    "data", [b"", b"[", b'[{"ph": "X", "name": "ALLREDUCE"}]', b"NEGOTIATE_ALLREDUCE"]
)
def test_other_files_are_not_taken(data):
    assert not horovod.recognise(source_of(data))


MUTABLE = training(steps=3).text().encode()


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, len(MUTABLE) - 1), st.integers(0, 255)), max_size=12),
    st.one_of(st.just(len(MUTABLE)), st.integers(0, len(MUTABLE))),
)
def test_damage_never_surprises(flips, length):
    data = bytearray(MUTABLE)
    for position, value in flips:
        data[position] = value
    source = source_of(bytes(data[:length]))
    horovod.recognise(source)
    try:
        check(horovod.read(source))
    except StepwhyError:
        return


# --- memory ------------------------------------------------------------------------------------


def test_a_timeline_is_the_same_for_any_size_of_chunks(monkeypatch):
    whole = read(training())
    monkeypatch.setattr("stepwhy.read.shared.chrome_spans._AT_ONCE", 7)
    monkeypatch.setattr("stepwhy.base.columns.chunks.CHUNK", 3)
    parts = read(training())
    assert parts.strings == whole.strings
    assert slices(parts) == slices(whole)


def test_ranges_are_not_held_beside_their_slices(monkeypatch):
    """A slice has 38 bytes; a range as little, but is gone before all of its slice is there."""
    collect = horovod.collect

    def collected(source, health):
        found = collect(source, health)
        tracemalloc.start()
        return found

    monkeypatch.setattr(horovod, "collect", collected)
    try:
        trace = read(training(steps=1500))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(trace.slices) > 30_000
    assert most < 90 * len(trace.slices)
