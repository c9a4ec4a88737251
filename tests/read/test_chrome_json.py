"""Chrome trace records: three readers with one result, exact times, torn files."""

import json
import tracemalloc
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.chrome_samples import read_records

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.read.formats.kineto.arguments import KinetoArgs
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.chrome_json import count_untimed, looks_like_chrome_json
from stepwhy.read.shared.chrome_json.ends import keys_after
from stepwhy.read.shared.chrome_json.torn import End, Salvage
from stepwhy.trace import Health

FEW = settings(max_examples=60, deadline=None, derandomize=True)


def read(text, health=None):
    data = text if isinstance(text, bytes) else text.encode()
    return read_records(Source(data, "x.json"), KinetoArgs, health or Health())


def plain(records):
    """What later code reads of every record, without the Python types of one reader."""
    return [
        (e.ph, e.name, e.cat, str(e.pid), str(e.tid), int(start), int(dur), bool(timed))
        for e, start, dur, timed in zip(
            records.events, records.start_ns, records.dur_ns, records.timed, strict=True
        )
    ]


def times(text):
    records = read(text)
    return records.start_ns.tolist(), records.dur_ns.tolist()


# --- objects that repeat the key of their events ---


RECORD = '{"ph": "X", "name": "%s", "pid": 1, "tid": 2, "ts": %d.25, "dur": 5}'


def listed(name, count):
    return f"[{','.join(RECORD % (name, 10 * n) for n in range(count))}]"


@pytest.mark.parametrize(("first", "second"), [(20, 30), (0, 3), (3, 0), (9000, 9000), (2, 9000)])
@pytest.mark.parametrize("between", ["", '"a": {"traceEvents": [1]}, "b": 5,'])
def test_all_lists_of_events_are_read(first, second, between):
    text = f'{{"n": 7, "traceEvents": {listed("one", first)}, {between} "traceEvents": '
    health = Health()
    records = read(text + listed("two", second) + ', "m": 8}', health)
    assert [e.name for e in records.events] == ["one"] * first + ["two"] * second
    assert records.start_ns.tolist() == [
        10_000 * n + 250 for count in (first, second) for n in range(count)
    ]
    assert {c.counter: c.count for c in health.counters} == {"repeated-key": 1}
    assert health.events_read == first + second


def test_only_so_many_lists_of_events_are_read():
    lists = ",".join(f'"traceEvents": {listed("a", 2)}' for _ in range(500))
    health = Health()
    assert len(read(f"{{{lists}}}", health).events) == 32
    assert {c.counter: c.count for c in health.counters} == {
        "repeated-key": 15,
        "repeated-key-left-out": 1,
    }


def test_the_events_of_another_value_are_not_the_file_s():
    text = f'{{"traceEvents": {listed("a", 2)}, "x": {{"traceEvents": {listed("b", 2)}}}}}'
    assert [e.name for e in read(text).events] == ["a", "a"]


# --- recognition ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b'[{"ph": "X"}]', True),
        (b'\xef\xbb\xbf\r\n {"traceEvents": [{"ph": "X"}]}', True),
        (b'{"a": 1}', False),
        (b'"ph"', False),
        (b"", False),
    ],
)
def test_a_chrome_trace_is_a_list_or_object_with_records(head, expected):
    assert looks_like_chrome_json(head) is expected


# --- the three readers agree ---------------------------------------------------------------------

