"""The timeline of the page: what is packed is what the trace holds."""

import itertools

import numpy as np
import pytest
from msgspec.structs import replace
from tests.analyse.timeline import Timeline
from tests.export.timelines import unpacked, varints

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import numbered
from stepwhy.result import CATEGORIES
from stepwhy.result.timeline import DRAWN_CATEGORIES
from stepwhy.show.timeline import build, part_of, timeline_of
from stepwhy.show.timeline.packing import packed, zigzag
from stepwhy.show.timeline.slices import drawn, joined, thinned
from stepwhy.trace import DeviceKind, Kind, Role
from stepwhy.trace.notation import parse

MS = 1_000_000
TRACE = """
unit: 1 ms
framework: pytorch
main   step   |[--------][--------]|
main   input  |ddd       ddd       |  d=DataLoader.__next__
main   op     |   [aten::mm] [mm]  |
main   launch |   l         l      |  l=cudaLaunchKernel
GPU:0  kernel |    [gemm]    [gemm]|
GPU:0  memcpy |   c                |  c=Memcpy HtoD {copy: h2d; bytes: 4 MiB}
arrows: l -> gemm
"""


def facts_of(text=TRACE):
    return Facts(parse(text))


def timeline(text=TRACE):
    return timeline_of([("", part_of(facts_of(text)))])


def rows_of(found, title):
    return [one for one in found if one.row == title]


# --- Packing ---


def test_integers_come_back():
    values = [0, 1, 127, 128, 300, 2**31, 2**53 - 1, 2**63 - 1]
    assert varints(packed(np.array(values, dtype=np.int64))) == values
    assert varints(packed(np.array([], dtype=np.int64))) == []


def test_small_differences_stay_small():
    assert zigzag(np.array([0, -1, 1, -2, 2])).tolist() == [0, 1, 2, 3, 4]


# --- Rows ---


class Moved:
    """Two kernels of a trace, and when they run after a fix."""

    def __init__(self, facts, fix="a-fix", starts=(3 * MS, 2 * MS), duration=MS):
        slices = facts.trace.slices
        self.fix = fix
        self.rows = np.flatnonzero(slices.kind == Kind.KERNEL)
        self.start_ns = np.array(starts)
        self.end_ns = self.start_ns + duration


def test_replayed_work_is_on_rows_of_its_own_after_all_others():
    facts = facts_of()
    packed_timeline = timeline_of([("", part_of(facts, replays=[Moved(facts)]))])
    assert [(row.title, row.fix) for row in packed_timeline.rows if row.role == "replay"] == [
        ("stream 0", "a-fix")
    ]
    assert packed_timeline.rows[-1].role == "replay"
    *recorded, first, second = unpacked(packed_timeline)
    assert recorded == unpacked(timeline())
    assert [(one.start, one.end, one.label[0]) for one in (first, second)] == [
        (2 * MS, 3 * MS, "gemm"),
        (3 * MS, 4 * MS, "gemm"),
    ]
    assert {one.category for one in (first, second)} == {DRAWN_CATEGORIES.index("compute")}


def test_each_fix_has_rows_and_work_that_overlaps_has_lanes():
    facts = facts_of()
    replays = [Moved(facts, "one"), Moved(facts, "other", duration=5 * MS)]
    rows = timeline_of([("", part_of(facts, replays=replays))]).rows
    lanes = {row.fix: row.lanes for row in rows if row.role == "replay"}
    assert lanes == {"one": (2,), "other": (1, 1)}


def test_replayed_work_is_thinned_apart_from_the_recorded():
    facts = facts_of()
    some = Moved(facts)
    some.rows = np.repeat(some.rows, 500)
    some.start_ns = np.arange(1000) * 10
    some.end_ns = some.start_ns + 9
    part = part_of(facts, most=1000, replays=[some])
    assert 0 < part.slices.merged[part.slices.strip == part.slices.strip[-1]].sum() <= 1000
    assert (part.slices.strip == part.slices.strip[-1]).sum() <= 100
    assert part.shortest_ns == 0


def test_rows_are_the_steps_then_the_time_then_the_tracks():
    rows = timeline().rows
    assert [row.role for row in rows] == ["steps", "time", "thread", "stream"]
    assert [row.title for row in rows[:2]] == ["Steps", "Where the time goes"]


def test_steps_are_those_of_the_result():
    steps = rows_of(unpacked(timeline()), "Steps")
    facts = facts_of()
    assert [(s.start, s.end) for s in steps] == list(
        zip(facts.recorded_steps.starts.tolist(), facts.recorded_steps.ends.tolist(), strict=True)
    )
    assert [s.label[0] for s in steps] == ["step 1", "step 2"]


