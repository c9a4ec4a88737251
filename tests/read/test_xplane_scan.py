"""How the bytes of an XPlane profile are read: many events at a time, and safely."""

import random
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.read import xplane_samples
from tests.read.xplane_samples import block, number, varint

from stepwhy.base.columns import compiled
from stepwhy.read.formats.xplane import layout
from stepwhy.read.formats.xplane.groups import MISSING, equal_rows, ranked
from stepwhy.read.formats.xplane.layout import DamagedError, inside, parts, read_layout
from stepwhy.read.formats.xplane.nesting import enclosing, nearest
from stepwhy.read.formats.xplane.scan import INT, REFERENCE, TEXT, scan_events
from stepwhy.read.formats.xplane.varints import REACH, Wire
from stepwhy.read.shared.tensorflow.messages import message_class


class Way:
    """Has rows compared by compiled kernels, or without any."""

    def __init__(self, *, with_kernels):
        self._least = 0 if with_kernels else 1 << 62

    def __enter__(self):
        self._patch = patch.multiple(compiled, _MANY=self._least, _FEW=self._least)
        self._patch.start()

    def __exit__(self, *_):
        self._patch.stop()


def both_ways(test):
    """Run a test with kernels and without."""
    ways = pytest.mark.parametrize(
        "way", [Way(with_kernels=True), Way(with_kernels=False)], ids=["compiled", "numpy"]
    )
    return pytest.mark.usefixtures("kernels")(ways(test))


INT64 = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(0, 300)
NUMBERS = SMALL | INT64
FIELDS = ("metadata_id", "offset_ps", "duration_ps", "num_occurrences")
# Nothing of a sample lies so close to its end that protobuf has to read it.
TAIL = bytes(REACH)


@given(st.lists(NUMBERS, min_size=1, max_size=40))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_varints_are_read_from_every_position(values):
    written = [varint(v & 0xFFFFFFFFFFFFFFFF) for v in values]
    at = np.cumsum([0, *map(len, written)])[:-1]
    found, sizes = Wire(b"".join(written) + TAIL).varints(at)
    assert found.tolist() == values
    assert sizes.tolist() == [len(w) for w in written]


@pytest.mark.parametrize("data", [b"\xff" * 11, b"\xff" * 9 + b"\x02"])
def test_a_varint_that_does_not_end_has_no_size(data):
    _, sizes = Wire(data + TAIL).varints(np.array([0]))
    assert sizes[0] <= 0


def event(fields):
    """An event as protobuf has it; `fields` are its numbers and its statistics."""
    *numbers, stats = fields
    message = message_class("XEvent")(**dict(zip(FIELDS, numbers, strict=True)))
    for stat_id, kind, value in stats:
        stat = message.stats.add(metadata_id=stat_id)
        setattr(stat, kind, value)
    return message


STATS = st.lists(
    st.tuples(SMALL, st.just("int64_value"), INT64)
    | st.tuples(SMALL, st.just("uint64_value"), st.integers(0, 2**64 - 1))
    | st.tuples(SMALL, st.just("ref_value"), SMALL)
    | st.tuples(SMALL, st.just("str_value"), st.binary(min_size=1, max_size=200)),
    max_size=5,
)
EVENTS = st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, st.just(0), STATS), max_size=20)
WANTED = np.array([1, 2, 3, 200])


def scanned(bodies, tail=TAIL):
    """What is read of events."""
    written = [block(4, body) for body in bodies]
    heads = np.cumsum([0, *map(len, written)], dtype=np.int64)[:-1]
    data = b"".join(written) + tail
    return data, scan_events(Wire(data), heads, WANTED)


def as_int64(value):
    return value - 2**64 if value >= 2**63 else value


def stats_of(data, found):
    """Statistics as sorted tuples of row, id, tag and value; numbers are all `INT`."""
    rows = zip(*(c.tolist() for c in found.stats), strict=True)
    return sorted(
        (
            row,
            int(WANTED[which]),
            tag if tag in {TEXT, REFERENCE} else INT,
            data[at : at + size] if tag == TEXT else at,
        )
        for row, which, tag, at, size in rows
    )


def expected_stats(events):
    tags = {"int64_value": INT, "uint64_value": INT, "ref_value": REFERENCE, "str_value": TEXT}
    return sorted(
        (row, key, tags[kind], value if kind == "str_value" else as_int64(value))
        for row, (*_, stats) in enumerate(events)
        for key, kind, value in stats
        if key in WANTED.tolist()
    )


