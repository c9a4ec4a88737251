"""Columns of loosely typed arguments and of times: each value as it is read alone."""

from decimal import ROUND_HALF_EVEN, Decimal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.formats.kineto import records
from stepwhy.read.formats.kineto.arguments import as_int, integers
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.chrome_json.times import (
    ABSENT,
    LARGEST_NS,
    UNUSABLE,
    NotNumbersError,
    read_times,
)

FEW = settings(max_examples=200, deadline=None, derandomize=True)

whole = st.integers(-(2**70), 2**70)
loose = (
    whole
    | st.none()
    | st.booleans()
    | st.floats()
    | whole.map(str)
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=1)
)


@FEW
@given(
    st.lists(loose, max_size=6) | st.lists(whole, max_size=6) | st.lists(whole | st.none()),
    st.sampled_from([-1, 0]),
)
def test_a_column_of_integers_is_each_of_them(values, default):
    assert integers(values, default).tolist() == [as_int(v, default) for v in values]


@st.composite
def numbers(draw):
    """A JSON number, and its value."""
    value = Decimal(draw(st.integers(-(10**22), 10**22))).scaleb(-draw(st.integers(0, 8)))
    text = draw(st.sampled_from(["{:f}", "{:E}", "{:.3f}", "{:.0f}"])).format(value)
    return text, Decimal(text)


def nanoseconds(value):
    return int((value * 1000).to_integral_value(rounding=ROUND_HALF_EVEN))


@FEW
@given(
    st.lists(
        numbers() | st.sampled_from([("null", None), ("-0", Decimal()), ("-0.000", Decimal())]),
        max_size=8,
    )
)
def test_a_column_of_times_is_each_of_them_to_the_nanosecond(drawn):
    ns, absent = read_times([msgspec.Raw(text.encode()) for text, _ in drawn])
    assert absent.tolist() == [value is None for _, value in drawn]
    for read, (_, value) in zip(ns.tolist(), drawn, strict=True):
        exact = 0 if value is None else nanoseconds(value)
        if abs(exact) < LARGEST_NS:
            assert read == exact
        else:
            assert abs(read) >= LARGEST_NS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ABSENT, (0, True)),
        (UNUSABLE, (LARGEST_NS, False)),
        (b"1e999999999999999999999", (LARGEST_NS, False)),
        (b"1e-999999", (0, False)),
        (b"0e999999", (0, False)),
        (b"9" * 400, (4611686018427388000, False)),
    ],
)
def test_times_beyond_all_numbers(text, expected):
    ns, absent = read_times([msgspec.Raw(text)])
    assert (int(ns[0]), bool(absent[0])) == expected


def test_numbers_in_quotes_are_numbers():
    texts = [b'"1.5"', b"2", b'"-3e2"', b"null", b'"1712345678901234.567"']
    ns, absent = read_times([msgspec.Raw(text) for text in texts])
    assert ns.tolist() == [1500, 2000, -300_000, 0, 1_712_345_678_901_234_567]
    assert absent.tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("text", [b'"x"', b'"1."', b'"1,5"', b'""', b"true", b"[1]", b'{"a":1}'])
def test_what_is_no_number_is_no_time(text):
    with pytest.raises(NotNumbersError):
        read_times([msgspec.Raw(b"1"), msgspec.Raw(text)])


def test_meanings_are_dropped_once_their_strings_are_interned(monkeypatch):
    """There may be as many names as ranges, and what one says takes more than its slice."""
    shared = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "dur": 9}
    events = [{**shared, "name": f"request {i}", "ts": 10 * i} for i in range(100)]
    count_left_out, held = records._count_left_out, []

    def counted(health, rows):
        held.extend(rows.slices._names._unresolved)
        count_left_out(health, rows)

    monkeypatch.setattr(records, "_count_left_out", counted)
    trace = kineto.read(Source(msgspec.json.encode(events), "sample"))
    assert [trace.string(i) for i in trace.slices.name] == [e["name"] for e in events]
    assert held == []
