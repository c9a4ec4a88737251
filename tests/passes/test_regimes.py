"""Where the step time changed for good, and which side the result is about."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.passes.timeline import MS, Timeline

from stepwhy.findings import CATEGORIES
from stepwhy.passes.facts import Facts
from stepwhy.trace import Kind, SampleRole

FEW = settings(max_examples=40, deadline=None, derandomize=True)


class Run(Timeline):
    """A run drawn step after step."""

    def __init__(self):
        super().__init__()
        self.at = 0
        self.wobble = np.random.default_rng(1)

    def go(self, count, length, *, traced=()):
        """Unprofiled steps of a length in ms, with those of the given places traced."""
        for place in range(count):
            if place in traced:
                self.trace_step(length)
            self.mark_step(length)
        return self

    def mark_step(self, length):
        length = round(length * self.wobble.uniform(0.97, 1.03), 3)
        self.mark(self.at, self.at + length)
        self.at += length

    def trace_step(self, length):
        """A traced step, half of it an operation."""
        self.steps(self.at, self.at + length)
        self.add(self.thread(), Kind.OP, self.at, self.at + length / 2)
        self.mark(self.at, self.at + length, profiled=1)
        self.at += length

    def change(self):
        """The observer notices a lasting change."""
        at = round(self.at * self.unit_ns)
        kind = self.builder.intern("change")
        self.builder.add("events", kind=kind, start_ns=at - MS, dur_ns=MS, name=kind)
        return self


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


def test_samples_before_the_first_step_show_no_step():
    run = Run().go(50, 10)
    for role in (SampleRole.DRIVER, SampleRole.STARTUP):
        line = run.builder.intern(role.name)
        named = {"line": line, "package": line, "count": 9}
        run.builder.add("samples", start_ns=0, end_ns=MS, role=int(role), **named)
    assert Facts(run.trace()).sampled.samples.role.tolist() == [SampleRole.DRIVER]
