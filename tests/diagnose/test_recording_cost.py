"""Short operations without what recording them takes."""

import pytest
from tests.analyse.timeline import Timeline

from stepwhy.analyse.facts import Facts
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.recording_cost import without_recording
from stepwhy.trace import Kind

US = 1_000


def recorded(usual_us):
    """Recorded steps of 300 µs: one long operation, and 100 of 2 µs; others take `usual_us`."""
    line = Timeline(unit_ns=US).steps(0, 300, 600, 900, 1200)
    for start in range(0, 1200, 300):
        line.add(line.thread(), Kind.OP, start, start + 100, name="aten::mm")
        for run in range(100):
            at = start + 100 + 2 * run
            line.add(line.thread(), Kind.OP, at, at + 2, name="aten::item")
    for step in range(4):
        line.mark(300 * step, 300 * step + 300, profiled=1)
    for step in range(100):
        at = 2000 + usual_us * step
        line.mark(at, at + usual_us, cpu=usual_us)
    facts = Facts(line.trace(framework="pytorch"))
    short = time_of(
        facts, facts.slices(Kind.OP)[facts.trace.slices.dur_ns[facts.slices(Kind.OP)] < 10 * US]
    )
    return without_recording(facts, short, on_scale(facts, mean_within(facts, short)))


def test_the_cost_of_recording_is_shared_by_time_and_by_number():
    # 100 of 101 operations, and 2 of 3 of the time: 100 or 150 µs of 240.
    assert recorded(200) == pytest.approx((200 * 2 / 3 + 200 - 100 * 100 / 102) / 2 * US, rel=0.02)


def test_an_event_costs_at_most_a_microsecond():
    assert recorded(100) == pytest.approx((200 / 3 + 200 / 3) / 2 * US, rel=0.02)


def test_nothing_is_left_out_where_recording_takes_no_time():
    assert recorded(300) == pytest.approx(200 * US, rel=0.01)
