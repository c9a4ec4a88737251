"""Events are held as labels, times and ids, whatever the pieces are in which they come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.columns import chunks
from stepwhy.read.formats.xplane.collect import Collector
from stepwhy.read.formats.xplane.events import Events, Labels, joined
from stepwhy.read.formats.xplane.groups import MISSING

NULL = -1


def labels(names, lines=None, numbers=None, texts=None):
    name = np.array(names, dtype=np.int32)
    line = np.zeros_like(name) if lines is None else np.array(lines, dtype=np.int32)
    of_numbers = {stat: np.array(c, dtype=np.int64) for stat, c in (numbers or {}).items()}
    return Labels(line, name, of_numbers, {s: np.array(c) for s, c in (texts or {}).items()})


def collected(*parts):
    """Each part's events begin 10 ns after one another."""
    collector = Collector(sum(map(len, parts)) + 3)
    for part in parts:
        start_ns = 10 * (np.arange(len(part)) + len(collector))
        collector.add(part, start_ns, np.full(len(part), 7))
    return collector.finish()


def ids_of(*parts):
    events = collected(*(labels([1] * len(p), numbers={"correlation_id": p}) for p in parts))
    return events.ids["correlation_id"]


def test_correlation_ids_take_64_bits_only_where_they_need_them():
    narrow, wide = ids_of([5, 2**31 - 1]), ids_of([5, MISSING], [2**31], [7])
    assert (narrow.dtype, narrow.tolist()) == (np.int32, [5, 2**31 - 1])
    assert (wide.dtype, wide.tolist()) == (np.int64, [5, NULL, 2**31, 7])


@pytest.mark.parametrize("nonsense", [0, -4, 2**62, MISSING])
def test_correlation_ids_that_are_none_are_null(nonsense):
    assert ids_of([nonsense, 3]).tolist() == [NULL, 3]


def test_whether_an_event_has_an_id_is_part_of_its_label_and_which_is_not():
    events = collected(labels([1] * 4, numbers={"correlation_id": [8, MISSING, 0, 9]}))
    assert events.label.tolist() == [0, 1, 0, 0]
    assert events.labels.numbers["correlation_id"].tolist() == [1, MISSING]


def test_the_number_of_a_step_is_not_part_of_its_label():
    events = collected(labels([1] * 3, numbers={"step_num": [1, 2, MISSING]}))
    assert events.label.tolist() == [0, 0, 1]


EVENTS = st.lists(st.tuples(*(st.integers(0, 2) for _ in range(4)), st.booleans()), max_size=20)


def part_of(rows):
    line, name, number, text, has_text = zip(*rows, strict=True) if rows else [[]] * 5
    texts = {"tf_op": np.array(text, dtype=np.int32)} if any(has_text) else {}
    return labels(name, line, {"program_id": number}, texts)


def said(events):
    """What every event says, as plain values."""
    of_labels, chosen = events.labels, events.label
    columns = (
        of_labels.line,
        of_labels.name,
        of_labels.number("program_id"),
        of_labels.text("tf_op"),
    )
    return list(zip(*(c[chosen].tolist() for c in columns), events.start_ns.tolist(), strict=True))


@given(st.lists(EVENTS, max_size=4))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_pieces_and_parts_say_what_each_event_said(pieces):
    parts = [part_of(rows) for rows in pieces]
    plain = [
        (*row[:3], row[3] if any(has for *_, has in rows) else 0) for rows in pieces for row in rows
    ]
    at_once = collected(*parts)
    assert [row[:-1] for row in said(at_once)] == plain
    assert [row[-1] for row in said(at_once)] == list(range(0, 10 * len(plain), 10))
    one_by_one = joined([collected(part) for part in parts])
    assert [row[:-1] for row in said(one_by_one)] == plain
    # Every label is that of an event, and no two are the same.
    assert sorted(set(at_once.label.tolist())) == list(range(len(at_once.labels)))
    assert len(at_once.labels) == len(set(plain))


@given(EVENTS, st.integers(0, 2))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_some_labels_are_kept_and_all_others_left_out(rows, line):
    events = collected(part_of(rows))
    before = said(events)
    some = events.labelled(events.labels.line == line)
    assert said(events) == before
    assert said(some) == [row for row in before if row[0] == line]
    assert len(some.labels) == len(set(some.label.tolist()))


@given(EVENTS, st.randoms(use_true_random=False))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_events_of_one_label_are_told_apart(rows, chance):
    events = collected(part_of(rows))
    before, old = said(events), events.label
    mark = np.array([chance.random() < 0.4 for _ in rows], dtype=bool)
    was, (marked,) = events.split_labels(mark)
    assert said(events) == before
    assert was[events.label].tolist() == old.tolist()
    assert marked[events.label].tolist() == mark.tolist()


@given(EVENTS, st.randoms(use_true_random=False), st.integers(1, 4))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_labels_are_numbered_by_their_first_events(rows, chance, piece):
    events = collected(part_of(rows))
    order = list(range(len(rows)))
    chance.shuffle(order)
    events.reorder(np.array(order, dtype=np.int64))
    before = said(events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK", piece)
        events.number_labels()
    assert said(events) == before
    assert list(dict.fromkeys(events.label.tolist())) == list(range(len(events.labels)))


def test_nothing_is_told_apart_where_nothing_differs():
    events = collected(labels([1, 2, 1]))
    was, (marked,) = events.split_labels(np.zeros(3, dtype=bool))
    assert (was.tolist(), marked.tolist(), events.label.tolist()) == ([0, 1], [0, 0], [0, 1, 0])


def test_events_are_put_in_order_with_all_that_they_have():
    events = collected(labels([1, 2, 3], numbers={"_c": [4, MISSING, 6]}))
    events.reorder(np.array([2, 0, 1]))
    assert events.name.tolist() == [3, 1, 2]
    assert events.start_ns.tolist() == [20, 0, 10]
    assert events.id("_c").tolist() == [6, 4, MISSING]
    assert events.id("_p").tolist() == [MISSING] * 3


def test_labels_are_counted():
    assert collected(labels([5, 6, 5, 5])).counts().tolist() == [3, 1]
    assert Events.empty().counts().tolist() == []
