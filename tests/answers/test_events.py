"""Events, grouped by their cause."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import MS, Timeline

from stepwhy.analyse.answers.events import find_events

FEW = settings(max_examples=80, deadline=None, derandomize=True)


class Log(Timeline):
    def event(self, kind, start, end, name="step", *, reason="", source="", count=-1):
        intern = self.builder.intern
        self.builder.add(
            "events",
            kind=intern(kind),
            start_ns=start * MS,
            dur_ns=(end - start) * MS,
            name=intern(name),
            reason=intern(reason) if reason else -1,
            source=intern(source) if source else -1,
            count=count,
        )
        return self


def marked(count, length=10):
    log = Log()
    for i in range(count):
        log.mark(i * length, (i + 1) * length)
    return log


def test_a_run_without_events_has_none():
    assert find_events(marked(3).trace()) == ()


@pytest.mark.parametrize(
    "kind",
    [
        "changing-lines",
        "iterable",
        "parameters",
        "session",
        "gradient-use",
        "gradient-walk",
        "same-arguments",
        "semantic-step",
        "stable-functions",
        "unowned-parameters",
    ],
)
def test_what_takes_no_time_is_no_event(kind):
    assert find_events(marked(3).event(kind, 1, 1, name="float32", count=9).trace()) == ()


def test_the_same_thing_again_and_again_is_one_group():
    log = marked(10).event("trace", 1, 3, reason="first", source="a.py(1): f", count=1)
    log.event("trace", 31, 33, reason="new shape", source="a.py(1): f", count=2)
    log.event("trace", 52, 65, reason="new shape", source="a.py(1): f", count=3)
    log.event("trace", 40, 41, source="b.py(9): g")
    first, second = find_events(log.trace())
    assert (first.kind, first.name, first.source) == ("trace", "step", "a.py(1): f")
    assert (first.count, first.total_ns, first.steps_affected) == (3, 17 * MS, 4)
    assert (first.first_step, first.last_step) == (1, 6)
    assert (first.first_reason, first.reasons, first.added) == ("first", 2, None)
    assert (second.source, second.first_reason, second.reasons) == ("b.py(9): g", "", 0)


def test_nested_pieces_count_once():
    log = marked(2).event("compile", 0, 9).event("compile", 2, 5)
    (group,) = find_events(log.trace())
    assert (group.count, group.total_ns, group.steps_affected) == (2, 9 * MS, 1)


def test_what_is_added_to_a_graph_is_summed():
    log = marked(3).event("graph", 5, 5, count=7).event("graph", 15, 15, count=2)
    (group,) = find_events(log.trace())
    assert (group.added, group.total_ns, group.steps_affected) == (9, 0, 2)


def test_before_the_first_step_and_without_steps():
    (group,) = find_events(Log().event("compile", 1, 2).trace())
    assert (group.first_step, group.steps_affected) == (None, 0)
    log = Log().event("compile", 1, 2)
    log.mark(5, 9)
    (group,) = find_events(log.trace())
    assert (group.first_step, group.steps_affected) == (0, 0)


@FEW
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99), st.integers(0, 30))))
def test_no_event_is_lost_and_steps_are_counted_one_by_one(events):
    log = marked(10)
    for name, start, length in events:
        log.event("trace", start, start + length, name)
    groups = find_events(log.trace())
    assert sum(g.count for g in groups) == len(events)
    assert [g.first_step for g in groups] == sorted(g.first_step for g in groups)
    for group in groups:
        mine = [(s, max(s + n, s + 0.5)) for name, s, n in events if name == group.name]
        touched = [i for i in range(10) if any(s < 10 * i + 10 and e > 10 * i for s, e in mine)]
        assert group.steps_affected == len(touched)
        assert group.first_step == min(touched) + 1
