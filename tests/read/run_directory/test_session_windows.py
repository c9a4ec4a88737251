"""Traced runs of a TensorFlow 1 loop become traced steps."""

from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.overhead import handed_over
from stepwhy.read.formats.run_directory.session_windows import RunWindow, join_runs
from stepwhy.read.formats.run_directory.step_log import Line
from stepwhy.trace import Kind
from stepwhy.trace.kinds import NEXT_RUN
from stepwhy.trace.merge import concatenate


def run(signature, start, end, **more):
    return Line("run", start * MS, end * MS, signature=signature, **more)


def window(start, end, kind=Kind.KERNEL):
    """A traced run whose executor works all the time but for its first and last unit."""
    line = Timeline().steps(start, end)
    line.add(line.executor(), kind, start + 1, end - 1, scope="node")
    return RunWindow(line.trace(), start * MS, end * MS)


def breakdown(windows, steps):
    facts = Facts(concatenate(join_runs(windows, steps)))
    ms = {name: ns // MS for name, ns in facts.recorded.items() if ns}
    return facts.steps.durations_ns.tolist(), ms


def test_all_runs_of_a_step_make_the_step():
    # 10 ms of training, then 40 ms of which 38 are storage, with 5 ms of Python between them.
    steps = [([run(0, 0, 10), run(1, 15, 55)], 60 * MS)]
    windows = [window(0, 10), window(15, 55, Kind.STORAGE)]
    assert breakdown(windows, steps) == (
        [50 * MS],
        {"compute": 8, "dispatch": 4, "storage": 38},
    )


def test_only_steps_traced_in_full_count():
    steps = [
        ([run(0, 0, 10), run(1, 15, 55)], 60 * MS),
        ([run(0, 60, 70), run(1, 75, 95)], 100 * MS),
    ]
    windows = [window(0, 10), window(60, 70), window(75, 95, Kind.STORAGE)]
    assert breakdown(windows, steps) == ([30 * MS], {"compute": 8, "dispatch": 4, "storage": 18})


def test_without_such_a_step_the_runs_that_begin_one_stand_for_it():
    steps = [([run(0, 0, 10), run(1, 15, 55)], 60 * MS)]
    assert breakdown([window(0, 10)], steps)[0] == [10 * MS]


def test_without_a_log_every_run_is_a_step():
    assert breakdown([window(0, 10), window(15, 55)], [])[0] == [10 * MS, 40 * MS]


def test_a_step_with_more_runs_than_most_is_left_out():
    # Every tenth step saves a checkpoint; one such step was traced.
    steps = [([run(0, at, at + 10)], at + 20) for at in range(0, 180, 20)]
    steps.append(([run(0, 180, 190), run(1, 190, 290)], 300))
    windows = [window(0, 10), window(180, 190), window(190, 290, Kind.STORAGE)]
    assert breakdown(windows, steps) == ([10 * MS], {"compute": 8, "dispatch": 2})


def late_window(start, end, first):
    """A traced run whose executor works from its first operation to the end."""
    line = Timeline().steps(start, end)
    line.add(line.executor(), Kind.KERNEL, first, end, scope="node")
    return RunWindow(line.trace(), start * MS, end * MS)


def test_what_a_fresh_run_takes_longer_to_begin_is_its_preparation():
    # The training run begins after 1 ms; the metric is new in every step and takes 6 ms to begin.
    steps = [
        ([run(0, at, at + 10), run(i, at + 10, at + 20, fresh=1)], (at + 20) * MS)
        for i, at in ((1, 0), (2, 20))
    ]
    windows = [late_window(at, at + 10, at + 1) for at in (0, 20)]
    windows += [late_window(at, at + 10, at + 6) for at in (10, 30)]
    assert breakdown(windows, steps) == (
        [20 * MS, 20 * MS],
        {"compute": 13, "compile": 5, "dispatch": 2},
    )


def test_feeding_a_fresh_run_is_not_its_preparation():
    # The same fetches took 4 ms to begin when nothing was prepared.
    steps = [
        ([run(0, 0, 10, fresh=1)], 10 * MS),
        ([run(0, 10, 20)], 20 * MS),
    ]
    # Two of its six milliseconds are; the mean of both steps is one.
    windows = [late_window(0, 10, 6), late_window(10, 20, 14)]
    _, ms = breakdown(windows, steps)
    assert ms == {"compute": 5, "compile": 1, "dispatch": 4}


def test_a_step_traced_too_early_counts_only_where_there_is_no_other():
    early = ([run(0, 0, 50, early=1)], 50 * MS)
    late = ([run(0, 50, 60)], 60 * MS)
    assert breakdown([window(0, 50), window(50, 60)], [early, late])[0] == [10 * MS]
    assert breakdown([window(0, 50)], [early, late])[0] == [50 * MS]


def handing_over(window_end, cpu=1, usual=10, runs=4, device="CPU:0"):
    """One traced run that works from 1 to 8 ms, and untraced ones; its step, and what is behind."""
    starts = range(1000, 1000 + 50 * runs, 50)
    log = [run(0, at, at + usual, cpu_ns=cpu * MS) for at in starts]
    line = Timeline().steps(0, window_end)
    line.add(line.executor(device), Kind.KERNEL, 1, 8, scope="node")
    windows = [RunWindow(line.trace(), 0, window_end * MS)]
    steps = [([run(0, 0, window_end, profiled=1)], 900 * MS)]
    steps += [([r], r.end_ns) for r in log]
    trace = concatenate(join_runs(windows, steps))
    rows = trace.rows(Kind.PROFILER)
    behind = zip(trace.slices.start_ns[rows], trace.slices.dur_ns[rows], strict=True)
    return Facts(trace).steps.durations_ns.tolist(), list(behind)


def test_the_time_in_which_a_run_hands_over_its_trace_is_behind_the_step():
    # After 22 ms without an operation; untraced runs take 9 ms, of which their thread is busy one.
    assert handing_over(30, usual=9) == ([9 * MS], [(9 * MS, 21 * MS)])


def test_of_handing_over_what_an_untraced_run_may_need_after_its_operations_stays():
    assert handing_over(30, usual=5, cpu=3) == ([11 * MS], [(11 * MS, 19 * MS)])


def test_no_more_is_handing_over_than_the_run_was_longer():
    # An untraced run waits as long after its last operation, for what no record shows.
    server = "/job:ps/task:0 CPU:0"
    assert handing_over(30, usual=28, device=server) == ([28 * MS], [(28 * MS, 2 * MS)])
    assert handing_over(30, usual=30, device=server) == ([30 * MS], [])
    # In one process all is recorded, so that the untraced runs were slower for another reason.
    assert handing_over(30, usual=30) == ([9 * MS], [(9 * MS, 21 * MS)])


def test_without_the_time_of_untraced_runs_nothing_is_handing_over():
    assert handing_over(30, runs=2) == ([30 * MS], [])


def test_the_runs_of_a_step_hand_over_their_traces_behind_it():
    log = [run(s, 1000 + 20 * i, 1010 + 20 * i, cpu_ns=MS) for s in (0, 1) for i in range(3)]
    steps = [([run(0, 0, 30), run(1, 40, 70)], 90 * MS), *(([r], r.end_ns) for r in log)]
    windows = []
    for at in (0, 40):
        line = Timeline().steps(at, at + 30)
        line.add(line.executor(), Kind.KERNEL, at + 1, at + 8, scope="node")
        windows.append(RunWindow(line.trace(), at * MS, (at + 30) * MS))
    facts = Facts(concatenate(join_runs(windows, steps)))
    assert facts.steps.durations_ns.tolist() == [18 * MS]
    assert handed_over(facts.trace, facts.steps).tolist() == [42 * MS]
    assert facts.recorded["dispatch"] == 4 * MS


def test_a_step_knows_what_the_next_one_is_fed_with():
    after = run(0, 60, 70, fed={"x:0": 17})
    steps = [([run(0, 0, 10), run(1, 15, 55)], 60 * MS), ([after], 80 * MS)]
    trace = concatenate(join_runs([window(0, 10), window(15, 55)], steps))
    values = trace.session_values
    assert [trace.string(int(name)) for name in values.name] == ["x:0"]
    assert (values.fed.tolist(), values.fingerprint.tolist()) == ([2], [17])
    assert trace.string(int(trace.slices.name[values.slice[0]])) == NEXT_RUN
    assert Facts(trace).steps.durations_ns.tolist() == [50 * MS]


def test_what_a_step_after_a_gap_is_fed_with_is_not_compared():
    after = run(0, 65, 75, fed={"x:0": 17})
    steps = [([run(0, 0, 10), run(1, 15, 55)], 60 * MS), ([after], 80 * MS)]
    trace = concatenate(join_runs([window(0, 10), window(15, 55)], steps))
    assert len(trace.session_values) == 0
