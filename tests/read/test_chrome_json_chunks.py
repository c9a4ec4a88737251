"""Files larger than a piece: cuts are guessed, and every guess is proven or given up."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kineto_samples import GENERATIONS, sample
from tests.read.chrome_samples import read_records

from stepwhy.base.errors import CorruptInputError
from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.formats.kineto.arguments import KinetoArgs
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.chrome_json import Document, cuts
from stepwhy.trace import Health
from stepwhy.trace.schema import TABLES

FEW = settings(max_examples=150, deadline=None, derandomize=True)
# What looks like the end of one record and the beginning of the next, inside of a string.
TRAP = '"}, {"ph": "X"'

texts = st.text(max_size=6) | st.sampled_from([TRAP, "\\", '"', "},{", "]", "é", "𝄞"])
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
traps = st.fixed_dictionaries({"ph": st.just("X"), "name": texts})
records = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXiMsf"), "name": texts, "ts": st.integers(0, 10**15)},
    optional={
        "dur": st.integers(0, 10**6),
        "cat": texts,
        "pid": st.integers(0, 99) | texts,
        "tid": st.integers(0, 99) | texts,
        "args": st.dictionaries(texts, values | st.lists(traps, max_size=3), max_size=3),
        "more": st.lists(traps, max_size=3) | values,
    },
)
headers = st.dictionaries(
    texts.filter(lambda t: t != "traceEvents"), values | st.lists(traps, max_size=2), max_size=3
)


def read(text, piece, health=None):
    """All records of a text, with pieces of a size."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "CHUNK", piece)
        return read_records(Source(data, "x.json"), KinetoArgs, health or Health())


def plain(found):
    """What later code reads of every record."""
    return [
        (e.ph, e.name, e.cat, e.pid, e.tid, int(start), int(dur), bool(timed))
        for e, start, dur, timed in zip(
            found.events, found.start_ns, found.dur_ns, found.timed, strict=True
        )
    ]


def expected(record):
    """The same of a record as the standard library decodes it."""
    timed = record["ph"] != "X" or "dur" in record
    times = (record["ts"] * 1000, record.get("dur", 0) * 1000) if timed else (0, 0)
    place = (record.get("pid"), record.get("tid"))
    return (record["ph"], record["name"], record.get("cat", ""), *place, *times, timed)


@st.composite
def documents(draw):
    """A trace as text, and the same as objects."""
    events = draw(st.lists(records, min_size=1, max_size=30))
    layout = draw(
        st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])
    )
    if draw(st.booleans()):
        return json.dumps(events, **layout), events, {}
    before, after = draw(headers), draw(headers)
    document = {**before, "traceEvents": events, **after}
    header = {k: v for k, v in document.items() if k != "traceEvents"}
    return json.dumps(document, **layout), events, header


@FEW
@given(documents(), st.integers(16, 400))
def test_records_are_those_of_the_standard_library(document, piece):
    text, events, header = document
    health = Health()
    found = read(text, piece, health)
    assert plain(found) == [expected(e) for e in events]
    assert (found.complete, health.counters) == (True, ())
    assert found.header == header


@FEW
@given(documents(), st.integers(16, 400), st.data())
def test_a_torn_file_holds_the_same_whatever_the_pieces_are(document, piece, data):
    text = document[0].encode()
    torn = text[: data.draw(st.integers(2, len(text)))]
    results = []
    for size in (1 << 20, piece):
        health = Health()
        try:
            found = read(torn, size, health)
        except CorruptInputError:
            results.append("corrupt")
        else:
            results.append((plain(found), found.complete, health.counters, health.events_read))
    assert results[0] == results[1]


