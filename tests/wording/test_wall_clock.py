"""The wall clock and the timeline, in words."""

from stepwhy.result import Device, Op
from stepwhy.result.wall_clock import GapPart, WallClock
from stepwhy.result.wording.wall_clock import wall_clock_sentence

MS = 1_000_000


def device(name, busy):
    categories = {"compute": busy * MS, "dispatch": 5 * MS}
    return Device(name, "cpu", busy * MS, 0.5, busy * MS, 0, 0, 0, None, None, "", categories)


def clock(wall, busy, *gap, runs=1, steady=0, **about):
    parts = tuple(GapPart(kind, ns * MS) for kind, ns in gap)
    return WallClock(runs, steady, wall * MS, None if busy is None else busy * MS, parts, **about)


def test_one_run_names_what_a_timeline_does_not_show():
    ops = [Op("MatMul", "CPU:0", "forward", 1.0, 60 * MS, 60 * MS, None)]
    ops += [Op("Random", "CPU:0", "forward", 2.0, 40 * MS, 40 * MS, None)]
    one = clock(120, 90, ("preparation", 28), ("between", 2), ("after", 1))
    assert wall_clock_sentence(one, [device("CPU:0", 90)], ops) == (
        "One run, not a steady state: wall clock 120 ms, CPU:0 busy 90.0 ms, gap 30.0 ms (25 %): "
        "preparation of the graph 28.0 ms, between operations 2.00 ms, after the last operation "
        "1.00 ms. Longest operations, added up: MatMul 60.0 ms, Random 40.0 ms (2 calls)."
    )


def test_a_file_of_one_run_says_what_it_lacks():
    one = clock(10, 4, ("between", 4), ("before", 2), ("after", 0), is_whole=False)
    text = wall_clock_sentence(one, [device("GPU:0", 4), device("CPU:0", 1)], [])
    assert text == (
        "One run, not a steady state: 10.0 ms from first to last operation, devices busy 4.00 ms "
        "(GPU:0 4.00 ms, CPU:0 1.00 ms), gap 6.00 ms (60 %): between operations 4.00 ms, before "
        "the first work of a device 2.00 ms. The file does not record how long the run takes "
        "before its first operation and after its last one."
    )


def test_first_runs_are_part_of_the_mean():
    gap = (("first-runs", 260), ("before", 20), ("after", 1))
    many = clock(440, 158, *gap, runs=60, steady=58, first_runs=2, slowest_ns=8_000 * MS)
    assert wall_clock_sentence(many, [device("CPU:0", 158)], []) == (
        "Wall clock 440 ms per run (mean of 60 runs), CPU:0 busy 158 ms, gap 282 ms (64 %): the "
        "first 2 runs 260 ms (the slowest takes 8.00 s), before the first operation 20.0 ms."
    )


def test_few_runs_are_no_steady_state():
    few = clock(100, 90, ("first-runs", 10), runs=4, steady=3, first_runs=1, slowest_ns=130 * MS)
    text = wall_clock_sentence(few, [device("CPU:0", 90)], [])
    assert text.startswith("Too few runs for a steady state: wall clock 100 ms per run (mean of 4 ")
    assert text.endswith("the first run 10.0 ms (it takes 130 ms).")


def test_runs_that_were_not_traced():
    text = wall_clock_sentence(clock(100, None, runs=2), [], [])
    assert text == (
        "Too few runs for a steady state: wall clock 100 ms per run (mean of 2 runs). No run was "
        "traced: what it did is not known."
    )