texts = st.text(max_size=8) | st.sampled_from(['a"b', "back\\slash", "\n\t", "é𝄞", "null", "12"])
micros = st.builds(
    lambda whole, thousandths: Decimal(whole) + Decimal(thousandths) / 1000,
    st.integers(-(10**6), 2**43 - 1),
    st.integers(0, 999),
)
spellings = st.sampled_from(["{:f}", "{:.6f}", "{:E}", "{:e}"])
numbers = st.builds(lambda value, how: (how.format(value), value), micros, spellings)
extras = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def records_as_json(draw):
    """One record as JSON text, and what it must be read as."""
    phase, name, category = draw(st.sampled_from(["X", "i", "M"])), draw(texts), draw(texts)
    (ts_text, ts), (dur_text, dur) = draw(numbers), draw(numbers)
    pid, tid = draw(st.integers(0, 2**31)), draw(st.integers(0, 9) | st.just("stream 7"))
    ascii_only = draw(st.booleans())

    def dump(value):
        return json.dumps(value, ensure_ascii=ascii_only)

    keys = [
        ("ph", dump(phase)), ("name", dump(name)), ("cat", dump(category)), ("ts", ts_text),
        ("dur", dur_text), ("pid", dump(pid)), ("tid", dump(tid)),
        ("id", dump(draw(extras))), ("args", dump({"Unread": draw(extras)})),
    ]  # fmt: skip
    blank = draw(st.sampled_from(["", " ", "\n  "]))
    body = ("," + blank).join(f'"{k}"{blank}:{v}' for k, v in draw(st.permutations(keys)))
    usable = dur >= 0
    start_ns, dur_ns = (int(ts * 1000), int(dur * 1000)) if usable else (0, 0)
    return "{" + body + "}", (phase, name, category, str(pid), str(tid), start_ns, dur_ns, usable)


@FEW
@given(st.lists(records_as_json(), min_size=1, max_size=6), st.booleans())
def test_typed_untyped_and_salvaged_records_are_the_same(generated, as_list):
    body = ",\n".join(text for text, _ in generated)
    expected = [record for _, record in generated]
    head, tail = ("[", "]") if as_list else ('{"schemaVersion": 1, "traceEvents": [', "]}")

    typed, untyped, salvaged = Health(), Health(), Health()
    assert plain(read(head + body + tail, typed)) == expected
    assert plain(read(head + body + ', {"ph": 7}' + tail, untyped)) == expected
    assert plain(read(head + body + "," + tail, salvaged)) == expected

    assert (typed.events_read, typed.counters) == (len(expected), ())
    assert (untyped.events_read, untyped.dropped) == (len(expected) + 1, 1)
    assert (salvaged.events_read, salvaged.counters) == (len(expected), ())


@pytest.mark.parametrize(
    "damage",
    ["NaN", '{"ph": 7}', "null", '{"ph": "M", "name": null}', '{"ph": "X", "name": "a\nb"}', ""],
)
def test_damage_changes_no_argument_of_another_record(damage):
    args = '{"Input type": ["float", ""], "Input Dims" : [[8, 3], []], "device": 1.0, "bytes": "7"}'
    whole = f'{{"ph": "X", "name": "aten::mm", "tid": "7", "ts": 1, "dur": 2, "args": {args}}}'
    (expected,) = read(f"[{whole}]").events
    found = [e for e in read(f"[{whole}, {damage}, {whole}]").events if e.name == "aten::mm"]
    assert found == [expected, expected]
    assert [bytes(e.args.types) for e in found] == [b'["float", ""]'] * 2


def test_types_of_a_record_that_is_no_json_are_kept():
    record = '{"ph": "X", "ts": 1, "dur": 2, "args": {"Input type": ["float"], "bytes": NaN}}'
    (event,) = read(f"[{record}]").events
    assert bytes(event.args.types) == b'["float"]'


def test_null_is_no_value_whatever_the_field():
    health = Health()
    (event,) = read('[{"ph": "X", "name": null, "cat": null, "ts": 1, "dur": 2}]', health).events
    assert (event.name, event.cat) == ("", "")
    assert health.counters == ()


def test_header_is_every_key_but_the_events():
    text = '{"schemaVersion": 1, "traceEvents": [{"ph": "M"}%s], "after": {"a": [1]}}'
    assert read(text % "").header == {"schemaVersion": 1, "after": {"a": [1]}}
    assert read(text % ', {"ph": 7}').header == {"schemaVersion": 1, "after": {"a": [1]}}
    # Of a damaged file, what follows the records is there once they are read.
    assert read(text % ",").header == {"schemaVersion": 1, "after": {"a": [1]}}