@FEW
@given(documents(), st.integers(16, 400), st.data())
def test_damage_anywhere_costs_no_record_beside_it(document, piece, data):
    text = bytearray(document[0].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    health = Health()
    try:
        found = read(bytes(text), piece, health)
    except CorruptInputError:
        return
    assert health.events_read == len(found.events) + health.dropped


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("piece", [64, 1000])
def test_a_trace_is_the_same_whatever_the_pieces_are(generation, piece, monkeypatch):
    source = Source(sample(generation), "x.json")
    whole = kineto.read(source)
    monkeypatch.setattr(cuts, "CHUNK", piece)
    cut = kineto.read(source)
    assert (cut.strings, cut.meta) == (whole.strings, whole.meta)
    assert cut.health == whole.health
    for table in TABLES:
        for name, values in vars(whole.table(table)).items():
            assert getattr(cut.table(table), name).tolist() == values.tolist()


def test_a_list_of_objects_behind_the_events_is_no_end_of_them():
    events = [{"ph": "X", "name": str(i), "ts": i, "dur": 1} for i in range(9)]
    devices = [{"id": i, "name": "A100"} for i in range(40)]
    text = json.dumps({"traceEvents": events, "deviceProperties": devices})
    found = read(text, 64)
    assert plain(found) == [expected(e) for e in events]
    assert found.header == {"deviceProperties": devices}


def test_records_of_another_list_behind_the_events_are_not_read():
    events = [{"ph": "X", "name": str(i), "ts": i, "dur": 1} for i in range(40)]
    text = json.dumps({"traceEvents": events[:20], "others": events[20:], "last": 1})
    found = read(text, 64)
    assert plain(found) == [expected(e) for e in events[:20]]
    assert found.header == {"others": events[20:], "last": 1}
    assert found.complete


def test_long_symbol_tables_behind_the_events_are_passed_over():
    events = [{"ph": "X", "name": str(i), "ts": i, "dur": 1} for i in range(30)]
    frames = {str(i): {"name": f"f{i}", "parent": i} for i in range(300)}
    text = json.dumps({"traceEvents": events, "stackFrames": frames})
    found = read(text, 64)
    assert plain(found) == [expected(e) for e in events]
    assert found.header == {"stackFrames": frames}


@pytest.mark.parametrize("piece", [40, 1 << 20])
def test_a_number_that_json_does_not_know_costs_no_other_record_its_exact_time(piece):
    parts = [
        f'{{"ph": "X", "name": "{i}", "ts": 1712345678901234.{i:03d}, "dur": 1}}' for i in range(30)
    ]
    parts[4] = '{"ph": "X", "name": "4", "ts": 5, "dur": 1, "args": {"bandwidth": NaN}}'
    found = read("[" + ",".join(parts) + "]", piece)
    assert [e.name for e in found.events] == [str(i) for i in range(30)]
    if piece == 40:
        exact = found.start_ns.tolist()
        assert exact[0] == 1_712_345_678_901_234_000
        assert exact[29] == 1_712_345_678_901_234_029


def test_the_records_of_a_document_come_in_batches(monkeypatch):
    monkeypatch.setattr(cuts, "CHUNK", 100)
    events = [{"ph": "X", "name": str(i), "ts": i, "dur": 1} for i in range(50)]
    document = Document(Source(json.dumps(events).encode(), "x"), KinetoArgs, Health())
    batches = list(document)
    assert len(batches) > 10
    assert max(len(b.events) for b in batches) < 10
    assert [e.name for b in batches for e in b.events] == [str(i) for i in range(50)]


def test_a_time_of_thousands_of_digits_is_one_whatever_stands_beside_it():
    long = {"ph": "X", "name": "a", "ts": "9" * 5000, "dur": 1}
    for others in ([], [{"ph": "X", "name": 2**32, "ts": 1}]):
        health = Health()
        found = read(json.dumps([long, *others]), 1 << 20, health)
        assert plain(found) == [("X", "a", "", None, None, 0, 0, False)]
        assert sum(item.count for item in health.counters) == len(others)


def test_a_record_that_holds_a_long_list_of_others_is_one():
    inner = [{"ph": "X", "name": f"inner {i}", "ts": i, "dur": 1} for i in range(200)]
    records = [{"ph": "X", "name": f"outer {i}", "ts": i, "dur": 1} for i in range(60)]
    records[30]["args"] = {"list": inner}
    health = Health()
    found = read(json.dumps({"traceEvents": records}), 256, health)
    assert [e.name for e in found.events] == [f"outer {i}" for i in range(60)]
    assert found.complete
    assert not health.counters


def test_a_damaged_record_costs_only_itself_in_a_large_file():
    records = [json.dumps({"ph": "X", "name": str(i), "ts": i, "dur": 1}) for i in range(60)]
    records[30] = '{"ph": "X", "name": "torn", "args": {"list": [{'
    health = Health()
    found = read(f"[{', '.join(records)}]", 256, health)
    assert {str(i) for i in range(60)} - {e.name for e in found.events} <= {"30", "31"}
    assert "unreadable-record" in {item.counter for item in health.counters}