@given(EVENTS)
@settings(derandomize=True, deadline=None, max_examples=80)
@example([(1, 5, 0, 0, [])])
def test_events_are_read_as_protobuf_reads_them(events):
    data, found = scanned([event(e).SerializeToString() for e in events])
    assert found.columns.T.tolist() == [list(e[:4]) for e in events]
    assert not found.damaged.any()
    assert stats_of(data, found) == expected_stats(events)


def test_what_is_written_in_another_way_is_left_to_protobuf():
    backwards = block(4, number(4, 7), number(1, 2)) + number(3, 9) + number(2, 8) + number(1, 3)
    unknown = number(99, 5) + number(1, 4) + varint(7 << 3 | 1) + bytes(8)
    data, found = scanned([backwards, unknown])
    assert found.columns.T.tolist() == [[3, 8, 9, 0], [4, 0, 0, 0]]
    assert stats_of(data, found) == [(0, 2, INT, 7)]


def test_the_last_event_of_a_file_is_read():
    _, found = scanned([number(1, 3) + number(2, 8)] * 3, tail=b"")
    assert found.columns[0].tolist() == [3, 3, 3]


@pytest.mark.parametrize(
    "body",
    [
        varint(4 << 3 | 2) + varint(2**62) + b"x",
        varint(4 << 3 | 2) + varint(2**63) + b"x",
        varint(4 << 3 | 2) + varint(200),
        b"\x08" + b"\xff" * 10,
        b"\x08",
        block(4, number(1, 2), varint(5 << 3 | 2) + varint(99)),
        b"\x07",
    ],
)
def test_an_event_whose_lengths_lie_is_damaged(body):
    _, found = scanned([body, number(1, 3)])
    assert found.damaged.tolist() == [True, False]
    assert found.columns[0].tolist()[1] == 3


def test_statistics_that_nobody_asks_for_are_passed_over():
    double = number(1, 1) + varint(2 << 3 | 1) + bytes(8)
    packed = number(1, 2) + block(8, b"zip")
    _, found = scanned(
        [number(1, 3) + block(4, double) + block(4, packed) + block(4, number(1, 9))]
    )
    assert len(found.stats.row) == 0
    assert not found.damaged.any()


# --- layout ---


def space(*lines):
    return block(1, block(2, b"/host:CPU"), *(block(3, *line) for line in lines))


def events_of(layout):
    return [[line.count for line in plane.lines] for plane in layout.planes]


def test_where_events_lie():
    data = space(
        [number(1, 7), block(2, b"a"), block(4, b"12"), block(4, b"x" * 300), number(3, 5)]
    )
    (plane,) = read_layout(data).planes
    (line,) = plane.lines
    assert (plane.name, line.id, line.name, line.time_ns) == ("/host:CPU", 7, "a", 5)
    assert [data[at : at + 3] for at in line.heads(data)] == [b"\x22\x0212"[:3], b"\x22\xac\x02"]


def test_events_and_other_fields_may_alternate():
    line = [block(4, b"1"), block(11, b"shown"), block(4, b"2"), block(2, b"a"), block(4, b"3")]
    (found,) = read_layout(space(line)).planes[0].lines
    assert (found.count, found.name) == (3, "shown")


def test_a_negative_id_is_one():
    assert read_layout(space([number(1, -3)])).planes[0].lines[0].id == -3


@pytest.mark.parametrize("missing", range(1, 12))
def test_a_torn_file_keeps_the_events_before_the_tear(missing):
    data = space([block(4, b"1234")], [block(4, b"1234"), block(4, b"5678")])
    layout = read_layout(data[:-missing])
    assert layout.torn
    assert layout.damaged == 0
    assert events_of(layout) == [[1, 1 if missing <= 6 else 0]]


@pytest.mark.parametrize(
    "line",
    [
        varint(4 << 3 | 2) + varint(90) + b"1234",
        b"\x0f",
        varint(2 << 3 | 2) + varint(90),
        b"\x00\x00",
    ],
)
def test_lengths_that_lead_out_of_their_part_are_damage(line):
    layout = read_layout(
        space([line]) + block(1, block(2, b"whole"), bytes(0)) + block(3, b"w" * 99)
    )
    assert (layout.damaged, layout.torn) == (1, False)
    assert [plane.name for plane in layout.planes] == ["whole"]


def test_garbage_after_the_planes_ends_the_file():
    layout = read_layout(space([block(4, b"1")]) + b"\x0f")
    assert (layout.torn, events_of(layout)) == (True, [[1]])


def test_fields_under_a_path():
    data = block(1, block(2, number(3, 7)), block(2, number(3, 8))) + number(1, 5)
    assert [p.value for p in inside(data, 0, len(data), 1, 2, 3)] == [7, 8]
    with pytest.raises(DamagedError):
        list(parts(b"\x07", 0, 1))


