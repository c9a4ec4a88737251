"""Begins and ends of Chrome traces as ranges."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.chrome_samples import pair, source_of, x

from stepwhy.read.inputs.source import Source
from stepwhy.read.shared import chrome_pairs, chrome_spans
from stepwhy.read.shared.chrome_json import Collector, Document
from stepwhy.read.shared.chrome_spans import (
    ASYNC,
    ON_THREAD,
    Identified,
    Identities,
    async_spans_of,
    of_phase,
    spans_of,
)
from stepwhy.trace import Health


def ranges(events, *, detached=False, data=None):
    """Ranges (name, start_us, dur_us) by start, and the health of reading them."""
    health, collector, identities = Health(), Collector(), Identities()
    source = source_of(events if data is None else data)
    document = Document(source, dict[str, Any], health, event=Identified, may_be_unclosed=True)
    for batch in document:
        rows = of_phase(batch, ASYNC if detached else ON_THREAD)
        more = identities.of([batch.events[i] for i in rows]) if detached else {}
        collector.add(batch, rows, **more)
    table = collector.finish()
    spans = (async_spans_of if detached else spans_of)(table, health)
    found = [
        (table.title_of(table.use[spans.first[i]])[0], start / 1000, dur / 1000)
        for i, start, dur in zip(range(len(spans)), spans.start_ns, spans.dur_ns, strict=True)
    ]
    return sorted(found, key=lambda r: (r[1], -r[2])), health


def counters(health):
    return {c.counter: c.count for c in health.counters}


def test_nested_ranges_of_one_name_pair_as_a_stack():
    a = pair("f", 0, 100)
    b = pair("f", 10, 20)
    found, health = ranges([a[0], b[0], b[1], a[1]])
    assert found == [("f", 0, 100), ("f", 10, 10)]
    assert (health.events_read, health.events_kept) == (4, 4)


def test_threads_and_processes_have_stacks_of_their_own():
    events = [*pair("a", 0, 50), *pair("b", 10, 90, tid=2), *pair("c", 20, 30, pid="worker")]
    events.sort(key=lambda e: e["ts"])
    assert ranges(events)[0] == [("a", 0, 50), ("b", 10, 80), ("c", 20, 10)]


def test_ranges_that_overlap_pair_by_their_names():
    a, b = pair("a", 0, 50), pair("b", 10, 90)
    assert ranges([a[0], b[0], a[1], b[1]])[0] == [("a", 0, 50), ("b", 10, 80)]


def test_an_end_without_a_name_closes_the_innermost_range():
    a, b = pair("a", 0, 50), pair("b", 10, 20)
    for end in (a[1], b[1]):
        del end["name"]
    assert ranges([a[0], b[0], b[1], a[1]])[0] == [("a", 0, 50), ("b", 10, 10)]


def test_records_out_of_order_are_put_into_it():
    a, b = pair("a", 0, 10), pair("b", 10, 30)
    assert ranges([b[1], b[0], a[1], a[0]])[0] == [("a", 0, 10), ("b", 10, 20)]


def test_what_has_no_counterpart_is_counted():
    found, health = ranges([pair("a", 0, 5)[1], *pair("b", 6, 8), pair("c", 9, 10)[0]])
    assert found == [("b", 6, 2)]
    assert counters(health) == {"begin-without-end": 1, "end-without-begin": 1}
    assert health.events_read == health.events_kept + health.dropped


def test_what_has_no_time_is_counted():
    events = [
        x("a", 0, 1),
        x("b", 0, -1),
        {"ph": "X", "name": "c", "ts": 1},
        {"ph": "B", "name": "d"},
    ]
    found, health = ranges(events)
    assert found == [("a", 0, 1)]
    assert counters(health) == {"unusable-time": 3}


@settings(deadline=None, derandomize=True, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from([1, 2]))))
def test_what_calls_nest_pairs_again(moves):
    """Calls of two functions on two threads, in which every return ends the innermost call."""
    events, expected, stacks = [], [], {1: [], 2: []}
    for at, (is_call, name, thread) in enumerate(moves):
        stack = stacks[thread]
        if is_call:
            stack.append((name, at))
            events.append({"ph": "B", "name": name, "ts": at, "tid": thread})
        elif stack:
            called, begin = stack.pop()
            expected.append((called, begin, at - begin))
            events.append({"ph": "E", "name": called, "ts": at, "tid": thread})
    found, health = ranges([x("whole", -1, 1), *events])
    assert found == [("whole", -1, 1), *sorted(expected, key=lambda r: r[1])]
    assert counters(health).get("begin-without-end", 0) == len(stacks[1]) + len(stacks[2])
    assert health.events_read == health.events_kept + health.dropped


def detached(letter, name, at, **more):
    return {"ph": letter, "name": name, "cat": "c", "pid": 1, "tid": 1, "ts": at, **more}


def test_async_ranges_pair_by_id_wherever_they_end():
    events = [
        detached("b", "load", 0, id=1),
        detached("b", "load", 5, id="0x2"),
        detached("n", "load", 6, id=1),
        detached("e", "load", 10, id=1, tid=7, pid=2),
        detached("e", "load", 20, id="0x2"),
        detached("S", "old", 30, id=3),
        detached("F", "old", 40, id=3),
    ]
    found, health = ranges(events, detached=True)
    assert found == [("load", 0, 10), ("load", 5, 15), ("old", 30, 10)]
    assert health.events_kept == 6


def test_a_local_id_is_one_of_its_process():
    events = [
        detached("b", "a", 0, id2={"local": "1"}),
        detached("e", "a", 9, id2={"local": "1"}, pid=2),
    ]
    found, health = ranges(events, detached=True)
    assert found == []
    assert counters(health) == {"begin-without-end": 1, "end-without-begin": 1}


def test_async_ranges_without_an_id_are_counted():
    found, health = ranges([detached("b", "a", 0), detached("e", "a", 9)], detached=True)
    assert found == []
    assert counters(health) == {"async-without-id": 2}


TEXT = "[" + ",\n".join(json.dumps(e) for e in (x("a", 0, 1), x("b", 2, 3)))


@pytest.mark.parametrize("tail", ["", ",", ",\n", "\n", " , \r\n"])
def test_a_list_that_is_never_closed_is_whole(tail):
    found, health = ranges(None, data=TEXT + tail)
    assert found == [("a", 0, 1), ("b", 2, 3)]
    assert [(c.counter, c.severity) for c in health.counters] == [("unclosed-list", "info")]


def test_a_list_that_ends_inside_a_record_is_torn():
    found, health = ranges(None, data=TEXT[:-3])
    assert found == [("a", 0, 1)]
    assert counters(health)["json-truncated"] == 1


@pytest.mark.parametrize(
    "data", [TEXT + "]", '{"traceEvents": ' + TEXT + "]}", "\ufeff" + TEXT + "]"]
)
def test_other_texts_stay_as_they_are(data):
    found, health = ranges(None, data=data)
    assert len(found) == 2
    assert health.counters == ()


def test_an_archive_that_ends_early_is_not_closed():
    health = Health()
    source = Source(TEXT.encode(), "sample", truncated=True)
    batches = list(Document(source, dict[str, Any], health, may_be_unclosed=True))
    assert sum(len(b.events) for b in batches) == 2
    assert counters(health) == {"json-truncated": 1}


def test_a_list_that_is_never_closed_is_whole_in_spite_of_damage():
    found, health = ranges(None, data=TEXT.replace('"name": "a"', '"name": NaN"') + ",\n")
    assert found == [("b", 2, 3)]
    assert counters(health) == {"unclosed-list": 1, "unreadable-record": 1}


def one_by_one(key, begins, name):
    """Pairs, open begins and ends without one, as the documentation of `pair` says."""
    stacks, pairs, unmatched = {}, [], 0
    for at, (one, is_begin, called) in enumerate(zip(key, begins, name, strict=True)):
        stack = stacks.setdefault(one, [])
        if is_begin:
            stack.append(at)
        elif stack:
            same = [i for i, begin in enumerate(stack) if name[begin] == called]
            pairs.append((stack.pop(same[-1] if called and same else -1), at))
        else:
            unmatched += 1
    return sorted(pairs), sum(map(len, stacks.values())), unmatched


moves = st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 2))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.lists(moves, max_size=60), st.sampled_from([1, 7, 1000]))
def test_many_records_pair_as_they_would_one_by_one(records, chunk):
    records.sort(key=lambda r: r[0])
    key, begins, name = (np.asarray([r[i] for r in records]) for i in range(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepwhy.base.columns.chunks.CHUNK", chunk)
        found = chrome_pairs.pair(key.astype(np.int32), begins.astype(bool), name.astype(np.int32))
    pairs = sorted(zip(found.first.tolist(), found.last.tolist(), strict=True))
    assert (pairs, found.open, found.unmatched) == one_by_one(key, begins, name)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=40),
    st.sampled_from([1, 3, 1000]),
)
def test_ranges_are_in_one_order_however_many_are_sorted_at_a_time(found, at_once):
    start_ns, dur_ns = np.asarray(found, dtype=np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chrome_spans, "_AT_ONCE", at_once)
        order = chrome_spans.outermost_first(start_ns, dur_ns).tolist()
    assert order == sorted(range(len(found)), key=lambda i: (found[i][0], -found[i][1]))


@pytest.mark.parametrize("at_once", [1, 4, 1000])
def test_threads_pair_alike_however_many_records_are_looked_at_at_a_time(monkeypatch, at_once):
    monkeypatch.setattr(chrome_spans, "_AT_ONCE", at_once)
    events = [e for tid in range(5) for e in pair(f"of {tid}", 10 * tid, 10 * tid + 25, tid=tid)]
    events += [x("whole", 3, 1, tid=9), *pair("left", 70, 80, tid=7)[:1]]
    events.sort(key=lambda e: e["ts"])
    found, health = ranges(events)
    assert found == [("of 0", 0, 25), ("whole", 3, 1)] + [
        (f"of {tid}", 10 * tid, 25) for tid in range(1, 5)
    ]
    assert counters(health) == {"begin-without-end": 1}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (12, "12", True),
        ("0xc", "12", False),
        ("0xc", "0xC", False),
        ("0xc", "0x0c", False),
        ("012", "12", False),
        (10**30, str(10**30), True),
    ],
)
def test_ids_are_the_same_where_they_are_written_alike(one, other, same):
    found, _ = ranges(
        [detached("b", "a", 0, id=one), detached("e", "a", 9, id=other)], detached=True
    )
    assert len(found) == same
