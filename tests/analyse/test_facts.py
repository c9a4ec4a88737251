"""Facts of a trace: what spans it, what is steady, and means per step."""

from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.result import CATEGORIES
from stepwhy.trace import Kind


def steady_run():
    line = Timeline().steps(0, 90, 100, 110).steps(120, 130)
    for at in (-5, 10, 95, 109, 115, 129, 130):
        line.add(line.thread(), Kind.OP, at, at + 1, name=str(at))
    return Facts(line.trace())


def test_the_span_covers_slices_and_steps():
    assert steady_run().span == (-5 * MS, 131 * MS)


def test_rows_that_start_in_a_steady_step():
    facts = steady_run()
    rows = facts.in_steady(facts.trace.rows(Kind.OP))
    names = [facts.trace.string(facts.trace.slices.name[r]) for r in rows]
    assert (facts.steps.warm_up, facts.steady_count) == (1, 3)
    assert names == ["95", "109", "129"]
    assert facts.mean_ns(10) == 3


def test_shares_sum_to_one():
    facts = steady_run()
    assert abs(sum(facts.share(c) for c in CATEGORIES) - 1) < 1e-9
    assert facts.share("compute") == 0.1


def test_nothing_recorded_has_shares_of_nothing():
    facts = Facts(Timeline().trace())
    assert facts.wall_ns == 0
    assert {facts.share(c) for c in CATEGORIES} == {0.0}
    assert (facts.activities, len(facts.ops), facts.totals) == ([], 0, [])