# --- groups ---


CODES = (
    st.just(-3) | st.integers(0, 5) | st.integers(10**6, 10**6 + 3) | st.integers(2**40, 2**40 + 2)
)


@given(st.lists(st.tuples(CODES, CODES, st.booleans()), max_size=40), st.integers(0, 1))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_rows_are_grouped_in_the_order_of_the_file(pairs, offset):
    columns = [np.array([p[i] for p in pairs], dtype=np.int64) for i in (0, 1)]
    columns[offset] += 10**6
    flags = np.array([p[2] for p in pairs], dtype=bool)
    first, group = equal_rows(*columns, np.arange(len(pairs), dtype=np.int32) * 0, flags)
    seen = list(dict.fromkeys(pairs))
    assert [pairs[row] for row in first] == seen
    assert group.tolist() == [seen.index(pair) for pair in pairs]


@given(st.lists(CODES | st.just(MISSING) | st.integers(-9, 0), max_size=40))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_numbers_become_codes(values):
    codes = ranked(np.array(values, dtype=np.int64)).tolist()
    assert min(codes, default=0) >= 0
    assert len(set(zip(values, codes, strict=True))) == len(set(values)) == len(set(codes))


# --- nesting ---


def plainly(first, starts, ends):
    """The same with a stack."""
    found, stack = [], []
    for row, start in enumerate(starts):
        if first[row] == row:
            stack = []
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        found.append(stack[-1] if stack else -1)
        stack.append(row)
    return found


@both_ways
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=25), max_size=3),
    st.randoms(use_true_random=False),
)
@settings(derandomize=True, deadline=None, max_examples=150)
def test_the_innermost_open_event_is_found(way, threads, choice):
    threads = [sorted(t, key=lambda e: (e[0], -e[1])) for t in threads]
    sizes = [len(t) for t in threads]
    first = np.repeat(np.cumsum([0, *sizes])[:-1], sizes).astype(np.int64)
    starts = np.array([s for t in threads for s, _ in t], dtype=np.int64)
    ends = starts + np.array([d for t in threads for _, d in t], dtype=np.int64)
    line = np.repeat(np.arange(len(sizes)), sizes)
    with way:
        outer = enclosing(line, starts, ends - starts)
    assert outer.tolist() == plainly(first.tolist(), starts.tolist(), ends.tolist())
    holds = np.array([choice.random() < 0.4 for _ in starts], dtype=bool)
    expected = []
    for row in range(len(outer)):
        at = outer[row]
        while at >= 0 and not holds[at]:
            at = outer[at]
        expected.append(at)
    with way:
        assert nearest(outer, holds).tolist() == expected


@both_ways
def test_many_flat_events_take_few_rounds(way):
    count = 100_000
    starts = np.arange(count, dtype=np.int64) * 10
    ends = starts + 5
    starts[0], ends[0] = 0, 10 * count
    with way:
        outer = enclosing(np.zeros(count, dtype=np.int64), starts, ends - starts)
    assert outer[0] == -1
    assert (outer[1:] == 0).all()


def test_random_bytes_never_escape_their_bounds():
    noise = random.Random(3)  # noqa: S311 - the same bytes every time, no secret
    for _ in range(300):
        data = space([noise.randbytes(noise.randint(0, 60)), block(4, noise.randbytes(9))])
        for plane in read_layout(data).planes:
            for line in plane.lines:
                found = scan_events(Wire(data), np.array(line.heads(data), dtype=np.int64), WANTED)
                assert (found.stats.value[found.stats.tag == TEXT] <= len(data)).all()


def test_planes_and_lines_beyond_the_most_are_counted_and_left_out(monkeypatch):
    monkeypatch.setattr(layout, "MOST_PLANES", 3)
    monkeypatch.setattr(layout, "MOST_LINES", 5)
    lines = [xplane_samples.line(f"t{n}", xplane_samples.event("f", 0, 5)) for n in range(2)]
    planes = [xplane_samples.host(*lines)] * 4
    data = xplane_samples.xspace(*planes)
    found = read_layout(data)
    assert (len(found.planes), found.planes_left_out) == (3, 1)
    assert (sum(len(plane.lines) for plane in found.planes), found.lines_left_out) == (5, 1)
    trace = xplane_samples.trace_of(*planes)
    counted = {c.counter: (c.count, c.severity) for c in trace.health.counters}
    assert counted["plane-left-out"] == counted["line-left-out"] == (1, "error")
