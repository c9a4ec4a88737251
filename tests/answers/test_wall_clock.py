"""The wall clock of runs of a graph against their timeline."""

import pytest
from tests.analyse.test_session_parts import op, session, training
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.answers.wall_clock import wall_clock
from stepwhy.analyse.facts import Facts
from stepwhy.result.reasons import Bound, Gap, Lack
from stepwhy.trace import Kind, Phase

SOURCE = ("NoOp", "_SOURCE", Phase.UNKNOWN)
WHOLE = frozenset({"host-ops", "graph-ops", "whole-step"})


def facts_of(line, **meta):
    return Facts(line.trace(framework="tensorflow", **meta))


def gap_of(clock):
    return {part.kind: part.ns / MS for part in clock.gap}


def small_graph(*, is_whole=True):
    """One run of a product of two random matrices: 3 operations beside the source."""
    line = Timeline()
    if is_whole:
        op(line, 0, 0.01, *SOURCE)
    op(line, 1, 30, "RandomStandardNormal", "a", Phase.FORWARD)
    op(line, 30, 60, "RandomStandardNormal", "b", Phase.FORWARD)
    op(line, 61, 100, "MatMul", "c", Phase.FORWARD)
    return line


def test_a_small_whole_graph_is_an_answer_about_one_run():
    facts = facts_of(small_graph(), signals=WHOLE)
    found = decide(facts)
    assert isinstance(found.reason, Bound)
    assert (found.bound_by, found.reason.of) == ("compute", "run")
    clock = wall_clock(facts)
    assert (clock.runs, clock.steady, clock.is_whole) == (1, 0, False)
    assert (clock.wall_ns, clock.busy_ns) == (100 * MS, 98.01 * MS)
    assert gap_of(clock) == {"between": 1.99}


def test_a_graph_without_its_source_was_filtered():
    facts = facts_of(small_graph(is_whole=False).steps(0, 100), signals=WHOLE)
    assert decide(facts).reason == Gap(Lack.OPERATIONS, 3)
    assert facts.steps.source == "marker"


def test_one_observed_run_has_time_around_its_operations():
    facts = facts_of(training())
    clock = wall_clock(facts)
    assert (clock.runs, clock.steady, clock.is_whole) == (1, 0, True)
    assert clock.busy_ns + sum(part.ns for part in clock.gap) == clock.wall_ns == 40 * MS
    assert gap_of(clock) == {"after": 3, "before": 2, "between": 0.5}


def test_the_first_runs_are_part_of_what_a_stopwatch_shows():
    line = session(*((start, start + 10) for start in range(200, 300, 20)))
    for start in range(200, 300, 20):
        op(line, start + 1, start + 9)
    line.mark(0, 90, graph=90)
    for start in range(100, 290, 10):
        line.mark(start, start + 10, graph=10)
    clock = wall_clock(facts_of(line))
    assert (clock.runs, clock.steady, clock.first_runs) == (20, 19, 1)
    assert clock.wall_ns == 14 * MS
    assert clock.slowest_ns == 90 * MS
    assert clock.busy_ns == 8 * MS
    assert gap_of(clock) == {"first-runs": 4, "before": 1, "after": 1}


@pytest.mark.parametrize("framework", ["pytorch", "jax"])
def test_other_records_have_no_runs_of_a_graph(framework):
    line = Timeline().steps(0, 100)
    line.add(line.thread(), Kind.OP, 0, 50)
    assert wall_clock(Facts(line.trace(framework=framework))) is None