def test_numbers_written_as_text_are_numbers():
    text = '[{"ph": "X", "ts": "1.5", "dur": "2", "args": {"device": "0", "stream": "7"}}]'
    assert times(text) == ([1500], [2000])


def test_a_byte_order_mark_and_bytes_that_are_not_utf8_are_no_obstacle():
    health = Health()
    records = read(b'\xef\xbb\xbf[{"ph": "X", "name": "a\xffb", "ts": 1, "dur": 1}]', health)
    assert records.events[0].name == "a�b"
    assert [(c.counter, c.dropped) for c in health.counters] == [("invalid-utf8", False)]


def test_a_lone_surrogate_is_replaced_because_nothing_could_write_it():
    for escape in ("\\ud83d", "\\uDE00"):
        records = read(f'[{{"ph": "X", "name": "a{escape}", "ts": 1, "dur": 1}}]')
        assert records.events[0].name == "a?"
        assert records.events[0].name.encode() == b"a?"


@pytest.mark.parametrize("end", ["", ",", ",\n"])
@pytest.mark.parametrize("close", ["]", ""])
def test_a_list_after_one_that_was_never_closed_is_named(end, close):
    health = Health()
    first, second = listed("a", 3).removesuffix("]"), listed("b", 3).removesuffix("]") + close
    records = read(f"{first}{end}{second}", health)
    assert [e.name for e in records.events] == ["a"] * 3
    assert {c.counter: c.count for c in health.counters} == {"further-trace": 1}


def test_the_wrong_kind_of_json_is_refused():
    for text in ("5", '"text"', "null", "{}", '{"traceEvents": 3}'):
        with pytest.raises(CorruptInputError):
            read(text)


@pytest.mark.parametrize("text", ["[]", '{"traceEvents": []}', '{"traceEvents": [], "a": 1}'])
def test_a_list_without_events_is_empty_not_corrupt(text):
    with pytest.raises(EmptyInputError):
        read(text)


def test_records_of_wrong_types_are_counted_and_left_out():
    health = Health()
    text = '[1, null, "x", [], {"ph": "X", "ts": true}, {"ph": "X", "ts": 1, "dur": 2}]'
    assert read(text, health).start_ns.tolist() == [1000]
    assert [(c.counter, c.count, c.dropped) for c in health.counters] == [
        ("malformed-record", 5, True)
    ]
    assert health.events_read == 6


# --- times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected_ns"),
    [
        ("0", 0),
        ("0.001", 1),
        ("12.5", 12_500),
        ("-3.25", -3_250),
        ("1e3", 1_000_000),
        ("1.5E-2", 15),
        ("2199023255551.999", 2_199_023_255_551_999),
        ("8796093022207.999", 8_796_093_022_207_999),
        ("8796093022208.001", 8_796_093_022_208_001),
        ("1712345678901234.567", 1_712_345_678_901_234_567),
        ("1712345678901234567e-3", 1_712_345_678_901_234_567),
        ("1712345678901234", 1_712_345_678_901_234_000),
        ("4611686018427386", 4_611_686_018_427_386_000),
    ],
)
def test_microseconds_become_exact_nanoseconds(written, expected_ns):
    assert times(f'[{{"ph": "X", "ts": {written}, "dur": 0.123}}]') == ([expected_ns], [123])


@FEW
@given(
    st.integers(2**43, 4 * 10**15),
    st.integers(0, 999),
    st.integers(0, 10**6),
    st.sampled_from(["[%s]", '{"traceEvents": [%s]}']),
)
def test_epoch_microseconds_with_a_fraction_are_exact(whole, thousandths, dur_ns, container):
    record = f'{{"ph": "X", "ts": {whole}.{thousandths:03d}, "dur": {Decimal(dur_ns) / 1000:f}}}'
    assert times(container % record) == ([whole * 1000 + thousandths], [dur_ns])


