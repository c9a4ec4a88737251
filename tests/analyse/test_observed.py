"""Steps that ran without a profiler, and the breakdown on their time scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import MS, SharedMachine, Timeline

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.breakdown.corrections import TO_UNPROFILED, apply
from stepwhy.analyse.breakdown.rescaling import Scale
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.driver_times import DriverTimes, _typical
from stepwhy.analyse.steps.observed import Observed
from stepwhy.result import CATEGORIES
from stepwhy.result.reasons import Gap, Lack
from stepwhy.trace import Kind

FEW = settings(max_examples=150, deadline=None, derandomize=True)


def observed(wall, outside=None, wait=None, cpu=None, core_wait=None):
    return Observed(np.asarray([wall]), 0, DriverTimes(outside, wait, cpu, core_wait))


def rescale(recorded, observed, *, on_accelerator):
    """The breakdown of profiled steps on the time scale of unprofiled ones."""
    return apply(recorded, TO_UNPROFILED, Scale(recorded, observed, on_accelerator))[-1].after


def categories(**given_ns):
    return {**dict.fromkeys(CATEGORIES, 0), **given_ns}


def test_without_a_log_nothing_was_observed():
    assert Facts(Timeline().steps(0, 10).trace()).observed is None
    line = Timeline().steps(0, 10)
    line.mark(0, 10, profiled=1)
    assert Facts(line.trace()).observed is None


def test_the_wall_is_the_median_of_steady_unprofiled_steps():
    line = Timeline().steps(0, 1)
    at = 0
    for length in (90, 10, 12, 11):
        line.mark(at, at + length)
        at += length
    line.mark(at, at + 40, profiled=1)
    seen = Facts(line.trace()).observed
    assert (seen.warm_up, seen.wall_ns) == (1, 11 * MS)
    assert (seen.driver.outside_ns, seen.profiler_cost) == (None, None)


def test_time_outside_the_run_call_is_measured():
    line = Timeline().steps(0, 1)
    for i, graph in enumerate((8, 7, 9)):
        line.mark(10 * i, 10 * i + 10, graph=graph)
    assert Facts(line.trace()).observed.driver.outside_ns == 2 * MS
    line.mark(30, 40)
    assert Facts(line.trace()).observed.driver.outside_ns is None


def test_the_profilers_cost_is_a_ratio_of_medians_with_an_interval():
    line = Timeline().steps(0, 12, 24, 36, 48)
    for i in range(6):
        line.mark(100 + 10 * i, 110 + 10 * i)
    seen = Facts(line.trace()).observed
    assert seen.profiler_cost == pytest.approx(0.2)
    assert seen.profiler_cost_interval == (0.2, 0.2)


def test_a_log_without_durations_tells_no_cost():
    line = Timeline().steps(0, 12, 24, 36)
    line.mark(100, 110, graph=0)
    seen = Facts(line.trace()).observed
    assert (seen.profiler_cost, seen.profiler_cost_interval) == (None, None)


def test_few_profiled_steps_tell_no_cost():
    line = Timeline().steps(0, 12, 24)
    line.mark(100, 110)
    assert Facts(line.trace()).observed.profiler_cost is None


def test_on_an_accelerator_the_profiler_cost_the_host_time():
    recorded = categories(compute=60, sync=10, dispatch=20, python=10)
    assert rescale(recorded, observed(85), on_accelerator=True) == categories(
        compute=60, sync=10, dispatch=10, python=5
    )


def test_on_a_cpu_everything_is_scaled():
    recorded = categories(compute=60, input_wait=40)
    assert rescale(recorded, observed(50), on_accelerator=False) == categories(
        compute=30, input_wait=20
    )


def test_profiled_steps_that_were_far_shorter_do_not_tell_what_the_others_do():
    recorded = categories(compute=30, dispatch=10)
    for on_accelerator in (False, True):
        scaled = rescale(recorded, observed(100), on_accelerator=on_accelerator)
        assert scaled == categories(compute=38, dispatch=12, unexplained=50)


def test_steps_that_wait_for_cores_take_longer_for_the_same_work():
    free, recorded = np.asarray([200]), categories(compute=80, dispatch=20)
    waiting = Observed(free, 0, most_stretched=2.5)
    scaled = rescale(recorded, waiting, on_accelerator=False)
    assert (scaled["compute"], scaled["dispatch"], scaled["unexplained"]) == (160, 40, 0)
    # An accelerator does not wait for cores.
    scaled = rescale(recorded, waiting, on_accelerator=True)
    assert (scaled["compute"], scaled["unexplained"]) == (100, 75)


@pytest.mark.parametrize(("delay_ms", "most"), [(0, 1.25), (20, 2.5), (100, 1.25 / 0.4)])
def test_how_far_steps_are_stretched_follows_the_wait_for_cores(delay_ms, most):
    line = Timeline().steps(0, 10)
    for i in range(4):
        line.mark(10 * i, 10 * i + 10)
    for name, at_ms, value_ms in (
        ("cpu_ns", 0, 0),
        ("cpu_ns", 40, 20),
        ("run_delay_ns", 0, 0),
        ("run_delay_ns", 40, delay_ms),
    ):
        row = {"time_ns": at_ms * MS, "value": value_ms * MS, "name": line.builder.intern(name)}
        line.builder.add("counters", **row)
    assert Facts(line.trace()).observed.most_stretched == pytest.approx(most, rel=0.01)


def test_what_was_compiled_is_compiling_traced_or_not():
    def scaled(recorded, compiled):
        seen = Observed(np.asarray([100]), 0, DriverTimes(compile_ns=compiled))
        return rescale(recorded, seen, on_accelerator=False)

    assert scaled(categories(), 70) == categories(compile=70, unexplained=30)
    assert scaled(categories(), 170) == categories(compile=100)
    traced = categories(compute=20, compile=50, unexplained=30)
    assert scaled(traced, 60) == categories(compute=20, compile=60, unexplained=20)
    assert scaled(traced, 40) == traced


def test_time_outside_the_run_call_is_python():
    recorded = categories(compute=60, dispatch=40)
    assert rescale(recorded, observed(100, outside=50), on_accelerator=False) == categories(
        compute=30, dispatch=20, python=50
    )


def test_time_outside_the_run_call_without_a_core_is_not_explained():
    recorded = categories(compute=50)
    slept = rescale(recorded, observed(100, outside=50, cpu=20), on_accelerator=False)
    assert slept == categories(compute=50, python=20, unexplained=30)
    worked = rescale(recorded, observed(100, outside=50, cpu=90), on_accelerator=False)
    assert worked == categories(compute=50, python=50)


def test_python_that_waits_for_a_core_is_python():
    recorded = categories(compute=50)
    seen = observed(100, outside=50, cpu=20, core_wait=25)
    assert rescale(recorded, seen, on_accelerator=False) == categories(
        compute=50, python=45, unexplained=5
    )
    # The thread is in a call that was not recorded: it ran or waited for a core for 80 of 100.
    silent = categories(compute=10, unexplained=90)
    seen = observed(100, cpu=30, core_wait=50)
    assert rescale(silent, seen, on_accelerator=True) == categories(
        compute=10, python=70, unexplained=20
    )


@pytest.mark.parametrize(("waiting", "known"), [(0.0, True), (0.75, False)])
def test_waiting_for_cores_is_no_cost_of_profiling(waiting, known):
    # Traced steps take twice as long as those beside them.
    run = SharedMachine().work(60, 10, waiting=waiting)
    for _ in range(8):
        run.trace_step(20)
    observed = Facts(run.work(60, 10, waiting=waiting).trace()).observed
    assert observed.is_contended is not known
    assert (observed.profiler_cost is not None) is known


def test_the_wait_for_a_core_is_that_of_typical_steps():
    line = Timeline().steps(0, 10)
    for i, (length, delay) in enumerate([(10, 2), (10, None), (10, 4), (60, 50), (10, 3)]):
        line.mark(100 * i, 100 * i + length, delay=delay)
    assert Facts(line.trace()).observed.driver.core_wait_ns == 3 * MS
    line = Timeline().steps(0, 10)
    line.mark(0, 10)
    assert Facts(line.trace()).observed.driver.core_wait_ns is None


def test_a_step_of_which_nothing_was_recorded_is_not_explained():
    assert rescale(categories(), observed(100, outside=30), on_accelerator=True) == categories(
        unexplained=70, python=30
    )


def test_on_a_cpu_the_wait_for_input_is_the_measured_one():
    recorded = categories(compute=60, input_wait=20)
    assert rescale(recorded, observed(100, wait=70), on_accelerator=False) == categories(
        compute=30, input_wait=70
    )
    # On an accelerator part of the wait may pass while the device still computes.
    assert rescale(recorded, observed(80, wait=70), on_accelerator=True) == recorded
    # A loader inside a loader counts twice; no step waits longer than it lasts.
    assert rescale(recorded, observed(50, wait=70), on_accelerator=False)["input_wait"] == 50


def test_a_thread_that_used_its_core_was_not_blocked():
    recorded = categories(compute=40, unexplained=60)
    split = {cpu: rescale(recorded, observed(100, cpu=cpu), on_accelerator=False) for cpu in
             (100, 70, 40, 0, 120)}  # fmt: skip
    assert {cpu: (s["python"], s["unexplained"]) for cpu, s in split.items()} == {
        100: (60, 0), 70: (30, 30), 40: (0, 60), 0: (0, 60), 120: (60, 0),
    }  # fmt: skip


def test_a_core_in_use_explains_nothing_where_nothing_was_recorded():
    nothing = categories(unexplained=100)
    assert rescale(nothing, observed(100, cpu=100), on_accelerator=False) == nothing


def test_typical_times_leave_out_the_steps_that_the_median_leaves_out():
    line = Timeline().steps(0, 1)
    for i, length in enumerate((10, 10, 11, 11, 12, 30)):
        line.mark(100 * i, 100 * i + length, wait=length - 9, cpu=9)
    seen = Facts(line.trace()).observed
    assert seen.driver.cpu_ns == 9 * MS
    assert seen.driver.input_wait_ns == 2 * MS
    line.mark(600, 611)
    assert Facts(line.trace()).observed.driver.cpu_ns is None


def test_light_steps_count_but_say_nothing_of_what_they_did_not_note():
    line = Timeline().steps(0, 1)
    for i in range(20):
        light = i % 4 == 0
        line.mark(10 * i, 10 * i + 10, light=light, **({} if light else {"wait": 4, "cpu": 5}))
    seen = Facts(line.trace()).observed
    assert len(seen.durations_ns) == 20
    assert (seen.driver.input_wait_ns, seen.driver.cpu_ns) == (4 * MS, 5 * MS)


def test_a_wait_that_is_noted_with_a_light_step_is_not_missed():
    line = Timeline().steps(0, 1)
    for i in range(19):
        line.mark(10 * i, 10 * i + 10, light=i % 5 == 0, **({} if i % 5 in (0, 4) else {"wait": 4}))
    assert Facts(line.trace()).observed.driver.input_wait_ns == 4 * MS


def test_where_every_step_is_light_nothing_else_is_known():
    line = Timeline().steps(0, 1)
    for i in range(4):
        line.mark(10 * i, 10 * i + 10, light=1, wait=0)
    assert Facts(line.trace()).observed.driver.input_wait_ns is None


steps_of_a_log = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=40
)


@FEW
@given(steps_of_a_log, st.lists(st.booleans(), min_size=40, max_size=40))
def test_light_steps_between_the_others_do_not_disturb_their_means(steps, lights):
    line = Timeline().steps(0, 1)
    at = 0
    for (length, wait, cpu), light in zip(steps, lights, strict=False):
        known = {} if light else {"wait": wait, "cpu": cpu}
        line.mark(at, at + length, light=int(light), **known)
        at += length
    facts = Facts(line.trace())
    seen = facts.observed
    assert len(seen.durations_ns) == len(steps)
    assert sum(facts.breakdown.values()) == seen.wall_ns
    looked_at = [
        step
        for step, light, after in zip(steps, lights, [*lights[1 : len(steps)], False], strict=False)
        if not light and not after
    ]
    if seen.warm_up == 0 and looked_at:
        assert seen.driver.input_wait_ns == typical([(n, wait) for n, wait, _ in looked_at])
        assert seen.driver.cpu_ns == typical([(n, cpu) for n, _, cpu in looked_at])


def typical(steps):
    """Mean over the middle half by length, as `find_observed` has it without light steps."""
    line = Timeline().steps(0, 1)
    for i, (length, wait) in enumerate(steps):
        line.mark(100 * i, 100 * i + length, wait=wait)
    rows = np.arange(len(steps))
    trace = line.trace()
    return _typical(trace, rows, trace.marks.input_wait_ns)


times = st.integers(0, 10**12)


@FEW
@given(
    st.fixed_dictionaries(dict.fromkeys(CATEGORIES, times)),
    times,
    st.lists(st.none() | times, min_size=4, max_size=4),
    st.booleans(),
)
def test_rescaled_categories_sum_to_the_wall_and_are_never_negative(
    recorded, wall, measured, on_accelerator
):
    outside, wait, cpu, core_wait = measured
    outside = None if outside is None else min(outside, wall)
    seen = observed(wall, outside, wait, cpu, core_wait)
    scaled = rescale(recorded, seen, on_accelerator=on_accelerator)
    assert sum(scaled.values()) == wall
    assert min(scaled.values()) >= 0
    assert set(scaled) == set(CATEGORIES)


def test_the_breakdown_of_a_captured_run_is_on_the_unprofiled_scale():
    line = Timeline().steps(0, 20, 40, 60)
    for at in (0, 20, 40):
        line.add(line.stream(), Kind.KERNEL, at, at + 10)
        line.add(line.thread(), Kind.OP, at + 10, at + 20)
    for i in range(4):
        line.mark(100 + 15 * i, 115 + 15 * i)
    facts = Facts(line.trace())
    assert facts.recorded["dispatch"] == 10 * MS
    assert facts.breakdown["compute"] == 10 * MS
    assert facts.breakdown["dispatch"] == 5 * MS
    assert facts.wall_ns == 15 * MS


def ahead(profiled, *, framework="jax", every=4, last=400, wait=20):
    """A loop that launches in 1 ms and waits for many in every fourth step, and traced steps."""
    line = Timeline().steps(*profiled)
    line.add(line.executor(), Kind.KERNEL, profiled[0], profiled[-1])
    at = 1000
    for step in range(last):
        end = at + (wait + 1 if step % every == every - 1 else 1)
        line.mark(at, end, cpu=1)
        at = end
    return Facts(line.trace(framework=framework))


def test_a_loop_that_waits_for_the_device_now_and_then_lasts_the_mean_step():
    facts = ahead((0, 1, 2, 3, 24))
    assert (facts.observed.uneven, facts.observed.wait_traced) == (True, True)
    assert facts.wall_ns == facts.observed.wall_ns == 6 * MS
    assert facts.observed.profiler_cost is None
    assert decide(facts).bound_by != "host"


# With few waits, each stretch of the run holds only one, which may be a pause; together they take
# most of the time.
def test_what_takes_most_of_the_step_bounds_it_although_waits_were_not_traced():
    line = Timeline().steps(0, 1, 2, 3, 4)
    for step in range(4):
        line.add(line.executor(), Kind.KERNEL, step, step + 0.83)
        line.add(line.thread(), Kind.OP, step + 0.83, step + 1)
    at = 1000.0
    for step in range(600):
        end = at + (6.4 if step % 10 == 9 else 1)
        line.mark(at, end, cpu=1)
        at = end
    facts = Facts(line.trace(framework="jax"))
    assert not facts.observed.wait_traced
    assert facts.share("unexplained") > 1 / 3
    assert decide(facts).bound_by == "host"


@pytest.mark.parametrize(("every", "last"), [(10, 600), (50, 600), (25, 93), (16, 40)])
def test_waits_that_were_not_traced_are_unexplained(every, last):
    facts = ahead((0, 1, 2, 3, 4), every=every, last=last, wait=20 if last > 500 else 500)
    observed = facts.observed
    assert (observed.uneven, observed.wait_traced) == (True, False)
    assert facts.breakdown["unexplained"] >= observed.wall_ns - MS
    assert sum(facts.breakdown.values()) == observed.wall_ns
    assert decide(facts).reason == Gap(Lack.TRACED_WAITS)


@pytest.mark.parametrize(
    ("signals", "unprofiled", "seen"),
    [({"host-ahead"}, 4, False), ({"host-ahead"}, 8, True), (set(), 4, True)],
)
def test_steps_without_the_waits_that_the_profiled_ones_include_are_no_steps(
    signals, unprofiled, seen
):
    line = Timeline().steps(0, 1, 2, 23, 44, 65)
    line.add(line.executor(), Kind.KERNEL, 0, 65)
    for step in range(unprofiled):
        line.mark(100 + step, 101 + step)
    facts = Facts(line.trace(framework="jax", signals=frozenset(signals)))
    assert (facts.observed is not None) == seen
    assert facts.wall_ns == (MS if seen else 13 * MS)


def test_a_loop_whose_host_runs_nothing_ahead_lasts_the_median_step():
    facts = ahead((0, 1, 2, 3, 24), framework="pytorch")
    assert (facts.observed.uneven, facts.observed.wall_ns) == (False, MS)


@pytest.mark.parametrize(("wait_ms", "wall_ms"), [(60, 30), (6, 10)])
def test_where_batches_come_in_bursts_the_mean_is_the_step(wait_ms, wall_ms):
    line = Timeline().steps(0, 10)
    line.add(line.executor(), Kind.KERNEL, 0, 10)
    for at in range(0, 1800, 90):
        line.mark(at, at + 10, wait=0)
        line.mark(at + 10, at + 20, wait=0)
        line.mark(at + 20, at + 90, wait=wait_ms)
    facts = Facts(line.trace(framework="pytorch"))
    assert facts.observed.uneven == (wait_ms == 60)
    assert facts.wall_ns == wall_ms * MS
    if wait_ms == 60:
        assert facts.breakdown["input_wait"] == 20 * MS


def test_steps_that_wait_count_even_if_most_of_them_were_only_timed():
    line = Timeline().steps(0, 10)
    line.add(line.executor(), Kind.KERNEL, 0, 10)
    for at in range(0, 3600, 180):
        # Every second long step falls into a stretch of light ones.
        is_light = at % 360 == 180
        for step in range(8):
            line.mark(at + 10 * step, at + 10 * step + 10, wait=0)
        wait = {"light": True} if is_light else {"wait": 90}
        line.mark(at + 80, at + 180, **wait)
    facts = Facts(line.trace(framework="tensorflow"))
    assert facts.wall_ns == 20 * MS
    assert facts.breakdown["input_wait"] == 10 * MS


def test_a_pause_makes_no_loop_uneven():
    line = Timeline().steps(0, 1)
    for step in range(30):
        line.mark(100 * step, 100 * step + (50 if step == 20 else 1))
    assert not Facts(line.trace(framework="jax")).observed.uneven
