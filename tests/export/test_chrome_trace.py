"""Exported timelines follow the format and are read back without loss."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.analyse.timeline import Timeline
from tests.read.tf_samples import source_of
from tests.trace.traces import traces

from stepwhy.base.errors import CorruptInputError, NewerFormatError, OutputError, StepwhyError
from stepwhy.read.formats.exported import reader as exported
from stepwhy.show.export.chrome_trace import write_chrome_trace
from stepwhy.trace import Kind
from stepwhy.trace.schema import TABLES


def drawn():
    """A step with a launch, its kernel, a child and a thread of another process."""
    timeline = Timeline(unit_ns=1)
    timeline.steps(1_000_000_000_000_000_001, 1_000_000_000_000_009_001)
    at = 1_000_000_000_000_000_101
    timeline.launch((at, at + 50), (at + 40, at + 640), 7)
    timeline.add(timeline.stream(), Kind.KERNEL, at + 600, at + 900, name='a "quoted" kernel')
    timeline.add(timeline.executor(), Kind.KERNEL, at, at + 3, name="mm", scope="net/mm")
    timeline.builder.add("counters", time_ns=at, name=timeline.builder.intern("memory"), value=5)
    timeline.builder.add("flows", source=1, target=3, kind=1)
    return timeline.trace()


@pytest.fixture
def write(tmp_path):
    def _write(trace, name="x.trace.json"):
        write_chrome_trace(trace, tmp_path / name)
        return (tmp_path / name).read_bytes()

    return _write


def same(a, b):
    tables = ((t, c) for t in TABLES for c in vars(a.table(t)))
    assert all(np.array_equal(getattr(a.table(t), c), getattr(b.table(t), c)) for t, c in tables)
    return (a.strings, a.meta, a.health) == (b.strings, b.meta, b.health)


@settings(deadline=None)
@given(trace=traces())
def test_nothing_is_lost(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "x.json"
    write_chrome_trace(trace, path)
    source = source_of(path.read_bytes())
    assert exported.recognise(source)
    assert same(exported.read(source), trace)


def test_events_follow_the_format(write):
    document = json.loads(write(drawn()))
    events = document["traceEvents"]
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    slices = [e for e in events if e["ph"] == "X"]
    assert {(e["pid"], e["tid"]) for e in slices} <= named
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in slices)
    assert {e["ph"] for e in events} == {"M", "X", "s", "f", "C"}
    for row in named:
        spans = [(e["ts"], e["ts"] + e["dur"]) for e in slices if (e["pid"], e["tid"]) == row]
        for (_, end), (start, until) in pairwise(sorted(spans, key=lambda s: (s[0], -s[1]))):
            assert start >= end or until <= end + 1e-6


def test_control_characters_in_names_are_escaped(write):
    """In events, rows and metadata, as in `--json`."""
    name = "a\x7f\x9b31m\u202eb\u2028c\U000e0041 Ü"
    timeline = Timeline(unit_ns=1)
    timeline.add(timeline.thread(name=name), Kind.OP, 0, 5, name=name, source=name)
    trace = timeline.trace(notes=(name,))
    data = write(trace)
    assert [c for c in name[:-1] if c not in "a31mbc " and c in data.decode()] == []
    assert "Ü" in data.decode()
    document = json.loads(data)
    assert {name} <= {e["name"] for e in document["traceEvents"] if e["ph"] == "X"}
    assert document["stepwhy"]["strings"].count(name) == 1
    assert same(exported.read(source_of(data)), trace)


def test_nanoseconds_are_exact(write):
    text = write(drawn()).decode()
    assert '"baseTimeNanoseconds":1000000000000000001' in text
    assert '"ts":0.100,"dur":0.050' in text
    assert '"ts":0.140,"dur":0.600' in text


def test_an_arrow_leads_from_the_launch_to_its_kernel(write):
    events = json.loads(write(drawn()))["traceEvents"]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    launch = next(e for e in starts.values() if e["cat"] == "launch")
    # Inside the call, and not after the kernel has started.
    assert (launch["ts"], ends[launch["id"]]["ts"]) == (0.14, 0.14)


def test_a_name_that_ends_in_gz_is_compressed(write):
    assert json.loads(gzip.decompress(write(drawn(), "x.json.gz")))["displayTimeUnit"] == "ms"


def test_missing_folder_is_refused_and_nothing_is_left(tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        write_chrome_trace(drawn(), tmp_path / "no" / "x.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [0.7, 0.9, 0.999])
def test_a_file_that_was_cut_off_is_refused(write, part):
    data = write(drawn())
    with pytest.raises(CorruptInputError, match="cut off or changed"):
        exported.read(source_of(data[: int(part * len(data))]))


def test_a_file_without_one_of_its_events_is_refused(write):
    lines = write(drawn()).splitlines()
    kept = [line for line in lines if b"quoted" not in line or b"traceEvents" in line]
    with pytest.raises(CorruptInputError):
        exported.read(source_of(b"\n".join(kept)))


@pytest.mark.parametrize(
    "change",
    [
        {"strings": [1, 2, 3]},
        {"columns": {"tracks": {"name": [0.5]}}},
        {"columns": {"tracks": {}}},
        {"columns": {"marks": {"start_ns": [1], "dur_ns": [-1], "profiled": [0]}}},
        {"columns": {"counters": {"time_ns": [2**62], "name": [0], "device": [-1], "value": [1]}}},
        {"events_read": 1.5},
        {"health": [{"counter": "x", "severity": "?", "count": 1, "help": "", "dropped": False}]},
        {"meta": {"format": "x", "notes": [1]}},
        {"meta": {"format": "x", "x" * 10_000: 1}, "version": "\n"},
    ],
)
def test_a_file_with_other_types_is_refused_in_one_line(write, change):
    document = json.loads(write(drawn()))
    document["stepwhy"] |= change
    with pytest.raises(CorruptInputError, match="cut off or changed") as error:
        exported.read(source_of(json.dumps(document).encode()))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


def test_a_newer_file_is_refused(write):
    data = write(drawn()).replace(b"stepwhy.chrome-trace/1", b"stepwhy.chrome-trace/2", 1)
    with pytest.raises(NewerFormatError, match="Update"):
        exported.read(source_of(data))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(32, 126)), max_size=4))
def test_damaged_files_give_typed_errors(tmp_path_factory, flips):
    path = tmp_path_factory.mktemp("damage") / "x.json"
    write_chrome_trace(drawn(), path)
    data = bytearray(path.read_bytes())
    for position, value in flips:
        data[int(position * (len(data) - 1))] = value
    source = source_of(bytes(data))
    if exported.recognise(source):
        try:
            trace = exported.read(source)
        except StepwhyError:
            return
        assert len(trace.slices)