@pytest.mark.parametrize(
    "times_written",
    [
        '"ts": 1, "dur": -1',
        '"ts": null, "dur": 1',
        '"dur": 1',
        '"ts": NaN, "dur": 1',
        '"ts": 1, "dur": NaN',
        '"ts": Infinity, "dur": 1',
        '"ts": 1e400, "dur": 1',
        '"ts": 1, "dur": 1e18',
        '"ts": 4611686018427386, "dur": 4611686018427386',
        '"ts": -9e18, "dur": 1',
        '"ts": ' + "9" * 25 + ', "dur": 1',
        '"ts": ' + "9" * 400 + ', "dur": 1',
        '"ts": 1, "dur": -' + "9" * 400,
        '"ts": ' + "9" * 5000 + ', "dur": 1',
    ],
)
def test_unusable_times_are_marked_and_the_others_kept(times_written):
    records = read(f'[{{"ph": "X", {times_written}}}, {{"ph": "X", "ts": 5, "dur": 1}}]')
    assert records.timed.tolist() == [False, True]
    assert (records.start_ns.tolist(), records.dur_ns.tolist()) == ([0, 5000], [0, 1000])


@pytest.mark.parametrize("key", ["pid", "dur"])
def test_a_number_of_more_digits_than_python_reads_costs_no_other_record(key):
    health = Health()
    records = read(
        f'[{{"ph": "X", "{key}": {"9" * 5000}}}, {{"ph": "X", "ts": 5, "dur": 1}}]', health
    )
    assert records.start_ns[-1] == 5000
    assert health.events_read == 2


def test_an_exact_start_needs_no_duration():
    text = '[{"ph": "i", "ts": 1712345678901234.567}]'
    assert times(text) == ([1_712_345_678_901_234_567], [0])


def test_rounding_in_a_damaged_file_is_counted():
    written = '{"ph": "X", "ts": 1712345678901234.567, "dur": 1%s}'
    health = Health()
    found = read("[" + written % ', "x": NaN' + ", " + written % "" + "]", health)
    assert abs(found.start_ns[0] - 1_712_345_678_901_234_567) < 250
    assert found.start_ns[1] == 1_712_345_678_901_234_567
    assert {c.counter: c.count for c in health.counters}["rounded-time"] == 1


def test_a_record_that_does_not_fit_costs_no_other_its_exact_time():
    exact = '{"ph": "X", "ts": 1712345678901234.567, "dur": 1}'
    assert times(f'[{exact}, {{"ph": 7}}]') == ([1_712_345_678_901_234_567], [1000])


def test_a_record_without_a_duration_has_none():
    records = read('[{"ph": "i", "ts": 5}]')
    assert (records.timed.tolist(), records.dur_ns.tolist()) == ([True], [0])


def test_a_slice_without_a_duration_is_not_one_of_length_zero():
    records = read('[{"ph": "X", "ts": 5}, {"ph": "X", "ts": 5, "dur": 0}]')
    assert records.timed.tolist() == [False, True]


def test_times_beyond_all_numbers_are_unusable():
    records = read('[{"ph": "X", "ts": 1e308, "dur": 1e308}, {"ph": "X", "ts": 1, "dur": 2}]')
    assert records.timed.tolist() == [False, True]


def test_a_header_nested_too_deep_loses_no_record():
    deep = "[" * 100_000 + "]" * 100_000
    records = read(f'{{"a": {deep}, "traceEvents": [{{"ph": "X", "ts": 1, "dur": 2}}]}}')
    assert (records.header, records.timed.tolist()) == ({}, [True])


def test_untimed_slices_are_counted_as_dropped():
    health = Health(events_read=3)
    count_untimed(health, 0)
    assert health.counters == ()
    count_untimed(health, 2)
    assert [(c.counter, c.count, c.dropped) for c in health.counters] == [
        ("unusable-time", 2, True)
    ]


