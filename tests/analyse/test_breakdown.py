"""The closed breakdown: by hand, against a model of unit cells, and always summing to the wall."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.breakdown.closed import mean_exact
from stepwhy.analyse.facts import Facts
from stepwhy.result import CATEGORIES
from stepwhy.trace import Copy, DeviceKind, Kind, Phase

FEW = settings(max_examples=120, deadline=None, derandomize=True)


def breakdown(line, unit_ns=MS, **meta):
    """Categories that are not zero, in units."""
    facts = Facts(line.trace(**meta))
    return {c: ns / unit_ns for c, ns in facts.breakdown.items() if ns}


# --- by hand -------------------------------------------------------------------------------------


def test_the_device_decides_and_the_host_explains_what_is_left():
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(line.stream(), Kind.KERNEL, 10, 40)
    line.add(line.stream(number=9), Kind.COLLECTIVE, 30, 50)
    line.copy(45, 55)
    line.add(main, Kind.INPUT, 0, 12)
    line.add(main, Kind.COMPILE, 50, 60)
    line.add(main, Kind.SYNC, 58, 70)
    line.add(main, Kind.OP, 66, 80)
    line.add(main, Kind.PYTHON, 80, 85)
    line.add(main, Kind.STORAGE, 85, 95)
    assert breakdown(line) == {
        "compute": 30,  # [10, 40)
        "communication": 10,  # [40, 50): not hidden behind the kernel
        "transfer": 5,  # [50, 55)
        "input_wait": 10,  # [0, 10)
        "compile": 5,  # [55, 60)
        "sync": 10,  # [60, 70)
        "dispatch": 10,  # [70, 80)
        "python": 5,
        "storage": 10,
        "unexplained": 5,
    }


def cut_trace(inner):
    """A step of 100 ms whose last function call ends after 40 ms."""
    line = Timeline().steps(0, 100)
    main = line.thread()
    line.add(main, Kind.PYTHON, 0, 100, name="train.py(3): train")
    line.add(main, inner, 10, 40, name="model.py(9): forward")
    line.add(main, Kind.OP, 20, 30)
    line.add(line.stream(), Kind.KERNEL, 20, 45)
    return line


@pytest.mark.parametrize("inner", [Kind.PYTHON, Kind.FRAMEWORK])
def test_a_function_around_the_end_of_a_cut_trace_is_no_evidence_of_python(inner):
    assert breakdown(cut_trace(inner))["unexplained"] == 55


def test_a_function_that_calls_another_one_later_is_evidence_until_then():
    line = cut_trace(Kind.PYTHON)
    line.add(line.thread(), Kind.PYTHON, 99, 100, name="train.py(8): log")
    assert breakdown(line) == {"compute": 25, "python": 75}


def test_nested_host_slices_count_once_at_the_innermost():
    line = Timeline().steps(0, 10)
    line.add(line.stream(), Kind.KERNEL, 9, 10)
    line.add(line.thread(), Kind.PYTHON, 0, 9)
    line.add(line.thread(), Kind.OP, 2, 6)
    line.add(line.thread(), Kind.PYTHON, 3, 4)
    assert breakdown(line) == {"compute": 1, "dispatch": 3, "python": 6}


def test_annotations_explain_nothing():
    line = Timeline().steps(0, 10)
    line.add(line.stream(), Kind.KERNEL, 0, 2)
    line.add(line.stream(), Kind.DEVICE_ANNOTATION, 0, 10)
    line.add(line.stream(), Kind.DEVICE_WAIT, 2, 9)
    line.add(line.thread(), Kind.ANNOTATION, 0, 10)
    assert breakdown(line) == {"compute": 2, "unexplained": 8}


def test_work_inside_the_fetch_of_a_batch_is_input_although_ops_run_in_it():
    line = Timeline().steps(0, 10)
    main = line.thread()
    line.add(main, Kind.INPUT, 0, 6)
    line.add(main, Kind.OP, 1, 5, name="aten::stack")
    line.add(main, Kind.OP, 6, 10, name="aten::mm")
    assert breakdown(line) == {"compute": 4, "input_wait": 6}


def test_an_executor_that_waits_is_not_compute():
    line = Timeline().steps(0, 20)
    line.add(line.executor(), Kind.KERNEL, 0, 5)
    line.add(line.executor(), Kind.INPUT, 5, 12)
    line.add(line.executor(lane=1), Kind.WAIT, 10, 15)
    line.add(line.executor(lane=1), Kind.KERNEL, 15, 16)
    assert breakdown(line) == {
        "compute": 6, "communication": 3, "input_wait": 7, "unexplained": 4,
    }  # fmt: skip


def test_a_copy_call_is_a_wait_only_on_a_driving_thread():
    def line_with(thread):
        line = Timeline().steps(0, 20)
        line.launch(
            (2, 18), (4, 6), 1, kind=Kind.MEMCPY, track=line.thread(thread), copy=int(Copy.H2D)
        )
        line.add(line.thread(), Kind.PYTHON, 2, 18)
        return line

    assert breakdown(line_with("main")) == {"transfer": 2, "sync": 14, "unexplained": 4}
    # A worker that stages the next batch holds nobody up.
    assert breakdown(line_with("pin memory")) == {"transfer": 2, "python": 14, "unexplained": 4}


def test_a_collective_on_the_host_is_communication_beside_an_idle_accelerator():
    line = Timeline().steps(0, 20)
    line.add(line.stream(), Kind.KERNEL, 0, 5)
    line.add(line.thread("gloo"), Kind.COLLECTIVE, 3, 15, name="gloo:all_reduce")
    assert breakdown(line) == {"compute": 5, "communication": 10, "unexplained": 5}


def test_short_silence_is_python_and_long_silence_is_not_explained():
    line = Timeline().steps(0, 10)
    main = line.thread()
    line.add(line.stream(), Kind.KERNEL, 0, 1)
    for start, end in ((1, 3), (4, 6), (7.5, 10)):
        line.add(main, Kind.OP, start, end)
    assert breakdown(line) == {
        "compute": 1, "dispatch": 6.5, "python": 1, "unexplained": 1.5,
    }  # fmt: skip


def test_short_silence_between_calls_of_the_device_api_alone_may_be_the_framework():
    line = Timeline().steps(0, 10)
    main = line.thread()
    line.add(line.stream(), Kind.KERNEL, 0, 1)
    for start, end in ((1, 3), (4, 6), (7.5, 10)):
        line.add(main, Kind.LAUNCH, start, end)
    assert breakdown(line) == {"compute": 1, "dispatch": 7.5, "unexplained": 1.5}


def test_the_engine_runs_between_two_backward_operations():
    line = Timeline().steps(0, 10)
    autograd = line.thread("autograd")
    line.add(line.stream(), Kind.KERNEL, 0, 1)
    line.add(autograd, Kind.OP, 1, 4, phase=int(Phase.BACKWARD))
    line.add(autograd, Kind.OP, 4.5, 8, phase=int(Phase.BACKWARD))
    assert breakdown(line) == {"compute": 1, "dispatch": 7, "unexplained": 2}


def test_between_two_backward_passes_the_driving_thread_decides():
    line = Timeline(MS // 1000).steps(0, 800, 1600, 2400)
    for at in (0, 800, 1600):
        line.add(line.stream(), Kind.KERNEL, at, at + 50)
        line.add(line.thread("autograd"), Kind.OP, at + 50, at + 100, phase=int(Phase.BACKWARD))
        line.add(line.thread(), Kind.PYTHON, at + 100, at + 800)
    assert breakdown(line, MS // 1000) == {"compute": 50, "dispatch": 50, "python": 700}


def test_a_first_call_that_takes_long_is_start_up():
    line = Timeline().steps(0, 40)
    line.add(line.stream(), Kind.KERNEL, 39, 40)
    line.add(line.thread(), Kind.OP, 0, 39)
    line.add(line.thread(), Kind.RUNTIME, 5, 25, name="cudaMalloc")
    line.add(line.thread(), Kind.RUNTIME, 30, 39, name="cudaMalloc")
    assert breakdown(line) == {"compute": 1, "compile": 20, "dispatch": 19}


def launching_op(line, start, launch, end):
    line.add(line.thread(), Kind.OP, start, end, name="delta_r2")
    line.add(line.thread(), Kind.LAUNCH, launch, launch + 1, name="cudaLaunchKernel")
    line.add(line.stream(), Kind.KERNEL, end, end + 1)


def test_an_operation_that_is_silent_before_it_launches_compiles():
    line = Timeline().steps(0, 60)
    launching_op(line, 5, 40, 46)
    assert breakdown(line) == {"compute": 1, "compile": 35, "dispatch": 6, "unexplained": 18}


def test_an_operation_that_is_silent_in_every_step_does_not_compile():
    line = Timeline().steps(0, 40, 80, 120, 160)
    for at in (0, 40, 80, 120):
        launching_op(line, at, at + 30, at + 39)
    assert breakdown(line) == {"compute": 1, "dispatch": 39}


def test_an_operation_that_launches_nothing_does_not_compile():
    line = Timeline().steps(0, 40)
    line.add(line.thread(), Kind.OP, 0, 39)
    line.add(line.stream(), Kind.KERNEL, 39, 40)
    assert breakdown(line) == {"compute": 1, "dispatch": 39}


def test_a_long_copy_call_is_no_start_up():
    line = Timeline().steps(0, 40)
    line.add(line.stream(), Kind.KERNEL, 39, 40)
    line.add(line.thread(), Kind.LAUNCH, 5, 39, name="cudaMemcpyAsync")
    assert "compile" not in breakdown(line)


def test_a_long_call_in_every_step_is_no_start_up():
    line = Timeline().steps(0, 20, 40, 60, 80)
    line.add(line.thread(), Kind.LAUNCH, 1, 14, name="cudaLaunchKernel")
    for at in (0, 20, 40, 60):
        line.add(line.stream(), Kind.KERNEL, at + 19, at + 20)
        line.add(line.thread(), Kind.RUNTIME, at + 4, at + 19, name="cudaHostAlloc")
    sets = Facts(line.trace()).partition.sets
    assert sets["compile"].total_ns == 13 * MS


def test_storage_comes_before_the_code_that_runs_in_it():
    line = Timeline().steps(0, 10)
    line.add(line.stream(), Kind.KERNEL, 9, 10)
    line.add(line.thread(), Kind.PYTHON, 0, 9)
    line.add(line.thread(), Kind.STORAGE, 1, 8)
    line.add(line.thread(), Kind.OP, 2, 4)
    line.add(line.thread(), Kind.SYNC, 4, 5)
    assert breakdown(line) == {"compute": 1, "sync": 1, "python": 2, "storage": 6}


def test_several_devices_have_one_breakdown_each_and_one_together():
    line = Timeline().steps(0, 10)
    line.add(line.stream("GPU:0"), Kind.KERNEL, 0, 4)
    line.add(line.stream("GPU:1"), Kind.KERNEL, 2, 7)
    line.add(line.thread(), Kind.SYNC, 0, 10)
    facts = Facts(line.trace())
    assert facts.breakdown["compute"] == 7 * MS
    assert facts.breakdown["sync"] == 3 * MS
    own = [facts.mean_of(p) for p in facts.device_partitions]
    assert [(b["compute"], b["sync"]) for b in own] == [(4 * MS, 6 * MS), (5 * MS, 5 * MS)]


def test_beside_an_unseen_accelerator_nothing_is_known_to_be_idle_time():
    line = Timeline().steps(0, 10)
    line.add(line.thread(), Kind.OP, 0, 10)
    assert breakdown(line, device_expected=True) == {"unexplained": 10}


def test_a_run_of_a_graph_schedules_whatever_does_not_run_in_it():
    line = Timeline().steps(0, 20)
    line.add(line.executor(), Kind.KERNEL, 2, 6, scope="a/MatMul")
    line.add(line.executor(), Kind.KERNEL, 9, 12, scope="b/MatMul")
    assert breakdown(line) == {"compute": 7, "dispatch": 13}


def test_without_a_marker_a_run_of_a_graph_lasts_from_its_first_operation_to_its_last():
    line = Timeline()
    line.add(line.executor(), Kind.KERNEL, 2, 6, scope="a/MatMul")
    line.add(line.executor(), Kind.KERNEL, 9, 12, scope="b/MatMul")
    line.add(line.thread(), Kind.ANNOTATION, 0, 20)
    assert breakdown(line) == {"compute": 7, "dispatch": 3, "unexplained": 10}


# --- against unit cells --------------------------------------------------------------------------

UNIT = MS // 4  # a gap of five units is a long silence; no call of twelve is a first use
SPAN = 48
_DEVICE = (Kind.KERNEL, Kind.MEMSET, Kind.COLLECTIVE, Kind.MEMCPY, Kind.DEVICE_WAIT)
_HOST = (
    Kind.INPUT, Kind.COMPILE, Kind.SYNC, Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.PYTHON,
    Kind.FRAMEWORK, Kind.STORAGE, Kind.ANNOTATION, Kind.WAIT, Kind.PROFILER, Kind.COLLECTIVE,
)  # fmt: skip
spans = st.tuples(st.integers(0, SPAN - 1), st.integers(0, 12)).map(
    lambda s: (s[0], min(s[0] + s[1], SPAN))
)


@st.composite
def timelines(draw):
    """Random overlapping slices on two devices and three threads; with them what was drawn."""
    line = Timeline(UNIT)
    drawn = []
    cuts = draw(st.lists(st.integers(1, SPAN - 1), max_size=3, unique=True).map(sorted))
    line.steps(*[0, *cuts, SPAN])
    for _ in range(draw(st.integers(0, 10))):
        stream = line.stream(draw(st.sampled_from(["GPU:0", "GPU:1"])), draw(st.integers(7, 8)))
        kind, span = draw(st.sampled_from(_DEVICE)), draw(spans)
        line.add(stream, kind, *span, correlation=draw(st.integers(-1, 4)))
        drawn.append(("device", kind, span))
    for _ in range(draw(st.integers(0, 14))):
        thread = draw(st.sampled_from(["main", "main", "autograd", "other"]))
        kind, span = draw(st.sampled_from(_HOST)), draw(spans)
        extra = {"phase": int(Phase.BACKWARD)} if thread == "autograd" else {}
        line.add(line.thread(thread), kind, *span, **extra)
        drawn.append((thread, kind, span))
    return line, drawn


def cells(drawn, where, *kinds):
    """Units of time that slices of some kinds cover."""
    covered = np.zeros(SPAN, dtype=bool)
    for place, kind, (start, end) in drawn:
        if place in where and kind in kinds:
            covered[start:end] = True
    return covered


@FEW
@given(timelines())
def test_every_step_is_closed_and_its_sets_are_those_of_the_cells(generated):
    line, drawn = generated
    facts = Facts(line.trace())
    steps, sets = facts.steps, facts.partition.sets

    assert (facts.per_step.sum(axis=1) == steps.durations_ns).all()
    assert (facts.per_step >= 0).all()
    assert sum(s.total_ns for s in sets.values()) == SPAN * UNIT

    if not facts.has_accelerator:
        return
    rest = np.ones(SPAN, dtype=bool)
    driving = {"main"}
    calls = {Kind.OP, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC}
    if any(place == "autograd" and kind in calls for place, kind, _ in drawn):
        driving.add("autograd")
    for category, covered in {
        "compute": cells(drawn, {"device"}, Kind.KERNEL, Kind.MEMSET),
        "communication": cells(drawn, {"device"}, Kind.COLLECTIVE),
        "transfer": cells(drawn, {"device"}, Kind.MEMCPY),
        "input_wait": cells(drawn, driving, Kind.INPUT),
        "host collectives": cells(drawn, {"main", "autograd", "other"}, Kind.COLLECTIVE),
        "compile": cells(drawn, driving, Kind.COMPILE),
        "sync": cells(drawn, driving, Kind.SYNC),
    }.items():
        mine, rest = rest & covered, rest & ~covered
        claimed = sets.get(category)
        if category == "communication":
            device_communication = mine
        elif category == "host collectives":
            assert sets["communication"].total_ns == (mine | device_communication).sum() * UNIT
        elif category != "communication":
            assert claimed.total_ns == mine.sum() * UNIT, category
    storage = rest & cells(drawn, driving, Kind.STORAGE)
    assert sets["storage"].total_ns == storage.sum() * UNIT


@FEW
@given(timelines())
def test_means_close_exactly(generated):
    facts = Facts(generated[0].trace())
    assert sum(facts.breakdown.values()) == facts.wall_ns
    assert min(facts.breakdown.values()) >= 0
    steady = facts.steps.durations_ns[facts.steps.steady]
    assert facts.wall_ns == round(steady.mean())


# --- means ---------------------------------------------------------------------------------------


@FEW
@given(
    st.lists(
        st.lists(st.integers(0, 10**15), min_size=len(CATEGORIES), max_size=len(CATEGORIES)),
        min_size=1, max_size=6,
    )
)  # fmt: skip
def test_mean_exact_closes_and_stays_within_rounding(rows):
    per_step = np.asarray(rows)
    wall, means = mean_exact(per_step, per_step.sum(axis=1))
    assert sum(means.values()) == wall
    for mean, total in zip(means.values(), per_step.sum(axis=0), strict=True):
        assert abs(mean - int(total) / len(rows)) <= len(CATEGORIES)
        assert mean >= 0
        assert total > 0 or mean == 0


def test_what_rounding_leaves_over_goes_to_a_category_that_has_time():
    per_step = np.zeros((3, len(CATEGORIES)), dtype=np.int64)
    sync, python = CATEGORIES.index("sync"), CATEGORIES.index("python")
    per_step[0, sync] = per_step[1, python] = 1
    wall, means = mean_exact(per_step, per_step.sum(axis=1))
    assert wall == 1
    assert means["compute"] == 0


def test_the_mean_of_no_steps_is_zero():
    wall, means = mean_exact(np.empty((0, len(CATEGORIES)), dtype=np.int64), np.empty(0))
    assert wall == 0
    assert set(means.values()) == {0}


@pytest.mark.parametrize("kind", [DeviceKind.TPU, DeviceKind.OTHER])
def test_any_accelerator_leads(kind):
    line = Timeline().steps(0, 10)
    line.add(line.stream("X:0", kind=kind), Kind.KERNEL, 0, 4)
    line.add(line.executor(), Kind.KERNEL, 3, 9)
    facts = Facts(line.trace())
    assert [a.name for a in facts.leading] == ["X:0"]
    assert facts.breakdown["compute"] == 4 * MS
    assert facts.breakdown["dispatch"] == 5 * MS
