"""Traced runs of a TensorFlow 1 loop become traced steps."""

from stepwhy.engine.session_windows import RunWindow, join_runs
from stepwhy.engine.step_log import Line
from stepwhy.passes.facts import Facts
from stepwhy.trace import Kind
from stepwhy.trace.merge import concatenate
from tests.passes.timeline import MS, Timeline


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
