"""Where the step time changed for good, and which side the result is about."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import MS, Run, SharedMachine

from stepwhy.analyse.facts import Facts
from stepwhy.result import CATEGORIES
from stepwhy.trace import SampleRole

FEW = settings(max_examples=40, deadline=None, derandomize=True)


def parts(facts):
    return [(r.first, r.end) for r in facts.regimes.all]


def test_without_a_change_the_run_is_one_stretch():
    run = Run().go(50, 10, traced=(9, 10)).go(50, 30)
    facts = Facts(run.trace())
    assert parts(facts) == [(0, 102)]
    assert len(facts.steps.starts) == 2


def test_the_change_lies_where_the_steps_show_it_not_where_it_was_noticed():
    run = Run().go(100, 10, traced=(20, 21)).go(70, 20).change().go(30, 20)
    facts = Facts(run.trace())
    assert parts(facts) == [(0, 102), (102, 202)]
    old, new = facts.regimes.all
    assert (old.traced, new.traced) == (2, 0)
    assert old.median_ns == pytest.approx(10 * MS, rel=0.02)
    assert new.median_ns == pytest.approx(20 * MS, rel=0.02)
    # The other side took longer, but nothing of it was traced.
    assert facts.regimes.described == 0
    assert facts.wall_ns == old.median_ns


def test_what_is_noticed_late_from_outside_is_searched_for_as_far_back_as_it_lies():
    run = Run().go(600, 100).go(400, 115)
    assert parts(Facts(run.change().trace())) == [(0, 1000)]
    run = Run().go(600, 100).go(400, 115)
    assert parts(Facts(run.change(steps=390).trace())) == [(0, 600), (600, 1000)]


def test_a_request_without_a_change_of_the_step_time_splits_nothing():
    run = Run().go(600, 100).change(steps=200).go(200, 100)
    assert parts(Facts(run.trace())) == [(0, 800)]


def test_of_traced_stretches_the_longest_is_described():
    run = Run().go(100, 10, traced=(20, 21)).go(70, 20).change().go(400, 20, traced=(3, 4, 5))
    facts = Facts(run.trace())
    assert facts.regimes.described == 1
    assert len(facts.steps.starts) == 3
    assert facts.wall_ns == pytest.approx(20 * MS, rel=0.02)
    assert facts.observed.warm_up == 0
    # Half of the traced steps computes, whatever the other stretch did.
    assert facts.share("compute") == pytest.approx(0.5, abs=0.01)


def test_a_run_that_changes_back_has_three_stretches():
    run = Run().go(100, 10).go(80, 20).change().go(160, 10).change().go(20, 10)
    assert parts(Facts(run.trace())) == [(0, 100), (100, 180), (180, 360)]


def compiling(run, count, *, every):
    """Steps of 10 ms; so many of them, each the last of a few, compile for 90 ms as well."""
    intern = run.builder.intern
    for _ in range(count):
        run.go(every - 1, 10)
        begin = round((run.at + 1) * MS)
        event = {"kind": intern("compile"), "name": intern("step"), "start_ns": begin}
        run.builder.add("events", **event, dur_ns=90 * MS)
        run.mark_step(100)
    return run


def test_compilations_that_become_rarer_part_nothing():
    run = compiling(Run(), 30, every=2).change()
    run = compiling(run, 20, every=6).change()
    facts = Facts(compiling(run, 5, every=40).trace())
    assert parts(facts) == [(0, 380)]
    assert facts.wall_ns == pytest.approx((10 + 55 * 90 / 380) * MS, rel=0.1)


def test_a_step_that_changes_parts_the_run_whatever_compiles_now_and_then():
    run = compiling(Run(), 5, every=20).go(100, 20).change()
    assert parts(Facts(run.trace())) == [(0, 100), (100, 200)]


def test_a_change_of_rare_steps_leaves_the_usual_step_alone():
    run = Run().go(100, 10)
    for _ in range(10):
        run.go(9, 10).mark_step(90)
    assert parts(Facts(run.change().trace())) == [(0, 200)]


def test_warm_up_is_no_stretch_of_its_own():
    run = Run().go(10, 200).go(100, 10).go(80, 20).change()
    assert parts(Facts(run.trace())) == [(0, 110), (110, 190)]


@FEW
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 50), st.booleans(), st.booleans()),
        min_size=1,
        max_size=5,
    )
)
def test_stretches_part_the_run_and_the_breakdown_stays_closed(pieces):
    run = Run()
    for count, length, traced, changed in pieces:
        run.go(count, length, traced=(count // 2,) if traced else ())
        if changed:
            run.change()
    facts = Facts(run.trace())
    bounds = parts(facts)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == len(facts.trace.marks)
    assert [b for _, b in bounds[:-1]] == [a for a, _ in bounds[1:]]
    total = sum(r.total_ns for r in facts.regimes.all)
    assert total == int(facts.trace.marks.dur_ns.sum())
    assert sum(r.traced for r in facts.regimes.all) <= len(facts.recorded_steps.starts)
    assert set(facts.breakdown) == set(CATEGORIES)
    assert sum(facts.breakdown.values()) == facts.wall_ns
    assert min(facts.breakdown.values()) >= 0
    if facts.observed is not None:
        assert facts.wall_ns == facts.observed.wall_ns


def test_only_what_was_sampled_in_the_described_stretch_counts():
    run = Run().go(50, 10, traced=(9, 10)).go(60, 30, traced=(50,)).change().go(140, 30)
    add = run.builder.add
    spans = {"before": (100, 400), "across": (400, 700), "after": (4000, 4300), "unknown": (-1, -1)}
    for name, (start, end) in spans.items():
        when = {"start_ns": start * MS, "end_ns": end * MS} if start >= 0 else {}
        add(
            "samples",
            line=run.builder.intern(name),
            package=run.builder.intern(""),
            count=30,
            **when,
        )
    facts = Facts(run.trace())
    assert facts.regimes.described == 1
    kept = [facts.sampled.string(int(line)) for line in facts.sampled.samples.line]
    assert kept == ["after", "unknown"]
    assert len(facts.trace.samples) == 4


def sampled(run, **spans_ms):
    """Lines of the samples that count, of one line for each span."""
    for name, (start, end) in spans_ms.items():
        run.builder.add(
            "samples",
            line=run.builder.intern(name),
            package=run.builder.intern(""),
            count=30,
            start_ns=start * MS,
            end_ns=end * MS,
        )
    facts = Facts(run.trace())
    assert len(facts.regimes.all) == 2
    return [facts.sampled.string(int(line)) for line in facts.sampled.samples.line]


@pytest.mark.parametrize(("later_ms", "kept"), [(12, ["before", "across"]), (30, [])])
def test_similar_stretches_lend_their_samples(later_ms, kept):
    run = Run().go(50, 10, traced=(9, 10)).go(60, later_ms, traced=(50,)).change().go(140, later_ms)
    assert sampled(run, before=(100, 400), across=(400, 700)) == kept


def test_samples_that_are_mostly_of_the_described_stretch_count_if_there_are_no_others():
    run = Run().go(50, 10).go(60, 30, traced=(50,)).change().go(140, 30)
    assert sampled(run, mostly=(400, 800), partly=(100, 700)) == ["mostly"]


def sampled_around_profiled_steps(*spans_ms):
    """Lines of the samples that count in a run with profiled steps from 100 to 160 ms."""
    run = Run().go(10, 10)
    for _ in range(6):
        run.trace_step(10)
    run.go(30, 10)
    for start, end in spans_ms:
        line = run.builder.intern(f"{start} to {end}")
        times = {"start_ns": start * MS, "end_ns": end * MS}
        run.builder.add("samples", line=line, package=line, count=300, **times)
    facts = Facts(run.trace())
    return [facts.sampled.string(int(line)) for line in facts.sampled.samples.line]


def test_samples_of_profiled_steps_count_only_if_there_are_no_others():
    mostly, hardly, almost_all = (90, 190), (140, 240), (102, 165)
    assert sampled_around_profiled_steps(mostly, hardly) == ["140 to 240"]
    assert sampled_around_profiled_steps(mostly, almost_all) == ["90 to 190"]


def test_samples_before_the_first_step_show_no_step():
    run = Run().go(50, 10)
    for role in (SampleRole.DRIVER, SampleRole.STARTUP):
        line = run.builder.intern(role.name)
        named = {"line": line, "package": line, "count": 9}
        run.builder.add("samples", start_ns=0, end_ns=MS, role=int(role), **named)
    assert Facts(run.trace()).sampled.samples.role.tolist() == [SampleRole.DRIVER]


def described(run):
    """First row and end of the described stretch, and which share of the time it waits."""
    regimes = Facts(run.trace()).regimes
    current = regimes.current
    return current.first, current.end, current.contention


def test_the_least_contended_stretch_is_described_and_not_the_longest():
    run = SharedMachine().work(120, 40, waiting=0.75, traced=(20, 21)).work(70, 10).change()
    assert described(run.work(290, 10, traced=(3,))) == (122, 483, 0.0)


@pytest.mark.parametrize("first_half", [True, False])
def test_contention_that_no_change_was_noticed_of_is_left_out(first_half):
    busy = {"count": 120, "length": 40, "waiting": 0.75, "traced": (20, 21)}
    calm = {"count": 367, "length": 10}
    run = SharedMachine()
    for part in (busy, calm) if first_half else (calm, busy):
        run.work(**part)
    facts = Facts(run.trace())
    assert described(run) == ((122, 489, 0.0) if first_half else (0, 367, 0.0))
    assert facts.wall_ns == pytest.approx(10 * MS, rel=0.02)
    # The steps that were traced were slow because of other programs, not because of that.
    assert facts.observed.profiler_cost is None
    assert facts.share("compute") == pytest.approx(0.5, abs=0.01)


def test_contention_in_the_middle_is_left_out():
    run = SharedMachine().work(150, 10, traced=(20, 21))
    run.work(100, 40, waiting=0.75).work(100, 10)
    first, end, waits = described(run)
    assert (first, end, waits) == (0, 152, 0.0)


def test_contention_throughout_is_described():
    run = SharedMachine().work(200, 40, waiting=0.75, traced=(20, 21))
    assert described(run) == (0, 202, pytest.approx(0.75))


def test_a_program_that_competes_with_itself_is_described_where_it_takes_most_time():
    run = SharedMachine().work(120, 40, waiting=0.75, others=False, traced=(20, 21))
    first, end, waits = described(run.work(70, 10).change().work(200, 10, traced=(3,)))
    assert (first, end, waits) == (0, 122, 0.0)


def test_a_short_stretch_of_other_work_is_not_described_for_being_calm():
    # Steps without contention that take a tenth do something else, and nothing of it was traced.
    run = SharedMachine().work(120, 40, waiting=0.5, traced=(20, 21)).work(200, 2).change()
    assert described(run.work(100, 2))[:2] == (0, 122)
    run = SharedMachine().work(120, 40, waiting=0.5, traced=(20, 21)).work(200, 2).change()
    assert described(run.work(200, 2, traced=(3,), op="other"))[:2] == (0, 122)


def test_traced_steps_of_the_same_operations_show_that_a_calm_stretch_does_the_same():
    # Threads that spin while they wait for each other make steps longer than their waits explain.
    run = SharedMachine().work(120, 40, waiting=0.5, traced=(20, 21), op="mm").work(200, 2)
    assert described(run.change().work(200, 2, traced=(3,), op="mm"))[:2] == (122, 523)
    # Without shapes, the longer steps may have worked on larger arrays.
    run = SharedMachine().work(120, 40, waiting=0.5, traced=(20, 21)).work(200, 2)
    assert described(run.change().work(200, 2, traced=(3,)))[:2] == (0, 122)
