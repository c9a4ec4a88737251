"""Where the steps are: markers, what repeats, or the whole trace; on the host or on the device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import MS, Timeline, in_units

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.result.reasons import Cut, Repeats
from stepwhy.trace import Kind, Phase


def steps_of(line, **meta):
    return Facts(line.trace(**meta)).steps


def bounds(steps):
    return list(zip(in_units(steps.starts), in_units(steps.ends), strict=True))


# --- markers -------------------------------------------------------------------------------------


def test_markers_are_the_steps():
    line = Timeline().steps(0, 10, 21, 30)
    steps = steps_of(line)
    assert bounds(steps) == [(0, 10), (10, 21), (21, 30)]
    assert (steps.source, steps.confidence, steps.warm_up) == ("marker", 1.0, 0)
    assert not steps.device_side


def test_time_between_markers_belongs_to_no_step():
    line = Timeline().steps(0, 10).steps(15, 25)
    assert bounds(steps_of(line)) == [(0, 10), (15, 25)]


def test_markers_that_leave_out_part_of_the_loop_say_so():
    line = Timeline().steps(0, 10, 20)
    assert steps_of(line).notes == ()
    line.steps(60, 70)
    (note,) = steps_of(line).notes
    assert note.share == pytest.approx(0.57, abs=0.005)
    assert steps_of(line).confidence == pytest.approx(30 / 70)


def test_a_marker_inside_a_marker_is_no_second_step():
    line = Timeline().steps(0, 10, 20)
    line.steps(1, 10).steps(12, 18)
    assert bounds(steps_of(line)) == [(0, 10), (10, 20)]


def test_markers_that_overlap_by_rounding_are_still_consecutive_steps():
    line = Timeline(unit_ns=1).steps(0, 1001).steps(1000, 2001).steps(2000, 3000)
    steps = steps_of(line)
    assert steps.durations_ns.tolist() == [1001, 1000, 999]
    assert steps.starts.tolist() == [0, 1001, 2001]


def test_markers_of_another_thread_and_without_length_are_none():
    line = Timeline().steps(0, 10, 20, 30)
    line.steps(3, 7, track=line.thread("other"))
    line.steps(5, 5)
    assert bounds(steps_of(line)) == [(0, 10), (10, 20), (20, 30)]


# --- device work that lags -----------------------------------------------------------------------


def run_ahead(host, device, count=4, lag=0):
    """A loop that launches one kernel per step and never waits; both take their time."""
    line = Timeline().steps(*range(0, host * count + 1, host))
    end = lag
    for i in range(count):
        begin = max(host * i + 1, end)
        end = begin + device
        line.launch((host * i, host * i + 1), (begin, end), i + 1)
    return line


def test_steps_are_cut_at_the_device_when_it_falls_behind():
    # Launched every 4 ms, computed in 10 ms: kernels at [1, 11), [11, 21), [21, 31), [31, 41).
    steps = steps_of(run_ahead(host=4, device=10))
    assert steps.device_side
    assert bounds(steps) == [(0, 11), (11, 21), (21, 31), (31, 41)]
    assert list(zip(in_units(steps.host_starts), in_units(steps.host_ends), strict=True)) == [
        (0, 4), (4, 8), (8, 12), (12, 16),
    ]  # fmt: skip
    assert Cut.AT_DEVICE_ENDS in steps.notes


def test_a_constant_lag_leaves_the_hosts_cuts():
    # Every kernel ends 6 ms after its step did, and takes as long as the step.
    steps = steps_of(run_ahead(host=10, device=10, lag=6))
    assert not steps.device_side
    assert in_units(steps.durations_ns) == [10, 10, 10, 10]


def test_a_device_that_keeps_up_leaves_the_hosts_cuts():
    steps = steps_of(run_ahead(host=10, device=5))
    assert not steps.device_side
    assert bounds(steps)[0] == (0, 10)


def test_few_steps_are_cut_at_the_device_when_work_is_left_at_their_end():
    steps = steps_of(run_ahead(host=4, device=10, count=1))
    assert steps.device_side
    assert bounds(steps) == [(0, 11)]


def test_work_launched_before_the_first_step_is_not_its_own():
    line = run_ahead(host=4, device=10)
    other = line.thread("main")
    line.add(other, Kind.LAUNCH, -3, -2, correlation=99)
    line.add(line.stream(), Kind.KERNEL, -2, 1, correlation=99)
    steps = steps_of(line)
    assert bounds(steps) == [(1, 11), (11, 21), (21, 31), (31, 41)]


def test_work_of_an_earlier_pass_is_not_part_of_a_single_step():
    # The host waits for 14 ms, then launches 32 ms of work, of which 1 ms is left at its end.
    line = Timeline().steps(0, 46)
    line.add(line.stream(), Kind.KERNEL, 0, 14)
    line.add(line.thread(), Kind.SYNC, 0, 14)
    line.launch((14, 15), (15, 47), 1)
    steps = steps_of(line)
    assert bounds(steps) == [(14, 47)]
    assert steps.device_side


def test_a_single_step_that_begins_with_a_fetch_beside_earlier_work_keeps_it():
    line = Timeline().steps(0, 46)
    line.add(line.stream(), Kind.KERNEL, 0, 14)
    line.add(line.thread(), Kind.INPUT, 0, 14)
    line.launch((14, 15), (15, 46), 1)
    assert bounds(steps_of(line)) == [(0, 46)]


def test_a_backlog_on_another_stream_never_makes_a_step_negative():
    line = run_ahead(host=4, device=10)
    line.add(line.stream(number=9), Kind.KERNEL, -5, 30)
    steps = steps_of(line)
    assert (steps.durations_ns >= 0).all()
    assert in_units(steps.ends) == [11, 21, 31, 41]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.data())
def test_steps_are_ordered_disjoint_and_never_negative(data):
    small = st.integers(0, 12)
    line = Timeline()
    at = 0
    for _ in range(data.draw(st.integers(1, 6))):
        at += data.draw(st.sampled_from([0, 0, 0, 2]))
        length = 1 + data.draw(small)
        line.steps(at, at + length)
        at += length
    for number in range(1, data.draw(st.integers(1, 8))):
        call = data.draw(st.integers(-5, at))
        begin = call + data.draw(small)
        line.launch(
            (call, call + 1), (begin, begin + data.draw(small)), number,
            stream=line.stream(number=data.draw(st.integers(7, 9))),
        )  # fmt: skip
    facts = Facts(line.trace())
    steps = facts.steps
    assert (steps.durations_ns >= 0).all()
    assert (steps.starts[1:] >= steps.ends[:-1]).all()
    assert (facts.per_step.sum(axis=1) == steps.durations_ns).all()


# --- warm-up -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durations", "expected"),
    [
        ([10, 10, 10, 10], 0),
        ([50, 10, 10, 10], 1),
        ([90, 50, 10, 10, 11], 2),
        ([17, 10, 10, 10], 0),
        ([19, 10, 10, 10], 1),
        ([10, 50, 10, 10], 0),
        ([900, 10], 0),
        ([900, 90, 10], 1),
        ([], 0),
    ],
)
def test_leading_slow_steps_are_warm_up(durations, expected):
    assert count_warm_up(np.asarray(durations, dtype=np.int64) * MS) == expected


def test_means_are_taken_over_the_steady_steps():
    facts = Facts(Timeline().steps(0, 50, 60, 70, 80).trace())
    assert (facts.steps.warm_up, facts.steady_count) == (1, 3)
    assert facts.wall_ns == 10 * MS


@pytest.mark.parametrize(("at", "left_out"), [(5, 1), (15, 2), (25, 0)])
def test_steps_whose_gradients_were_followed_are_warm_up_if_others_are_left(at, left_out):
    line = Timeline().steps(0, 10, 20, 30, 40)
    kind = line.builder.intern("gradient-walk")
    line.builder.add("events", kind=kind, name=kind, start_ns=round(at * line.unit_ns), dur_ns=0)
    assert steps_of(line).warm_up == left_out


# --- what repeats --------------------------------------------------------------------------------


def test_without_a_marker_steps_end_with_the_optimizers_step():
    line = Timeline()
    for at in (0, 10, 20):
        line.add(line.thread(), Kind.OP, at, at + 7, name="aten::mm")
        line.add(
            line.thread(), Kind.FRAMEWORK, at + 7, at + 9,
            name="Optimizer.step#SGD.step", phase=int(Phase.OPTIMIZER),
        )  # fmt: skip
        line.add(
            line.thread(), Kind.FRAMEWORK, at + 9, at + 10,
            name="Optimizer.zero_grad#SGD.zero_grad", phase=int(Phase.OPTIMIZER),
        )  # fmt: skip
    steps = steps_of(line)
    assert (steps.source, steps.confidence) == ("periodicity", 0.9)
    assert bounds(steps) == [(0, 9), (9, 19), (19, 29)]


def test_then_they_begin_with_the_fetch_of_a_batch():
    line = Timeline()
    for at in (0, 10, 20):
        line.add(line.thread(), Kind.INPUT, at, at + 3, name="DataLoader")
        line.add(line.thread(), Kind.INPUT, at + 1, at + 2, name="collate")
        line.add(line.thread(), Kind.OP, at + 3, at + 9, name="aten::mm")
    steps = steps_of(line)
    assert (steps.source, steps.confidence) == ("periodicity", 0.8)
    assert bounds(steps) == [(0, 10), (10, 20), (20, 29)]


def test_then_what_most_names_agree_on():
    line = Timeline()
    line.add(line.thread(), Kind.OP, 0, 1, name="aten::empty")
    for at in (10, 20, 30):
        line.add(line.thread(), Kind.OP, at, at + 4, name="aten::conv2d")
        line.add(line.thread(), Kind.OP, at + 4, at + 8, name="aten::linear")
    steps = steps_of(line)
    assert steps.source == "periodicity"
    assert bounds(steps) == [(10, 20), (20, 30), (30, 38)]
    assert Repeats(3, "aten::conv2d") in steps.notes
    assert steps.confidence == pytest.approx(0.4 + 0.3 * 2 / 3, abs=0.01)


def kernels(line, start, names):
    for i, name in enumerate(names):
        line.add(line.stream(), Kind.KERNEL, start + i, start + i + 1, name=name)


def test_without_a_record_of_the_host_the_kernels_tell_them():
    line = Timeline()
    for at in (0, 50, 60, 70):
        kernels(line, at, ["gather", "gemm", "gemm", "softmax", "adam"])
    steps = steps_of(line)
    assert (steps.source, steps.warm_up, steps.device_side) == ("periodicity", 1, False)
    assert bounds(steps) == [(0, 50), (50, 60), (60, 70), (70, 75)]
    assert Repeats(4, "gather") in steps.notes


def test_calls_of_the_device_api_alone_do_not_move_what_the_kernels_tell():
    line = Timeline()
    for i, at in enumerate((0, 10, 20, 30)):
        for j, name in enumerate(("gather", "gemm", "adam")):
            call, work = (i + 0.1 * j, i + 0.1 * j + 0.05), (at + j, at + j + 1)
            line.launch(call, work, 10 * i + j + 1, name=name)
    assert bounds(steps_of(line)) == [(0, 10), (10, 20), (20, 30), (30, 33)]


def test_the_profilers_waits_for_an_idle_device_are_no_part_of_a_step():
    line = Timeline()
    for kind, start, end in (
        (Kind.SYNC, 0, 10),
        (Kind.OP, 12, 20),
        (Kind.SYNC, 21, 22),
        (Kind.OP, 23, 30),
        (Kind.SYNC, 31, 99),
    ):
        line.add(line.thread(), kind, start, end)
    assert bounds(steps_of(line)) == [(10, 31)]
    assert Cut.WITHOUT_PROFILERS_WAITS in steps_of(line).notes
    # Device work may be what they wait for.
    line.add(line.stream(), Kind.KERNEL, 5, 40)
    assert Cut.WITHOUT_PROFILERS_WAITS not in steps_of(line).notes


def test_layers_of_one_step_are_no_steps():
    line = Timeline()
    layer = ["norm", "gemm", "attention"]
    kernels(line, 0, ["embedding", *layer * 4, "loss", "clip", "adam"])
    assert steps_of(line).source == "whole-trace"


def test_one_kernel_that_repeats_is_no_step():
    line = Timeline()
    kernels(line, 0, ["gemm"] * 9)
    assert steps_of(line).source == "whole-trace"


def test_twice_is_no_rhythm_and_neither_are_wild_intervals():
    twice, wild = Timeline(), Timeline()
    for at in (0, 10):
        twice.add(twice.thread(), Kind.INPUT, at, at + 3, name="DataLoader")
    for at in (0, 1, 50, 55, 300):
        wild.add(wild.thread(), Kind.OP, at, at + 1, name="aten::mm")
    assert steps_of(twice).source == "whole-trace"
    assert steps_of(wild).source == "whole-trace"


def test_a_rhythm_of_few_names_among_many_is_none():
    line = Timeline()
    for at in (0, 10, 20):
        line.add(line.thread(), Kind.OP, at, at + 1, name="aten::mm")
    for i in range(9):
        line.add(line.thread(), Kind.OP, 30 + i, 31 + i, name=f"op {i}")
    assert steps_of(line).source == "whole-trace"


def test_equal_layers_of_one_step_are_no_steps_on_the_host_either():
    line = Timeline()
    calls = ["aten::conv2d", "aten::relu_"] * 13 + ["aten::linear"]
    for i, name in enumerate(calls):
        line.add(line.thread(), Kind.OP, i, i + 1, name=name)
    assert steps_of(line).source == "whole-trace"


LAYER = ("aten::linear", "aten::softmax", "aten::dropout")


def repeated(names=LAYER, *, times=6, pause=0.0, start=0.0):
    """Operations of one unit each that repeat, with a pause after each repetition."""
    line = Timeline()
    for i in range(times):
        for j, name in enumerate(names):
            at = start + i * (len(names) + pause) + j
            line.add(line.thread(), Kind.OP, at, at + 1, name=name)
    return line


def test_layers_without_a_sign_of_an_outer_loop_are_no_steps():
    assert steps_of(repeated()).source == "whole-trace"
    assert steps_of(repeated(pause=0.05)).source == "whole-trace"


def test_a_pause_after_each_repetition_shows_an_outer_loop():
    assert len(steps_of(repeated(pause=0.5)).starts) == 6


def test_pauses_of_equal_length_within_a_repetition_show_none():
    line = Timeline()
    for i in range(18):
        line.add(line.thread(), Kind.OP, 2 * i, 2 * i + 1, name=LAYER[i % 3])
    assert steps_of(line).source == "whole-trace"


@pytest.mark.parametrize(
    ("size", "found"), [(8, "whole-trace"), (4096, "periodicity"), (-1, "periodicity")]
)
def test_a_batch_that_is_copied_in_each_repetition_shows_an_outer_loop(size, found):
    line = repeated()
    for i in range(6):
        line.copy(3 * i, 3 * i + 0.1, size=size)
    assert steps_of(line).source == found


@pytest.mark.parametrize(("inside", "found"), [(True, "whole-trace"), (False, "periodicity")])
def test_a_wait_for_the_device_shows_an_outer_loop_unless_an_operation_waits(inside, found):
    line = Timeline()
    for i in range(6):
        for j, name in enumerate(LAYER):
            end = 0.98 if j == 2 and not inside else 1
            line.add(line.thread(), Kind.OP, 3 * i + j, 3 * i + j + end, name=name)
        line.add(line.thread(), Kind.SYNC, 3 * i + 2.98, 3 * i + 3)
    assert steps_of(line).source == found


@pytest.mark.parametrize(
    ("name", "found"), [("gelu", "whole-trace"), ("_fused_adam_", "periodicity")]
)
def test_an_update_of_parameters_shows_an_outer_loop(name, found):
    assert steps_of(repeated((*LAYER, f"aten::{name}"))).source == found


@pytest.mark.parametrize("at", [0, 30])
def test_other_work_right_before_or_after_repetitions_shows_that_they_are_layers(at):
    line = repeated(pause=0.5, start=1)
    line.add(line.thread(), Kind.OP, at, at + 0.9, name="aten::embedding")
    assert steps_of(line).source == "whole-trace"


def test_batches_that_are_all_fetched_before_the_work_are_no_steps():
    line = Timeline()
    for i in range(6):
        line.add(line.thread(), Kind.INPUT, i, i + 1, name="iter")
        line.add(line.thread(), Kind.OP, i + 0.2, i + 0.8, name="aten::stack")
    line.add(line.thread(), Kind.OP, 6, 20, name="aten::linear")
    assert steps_of(line).source == "whole-trace"


def test_an_optimizer_that_steps_less_often_belies_a_rhythm():
    line = Timeline()
    for at in range(0, 18, 3):
        line.add(line.thread(), Kind.OP, at, at + 1, name="aten::linear")
        line.add(line.thread(), Kind.OP, at + 1, at + 2, name="aten::relu")
    assert steps_of(line).source == "periodicity"
    optimizer = {"name": "Optimizer.step#Adam.step", "phase": int(Phase.OPTIMIZER)}
    line.add(line.thread(), Kind.FRAMEWORK, 18, 19, **optimizer)
    assert steps_of(line).source == "whole-trace"


def test_only_the_outermost_of_nested_calls_sets_the_rhythm():
    line = Timeline()
    for at in (0, 10, 20):
        line.add(line.thread(), Kind.INPUT, at, at + 5, name="DataLoader")
        line.add(line.thread(), Kind.PYTHON, at + 1, at + 4)
        line.add(line.thread(), Kind.INPUT, at + 2, at + 3, name="DataLoader")
    assert bounds(steps_of(line)) == [(0, 10), (10, 20), (20, 25)]


def with_launches(recorded):
    """Steps of three launches; of some of them the device work has a record."""
    line = Timeline().steps(*range(0, 10 * len(recorded) + 1, 10))
    for i, works in enumerate(recorded):
        for j in range(3):
            call, number = (10 * i + j, 10 * i + j + 0.5), 3 * i + j + 1
            if j < works:
                line.launch(call, (10 * i + j + 1, 10 * i + j + 2), number)
            else:
                line.add(line.thread(), Kind.LAUNCH, *call, correlation=number)
    return steps_of(line)


@pytest.mark.parametrize(
    ("recorded", "left_out"),
    [
        ((0, 0, 3, 3, 3, 3), 2),
        ((0, 1, 0, 0, 3, 3), 4),
        ((3, 0, 3, 3, 3, 3), 0),
        ((3, 3, 3, 3, 3, 3), 0),
        ((1, 1, 1, 1, 1, 1), 0),
        ((0, 0, 0, 0, 0, 0), 0),
    ],
)
def test_leading_steps_whose_device_work_is_lost_are_left_out(recorded, left_out):
    steps = with_launches(recorded)
    assert steps.warm_up == left_out
    assert (Cut.FIRST_STEPS_LOST in steps.notes) == (left_out > 0)


def unfinished(recorded):
    """A loop that never waits, 4 ms per launch and 10 ms per kernel, and its first kernels."""
    line = Timeline().steps(*range(0, 21, 4))
    for i in range(5):
        call = (4 * i, 4 * i + 1)
        if i < recorded:
            line.launch(call, (1 + 10 * i, 11 + 10 * i), i + 1)
        else:
            line.add(line.thread(), Kind.LAUNCH, *call, correlation=i + 1)
    return line


def test_last_steps_without_the_end_of_their_device_work_are_left_out():
    steps = steps_of(unfinished(recorded=3))
    assert bounds(steps) == [(0, 11), (11, 21), (21, 31)]
    assert steps.device_side
    assert steps.notes == (Cut.LAST_STEPS_LOST, Cut.AT_DEVICE_ENDS)


def test_the_launches_of_a_step_after_its_last_recorded_kernel_show_that_its_end_is_lost():
    line = unfinished(recorded=3)
    line.add(line.thread(), Kind.LAUNCH, 10, 11, correlation=99)
    assert bounds(steps_of(line)) == [(0, 11), (11, 21)]


def test_without_any_device_end_the_hosts_steps_remain_while_the_device_was_recorded():
    line = unfinished(recorded=1)
    line.add(line.thread(), Kind.LAUNCH, 2, 3, correlation=99)
    steps = steps_of(line)
    assert bounds(steps) == [(0, 4), (4, 8)]
    assert not steps.device_side
    assert steps.notes == (Cut.DEVICE_ENDS_LOST,)


def test_launches_whose_work_is_often_not_recorded_do_not_end_a_record():
    line = Timeline().steps(*range(0, 21, 4))
    for i in range(10):
        if i % 2:
            line.add(line.thread(), Kind.LAUNCH, 2 * i, 2 * i + 1, correlation=i + 1)
        else:
            line.launch((2 * i, 2 * i + 1), (2 * i + 1, 2 * i + 2), i + 1)
    steps = steps_of(line)
    assert (len(steps.starts), steps.notes) == (5, ())


def test_what_earlier_work_leaves_of_a_marked_step_is_not_its_time():
    line = Timeline().steps(0, 100, 220)
    line.add(line.stream(), Kind.KERNEL, -5, 99.8)
    line.launch((99, 99.2), (99.8, 100), 1)
    line.launch((150, 151), (152, 235), 2)
    steps = steps_of(line)
    assert bounds(steps) == [(0, 100), (100, 220)]
    assert not steps.device_side
    assert (steps.confidence, steps.notes) == (0.5, (Cut.DEVICE_BEHIND,))


# --- the whole trace -----------------------------------------------------------------------------


def test_otherwise_the_whole_trace_is_one_step():
    line = Timeline()
    line.add(line.thread(), Kind.OP, 3, 9)
    steps = steps_of(line)
    assert (steps.source, steps.confidence) == ("whole-trace", 0.0)
    assert bounds(steps) == [(3, 9)]
    assert Cut.WHOLE_TRACE in steps.notes


def test_idle_time_around_the_device_work_of_a_slice_is_nobodys():
    line = Timeline()
    line.add(line.thread(), Kind.OP, 0, 90)
    line.add(line.stream(), Kind.KERNEL, 40, 60)
    assert bounds(steps_of(line)) == [(40, 60)]


def test_a_lead_in_that_initialises_counts():
    line = Timeline()
    line.add(line.thread(), Kind.RUNTIME, 2, 30, name="cudaMalloc")
    line.add(line.stream(), Kind.KERNEL, 40, 60)
    assert bounds(steps_of(line)) == [(2, 60)]


def test_a_lead_in_that_prepares_a_batch_counts():
    line = Timeline()
    line.add(line.thread(), Kind.INPUT, 2, 30)
    line.add(line.stream(), Kind.KERNEL, 40, 60)
    assert bounds(steps_of(line)) == [(2, 60)]


def test_one_run_of_a_graph_is_the_step():
    line = Timeline()
    line.add(line.thread(), Kind.OP, 0, 90)
    line.add(line.stream(), Kind.KERNEL, 40, 60)
    steps = steps_of(line, signals=frozenset({"whole-step"}))
    assert bounds(steps) == [(0, 90)]
    assert steps.confidence > 0


def merged_runs(*starts):
    """Runs of a graph, each of which begins with its source and takes eight units."""
    line = Timeline()
    for at in starts:
        line.add(line.thread(), Kind.OP, at, at + 1, name="NoOp", scope="_SOURCE")
        for layer in range(3):
            for i, name in enumerate(("Conv2D", "BiasAdd", "Relu")):
                begin = at + 2 * layer + 0.5 * i + 1.5
                line.add(line.thread(), Kind.OP, begin, begin + 0.5, name=name)
        line.add(line.stream(), Kind.KERNEL, at + 2, at + 8)
    return line


WHOLE = {"signals": frozenset({"whole-step"})}


def test_layers_of_one_run_of_a_graph_are_no_steps():
    steps = steps_of(merged_runs(0), **WHOLE)
    assert (steps.source, steps.notes) == ("whole-trace", (Cut.ONE_RUN,))


@pytest.mark.parametrize("starts", [(0, 18), (0, 10, 30)])
def test_runs_of_a_graph_that_were_merged_into_one_file_are_steps(starts):
    steps = steps_of(merged_runs(*starts), **WHOLE)
    assert bounds(steps) == [(at, at + 8) for at in starts]
    assert (steps.source, steps.confidence) == ("marker", 0.8)
    assert steps.notes == (Cut.TRACED_RUNS,)


def test_runs_of_a_graph_that_overlap_are_not_separated():
    assert steps_of(merged_runs(0, 5), **WHOLE).source == "whole-trace"


def test_nothing_recorded_is_one_step_without_length():
    steps = steps_of(Timeline())
    assert in_units(steps.durations_ns) == [0]
    assert steps.confidence == 0.0


def test_two_optimizers_per_batch_are_one_step():
    """A GAN: fetch, discriminator step, generator step; the fetches tell the steps."""
    line = Timeline()
    thread = line.thread()
    for i in range(4):
        line.add(thread, Kind.INPUT, 10 * i, 10 * i + 2, name="next")
        for at in (5, 9):
            line.add(
                thread, Kind.FRAMEWORK, 10 * i + at - 1, 10 * i + at,
                name="Optimizer.step#Adam.step", phase=int(Phase.OPTIMIZER),
            )  # fmt: skip
    steps = Facts(line.trace()).steps
    assert (len(steps.starts), steps.source) == (4, "periodicity")