def test_the_time_adds_up_to_the_breakdown():
    found = rows_of(unpacked(timeline()), "Where the time goes")
    times = dict.fromkeys(CATEGORIES, 0)
    for one in found:
        times[CATEGORIES[one.category]] += one.end - one.start
    facts = facts_of()
    assert times == dict(zip(CATEGORIES, facts.per_step.sum(axis=0).tolist(), strict=True))
    assert sum(times.values()) == facts.recorded_steps.durations_ns.sum()


def test_time_between_steps_is_left_out():
    text = """
    unit: 1 ms
    framework: pytorch
    main   step   |[----]      [----]|
    main   op     | [a]         [a]  |
    """
    found = rows_of(unpacked(timeline(text)), "Where the time goes")
    assert not any(6 * MS <= one.start < 12 * MS for one in found)


def test_calls_are_beneath_their_callers():
    thread = [s for s in unpacked(timeline()) if s.row.endswith("main")]
    lanes = {s.label[0]: s.lane for s in thread}
    assert lanes["aten::mm"] == 1
    assert lanes["cudaLaunchKernel"] == 2


def test_slices_of_a_lane_do_not_overlap_even_if_calls_do():
    text = """
    unit: 1 ms
    CPU:0  kernel |[a---]          |
    CPU:0  kernel |  [b------]     |
    CPU:0  kernel |       [c--]    |
    """
    found = [s for s in unpacked(timeline(text)) if s.label and s.label[0] in "abc"]
    assert len(found) == 3
    assert len({s.lane for s in found}) == 2
    for lane in (0, 1):
        slices = [s for s in found if s.lane == lane]
        assert all(a.end <= b.start for a, b in itertools.pairwise(slices))


def test_executors_of_several_traced_steps_share_a_row():
    timeline = Timeline(unit_ns=MS)
    device = timeline.builder.device("CPU:0", DeviceKind.CPU)
    for number in range(3):
        track = timeline.builder.track(Role.EXECUTOR, "executor 0", thread=number, device=device)
        timeline.add(track, Kind.KERNEL, 10 * number, 10 * number + 5, name="mm")
    rows = timeline_of([("", part_of(Facts(timeline.trace())))]).rows
    assert [(row.title, row.lanes) for row in rows if row.role == "stream"] == [
        ("executor 0", (3,))
    ]


def test_work_is_drawn_as_what_it_is():
    by_name = {s.label[0]: DRAWN_CATEGORIES[s.category] for s in unpacked(timeline()) if s.label}
    assert by_name["gemm"] == "compute"
    assert by_name["Memcpy HtoD"] == "transfer"
    assert by_name["DataLoader.__next__"] == "input_wait"
    assert by_name["cudaLaunchKernel"] == "dispatch"


def test_operations_of_a_cpu_compute():
    found = unpacked(timeline("unit: 1 ms\nmain op |[aten::mm]|"))
    assert {
        DRAWN_CATEGORIES[s.category] for s in found if s.label and s.label[0] == "aten::mm"
    } == {"compute"}


def test_launches_lead_to_their_calls():
    found = unpacked(timeline())
    kernels = [s for s in found if s.label and s.label[0] == "gemm"]
    assert len(kernels) == 2
    for kernel in kernels:
        call = found[kernel.launch]
        assert call.label[0] == "cudaLaunchKernel"
        assert call.start <= kernel.start


def test_sizes_are_kept_and_unknown_ones_are_not_zero():
    found = {s.label[0]: s.size for s in unpacked(timeline()) if s.label}
    assert found["Memcpy HtoD"] == 4 << 20
    assert found["gemm"] is None


def test_gaps_are_the_longest_times_without_compute():
    gaps = timeline().gaps
    assert gaps[0].category == "input_wait"
    assert [g.duration_ns for g in gaps] == sorted((g.duration_ns for g in gaps), reverse=True)
    assert all(gap.category != "compute" for gap in gaps)


# --- Merging ---


def random_slices(count, strips=3, seed=1):
    rng = np.random.default_rng(seed)
    strip = np.sort(rng.integers(0, strips, count))
    start, end = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for number in range(strips):
        rows = np.flatnonzero(strip == number)
        edges = np.cumsum(rng.integers(0, 2000, 2 * len(rows)))
        start[rows], end[rows] = edges[::2], edges[1::2]
    return drawn(
        strip,
        start,
        end,
        rng.integers(0, 11, count),
        label=np.arange(count),
        launch=np.where(rng.random(count) < 0.3, rng.integers(0, count, count), -1),
    )