# --- torn and damaged files ----------------------------------------------------------------------

RECORDS = [
    '{"ph": "X", "name": "a", "ts": 1, "dur": 2, "args": {"stream": 7}}',
    '{"ph": "X", "name": "b\\"q]", "ts": 3.5, "dur": 1, "args": {"list": [{"x": 1}, {"y": 2}]}}',
    '{"ph": "M", "name": "é", "args": {"name": "[]{}"}}',
    '{"ph": "X", "name": "c", "ts": 9, "dur": 1}',
]
LIST = "[\n" + ",\n".join(RECORDS) + "\n]\n"
OBJECT = '{"schemaVersion": 1, "traceEvents": [\n' + ", ".join(RECORDS) + '\n], "after": 1}'


@pytest.mark.parametrize("letter", ["a", "é", "字"])
def test_a_walk_ends_where_a_record_begins_whatever_its_letters_are(letter):
    names = [letter * count for count in (3, 70_000, 5)]
    data = ("[" + ",".join(f'{{"ph": "X", "name": "{name}"}}' for name in names) + "]").encode()
    begins = [i for i in range(len(data)) if data.startswith(b'{"ph"', i)]
    walker, position = Salvage(data), 1
    for number, goal in enumerate([*begins[1:], len(data)]):
        found = walker.walk(position, goal)
        (record,) = found.records
        assert json.loads(bytes(record))["name"] == names[number]
        position = found.position
    assert (found.end, data[position:]) == (End.LIST, b"]")


def most_memory(work):
    """What it holds at most, bytes."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_of_a_large_damaged_text_there_is_one_copy():
    text = b"[" * 5_000_000
    assert most_memory(lambda: Salvage(text).walk(1, len(text))) < 1.1 * len(text)
    assert most_memory(lambda: keys_after(text, 0)) < 1.5 * len(text)


@pytest.mark.parametrize("text", [LIST, OBJECT])
def test_cut_at_any_byte_the_complete_records_before_it_remain(text):
    whole = plain(read(text))
    data = text.encode()
    list_ends = data.rindex(b"]") + 1
    kept_before = 0
    for cut in range(len(data)):
        health = Health()
        try:
            records = read(data[:cut], health)
        except CorruptInputError:
            assert kept_before == 0
            continue
        kept = plain(records)
        assert kept == whole[: len(kept)]
        assert len(kept) >= kept_before
        assert health.events_read == len(kept) + health.dropped
        assert records.complete is (cut >= list_ends)
        assert health.has("json-truncated") is (cut < list_ends)
        kept_before = len(kept)
    assert kept_before == len(whole)


@pytest.mark.parametrize("position", range(len(RECORDS)))
def test_a_damaged_record_costs_only_itself(position):
    damaged = list(RECORDS)
    damaged[position] = '{"ph": "X", "name": "un"quoted", "args": {"list": [{"x": 1}, {"y": 2}]}}'
    expected = [r for i, r in enumerate(plain(read(LIST))) if i != position]
    for text in ("[" + ",".join(damaged) + "]", '{"traceEvents": [' + ",".join(damaged) + "]}"):
        health = Health()
        records = read(text, health)
        assert plain(records) == expected
        assert health.dropped == 1
        # Behind a damaged record without a successor, more may have been lost.
        assert records.complete is (position < len(RECORDS) - 1)


def test_a_file_of_another_kind_is_given_up_soon():
    with pytest.raises(CorruptInputError):
        read('[{"ph"' + ", {x" * 100_000)


@FEW
@given(st.data())
def test_damage_anywhere_raises_nothing_but_corrupt_input(data):
    raw = bytearray(data.draw(st.sampled_from([LIST, OBJECT])).encode())
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    health = Health()
    try:
        records = read(bytes(raw), health)
    except CorruptInputError:
        return
    assert health.events_read == len(records.events) + health.dropped
    assert len(records.timed) == len(records.start_ns) == len(records.events)
