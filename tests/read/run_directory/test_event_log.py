"""Events and fill levels, from the lines of their logs."""

from __future__ import annotations

from stepwhy.read.formats.run_directory.event_log import (
    add_events,
    add_levels,
    read_events,
)
from stepwhy.trace import NULL, Meta, TraceBuilder


def read(add, *lines):
    builder = TraceBuilder()
    add([line.encode() for line in lines], builder)
    return builder.finish(Meta("step-log"))


def add_logged_events(lines, builder):
    add_events(read_events(lines), builder)


def test_events_come_in_order_with_what_is_not_known_null():
    trace = read(
        add_logged_events,
        '{"kind":"graph","start_ns":50,"end_ns":50,"name":"graph","count":12}',
        '{"kind":"trace","start_ns":10,"end_ns":30,"name":"step","reason":"new shape",'
        '"source":"train.py(4): <module>"}',
    )
    events = trace.events
    assert [trace.string(k) for k in events.kind] == ["trace", "graph"]
    assert (events.start_ns.tolist(), events.dur_ns.tolist()) == ([10, 50], [20, 0])
    assert [trace.string(r) for r in events.reason] == ["new shape", ""]
    assert [trace.string(s) for s in events.source] == ["train.py(4): <module>", ""]
    assert events.count.tolist() == [NULL, 12]


def test_levels_keep_capacity_and_reserve():
    trace = read(
        add_levels,
        '{"kind":"tf1-queue","time_ns":7,"name":"q","value":3,"capacity":10,"reserve":2}',
        '{"kind":"tf.data","time_ns":5,"name":"Prefetch","value":0}',
    )
    levels = trace.levels
    assert [trace.string(q) for q in levels.queue] == ["Prefetch", "q"]
    assert [trace.string(k) for k in levels.kind] == ["tf.data", "tf1-queue"]
    assert (levels.value.tolist(), levels.capacity.tolist()) == ([0, 3], [NULL, 10])
    assert levels.reserve.tolist() == [0, 2]


def test_torn_lines_are_skipped():
    torn = ('{"kind":"trace","start_ns":1', "", "[]", '{"kind":3}', "\x00")
    assert len(read(add_logged_events, *torn).events) == 0
    assert len(read(add_levels, *torn).levels) == 0