@pytest.mark.parametrize("most", [10, 500, 5000])
def test_merged_slices_stand_for_all_that_they_replace(most):
    slices = random_slices(20_000)
    thin, shortest = thinned(slices, most)
    assert len(thin) <= most
    single = thin.merged == 0
    assert int(thin.merged.sum()) + int(single.sum()) == len(slices)
    long = slices.end_ns - slices.start_ns >= shortest
    kept = set(thin.label[single].tolist())
    assert set(slices.label[long].tolist()) <= kept
    same = thin.strip[1:] == thin.strip[:-1]
    assert (thin.start_ns[1:] >= thin.end_ns[:-1])[same].all()
    for strip in range(3):
        before, after = slices.strip == strip, thin.strip == strip
        assert thin.start_ns[after].min() == slices.start_ns[before].min()
        assert thin.end_ns[after].max() == slices.end_ns[before].max()


def test_merging_again_counts_what_was_merged_before():
    slices = random_slices(20_000)
    twice, _ = thinned(thinned(slices, 5000)[0], 800)
    assert len(twice) <= 800
    single = twice.merged == 0
    assert int(twice.merged.sum()) + int(single.sum()) == len(slices)
    assert (twice.label[~single] == -1).all()
    assert (twice.label[single] >= 0).all()


def test_launches_still_lead_to_the_same_slices():
    slices = random_slices(5000)
    thin, _ = thinned(slices, 4000)
    names = thin.label.tolist()
    single = np.flatnonzero((thin.merged == 0) & (thin.launch >= 0))
    assert len(single) > 100
    for row in single.tolist():
        launched_by = slices.launch[names[row]]
        target = thin.launch[row]
        assert thin.strip[target] == slices.strip[launched_by]
        assert thin.start_ns[target] <= slices.start_ns[launched_by] <= thin.end_ns[target]


def test_few_slices_stay_as_they_are():
    slices = random_slices(100)
    thin, shortest = thinned(slices, 100)
    assert (thin, shortest) == (slices, 0)


def test_a_page_never_exceeds_its_size(monkeypatch):
    monkeypatch.setattr(build, "MOST_BYTES", 20_000)
    part = replace(
        part_of(facts_of()), slices=random_slices(30_000, 5), labels=(("a", "", ""),) * 30_000
    )
    part = replace(part, rows=tuple(replace(part.rows[-1], lanes=(0,)) for _ in range(5)))
    found = timeline_of([("", part)])
    assert found.size <= 20_000
    assert found.merged > 20_000
    assert found.shortest_ns > 0
    counts = [sum(row.lanes) for row in found.rows]
    assert sum(counts) == len(unpacked(found))


# --- Several ranks ---


def at(part, shift):
    slices = replace(
        part.slices, start_ns=part.slices.start_ns + shift, end_ns=part.slices.end_ns + shift
    )
    gaps = tuple(replace(gap, start_ns=gap.start_ns + shift) for gap in part.gaps)
    return replace(part, slices=slices, gaps=gaps)


def test_ranks_on_one_clock_stay_where_they_are():
    part = part_of(facts_of())
    found = timeline_of([("Rank 0", part), ("Rank 1", at(part, 2 * MS))])
    assert not found.aligned
    first, second = (
        next(s for s in unpacked(found) if s.row == f"{rank}/Steps")
        for rank in ("Rank 0", "Rank 1")
    )
    assert second.start - first.start == 2 * MS
    assert [f"{row.group}/{row.title}" for row in found.rows[:3]] == [
        "Rank 0/Steps", "Rank 0/Where the time goes", "Rank 1/Where the time goes",
    ]  # fmt: skip


def test_ranks_whose_clocks_do_not_agree_begin_together():
    part = part_of(facts_of())
    found = timeline_of([("Rank 0", part), ("Rank 1", at(part, 10**15))])
    assert found.aligned
    first, second = (
        next(s for s in unpacked(found) if s.row == f"{rank}/Steps")
        for rank in ("Rank 0", "Rank 1")
    )
    assert second.start == first.start
    assert found.span_ns < 10**9
    kernels = [s for s in unpacked(found) if s.label and s.label[0] == "gemm"]
    assert [unpacked(found)[k.launch].row for k in kernels] == [
        f"{rank} · Host, process 1/main" for rank in ("Rank 0", "Rank 0", "Rank 1", "Rank 1")
    ]


def test_an_empty_trace_has_a_timeline():
    found = timeline("unit: 1 ms\nframework: pytorch")
    assert unpacked(found) == [] or all(s.row == "Steps" for s in unpacked(found))


def test_parts_are_joined_in_order():
    slices = random_slices(10)
    both = joined([slices, replace(slices, strip=slices.strip + 3)])
    assert len(numbered(both.strip)[0]) == 2 * len(numbered(slices.strip)[0])
    known = slices.launch >= 0
    assert (both.launch[10:][known] == slices.launch[known] + 10).all()
