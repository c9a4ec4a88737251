"""Charts of the step time."""

from msgspec import structs

from stepwhy.apps.serve.summaries import Entry, Summary, copies
from stepwhy.apps.serve.trend import HEIGHT, WIDTH, trends
from tests.serve.runs import DAY_NS, MS, START_NS


def entry(number, ms=10, *, program="train.py", commit="", command="", spread=1):
    summary = Summary(
        "run",
        "explained",
        START_NS + number * DAY_NS,
        program=program,
        command=command or program,
        commit=commit,
        median_ns=round(ms * MS),
        p10_ns=round((ms - spread) * MS),
        p90_ns=round((ms + spread) * MS),
    )
    return Entry(f"run-{number}", summary)


def test_runs_are_in_order_and_slower_ones_higher():
    charts, left_out = trends([entry(2, 40), entry(1, 20), entry(0, 10)], "date")
    (chart,) = charts
    assert left_out == 0
    assert [dot.text.split(":")[0] for dot in chart.dots] == ["run-0", "run-1", "run-2"]
    xs, ys = [dot.x for dot in chart.dots], [dot.y for dot in chart.dots]
    assert xs == sorted(xs)
    assert ys == sorted(ys, reverse=True)
    assert all(0 < x < WIDTH for x in xs)
    assert all(0 < y < HEIGHT for y in ys)
    assert all(dot.high_y <= dot.y <= dot.low_y for dot in chart.dots)
    assert (chart.from_zero, chart.bottom) == (True, "0")
    assert [group.median for group in chart.groups] == ["10.0 ms", "20.0 ms", "40.0 ms"]


def test_small_changes_are_not_drawn_from_zero():
    charts, _ = trends([entry(0, 10), entry(1, 10.4)], "date")
    assert not charts[0].from_zero
    assert charts[0].dots[0].y - charts[0].dots[1].y > 10


def test_runs_of_a_commit_share_a_place():
    runs = [entry(0, commit="a" * 40), entry(1, commit="b" * 40), entry(2, commit="a" * 40)]
    charts, left_out = trends([*runs, entry(3)], "commit")
    assert left_out == 1
    places = {dot.text.rpartition(" ")[2]: dot.x for dot in charts[0].dots}
    assert len(charts[0].dots) == 3
    assert places["aaaaaaaaaa"] < places["bbbbbbbbbb"]
    groups = [(group.label, group.runs) for group in charts[0].groups]
    assert groups == [("a" * 10, 2), ("b" * 10, 1)]


def test_each_program_has_a_chart_and_the_rest_is_counted():
    runs = [entry(n, program=f"p{n % 8}.py", command=f"p --lr {n}") for n in range(16)]
    charts, left_out = trends([*runs, entry(20, program="once.py")], "date")
    assert [chart.program for chart in charts] == [f"p{n}.py" for n in range(6)]
    assert {chart.commands for chart in charts} == {2}
    assert left_out == 5


def test_equal_and_extreme_times_are_drawn():
    same, _ = trends([entry(0), entry(1)], "date")
    assert 0 < same[0].dots[0].y < HEIGHT
    huge, _ = trends([entry(0, 1e6, spread=1e6), entry(1, 0.001, spread=0)], "date")
    assert all(0 < dot.high_y <= dot.low_y < HEIGHT for dot in huge[0].dots)
    assert trends([], "date") == ([], 0)


def test_a_series_that_hardly_changes_is_one_line():
    charts, _ = trends([entry(0, 10), entry(1, 10.2), entry(2, 10.1)], "date")
    assert charts[0].flat == "10.0 ms to 10.2 ms"
    charts, _ = trends([entry(0, 10), entry(1, 10.4)], "date")
    assert charts[0].flat == ""


def test_copies_of_a_run_do_not_count():
    runs = [entry(0), entry(1, 20)]
    one, other = (structs.replace(e, summary=structs.replace(e.summary, wall_ns=1)) for e in runs)
    copy = structs.replace(one, path="copy")
    assert copies([copy, other, one]) == {"run-0": copy}
    charts, left_out = trends([one, other, copy], "date")
    assert len(charts[0].dots) == 2
    assert left_out == 0
