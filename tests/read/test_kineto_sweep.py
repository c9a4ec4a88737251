"""Files read by the compiled kernel: the same traces as without it, whatever JSON is in them."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kineto_samples import GENERATIONS, sample

from stepwhy.base.columns import interning, strings
from stepwhy.base.columns.kernels import tables
from stepwhy.base.columns.kernels.tables import Pairs
from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.read.formats.kineto import lanes, plain, sweep
from stepwhy.read.formats.kineto import reader as kineto
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.chrome_json import cuts
from stepwhy.trace.schema import TABLES

FEW = settings(max_examples=150, deadline=None, derandomize=True)
PIECE = 128

# --- Generated files ---

TRAP = '"}, {"ph": "X"'
texts = st.text(max_size=6) | st.sampled_from(
    [
        TRAP, "aten::mm", "ac2g", "async_gpu", "[memory]", "thread_name", "stream 7", "x" * 40, "",
        "Stream Wait Event", "Event Sync", "cudaEventSynchronize",
    ]
)  # fmt: skip
integers = st.integers(-3, 40) | st.integers(-(2**70), 2**70)
quoted = integers.map(str)
loose = integers | quoted | texts | st.none() | st.booleans() | st.floats(-9, 1e19)
values = st.recursive(
    loose,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "device": integers | quoted | st.none(),
        "stream": integers | texts | values,
        "correlation": integers | loose,
        "bytes": integers | st.none(),
        "size": loose,
        "name": texts,
        "Sequence number": integers | quoted,
        "Fwd thread id": integers,
        "Call stack": texts | st.none() | st.just("a.py(1): f;torch/x.py(2): g"),
        "Device Type": st.sampled_from([0, 1, None, "1"]),
        "Device Id": st.integers(-1, 2),
        "Bytes": integers,
        "Addr": integers,
        "Total Allocated": integers,
        "Total Reserved": integers,
        "wait_on_stream": integers | loose,
        "wait_on_cuda_event_record_corr_id": integers | loose,
        "Group size": integers | loose,
        "Collective name": texts | values,
        "In msg nelems": integers | loose,
        "dtype": st.sampled_from(["Float", "Half", "?", 4]),
        "External id": values,
        "Input Dims": values,
        "Call stac": values,
        "devices": values,
        "Fwd thread id ": values,
    },
)
times = (
    st.integers(0, 10**7)
    | st.decimals(0, 10**7, places=3)
    | st.decimals(0, 10**4, places=5)
    | st.integers(-5, 2**53)
    | st.sampled_from([1e-3, 1e15, 0.0005, 0.0015, 0.00250001, 4611686018427387.904, 10**17])
)
categories = st.sampled_from(
    [
        "cpu_op", "kernel", "cuda_runtime", "python_function", "gpu_memcpy", "ac2g", "async_gpu",
        "cuda_sync", "collective_comm",
    ]
)  # fmt: skip
records = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXXiIMsf"), "name": texts},
    optional={
        "ts": times,
        "dur": times,
        "cat": categories | texts,
        "pid": integers | texts,
        "tid": integers | texts,
        "id": values,
        "bp": texts,
        "args": arguments | arguments | st.none() | values,
        "more": values,
    },
)
small = st.integers(-3, 40)
plain_records = st.fixed_dictionaries(
    {"ph": st.sampled_from("XXXXXiIMsf"), "name": texts, "cat": categories | texts},
    optional={
        "ts": st.integers(0, 10**7) | st.decimals(0, 10**7, places=3),
        "dur": st.integers(0, 10**7) | st.decimals(0, 10**4, places=5),
        "pid": small | st.sampled_from(["rank 1", "é"]) | st.none(),
        "tid": small | st.sampled_from(["stream 7", ""]),
        "args": st.none()
        | st.fixed_dictionaries(
            {"Input Dims": values},
            optional={
                "device": small | st.none(),
                "stream": small | texts,
                "name": texts,
                **dict.fromkeys(["correlation", "Sequence number", "Fwd thread id"], small),
                **dict.fromkeys(["bytes", "size", "Bytes", "Addr"], small | small.map(str)),
                **dict.fromkeys(["Total Allocated", "Total Reserved"], small | st.none()),
                **dict.fromkeys(["Device Type", "Device Id"], st.integers(0, 1)),
                "Call stack": texts | st.none() | st.just("a.py(1): f;torch/x.py(2): g"),
            },
        ),
    },
)
headers = st.dictionaries(texts.filter(lambda t: t != "traceEvents"), values, max_size=3)
layouts = st.sampled_from(
    [{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"indent": "\t \r"}]
)


class Encoder(json.JSONEncoder):
    """Writes decimals as they are."""

    def iterencode(self, o, _one_shot=False):
        return super().iterencode(_numbers(o), _one_shot)


class Written(float):
    """A number in the spelling of a decimal."""

    def __new__(cls, value):
        self = super().__new__(cls, value)
        self.text = str(value)
        return self

    def __repr__(self):
        return self.text


def _numbers(value):
    if isinstance(value, dict):
        return {k: _numbers(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v) for v in value]
    return Written(value) if hasattr(value, "as_tuple") else value


@st.composite
def documents(draw):
    """A trace as text: a list, or an object with other keys before and behind its events."""
    events = draw(st.lists(plain_records, max_size=25) | st.lists(records, max_size=25))
    events[len(events) // 2 :] = draw(st.lists(plain_records | records, max_size=2))
    events += draw(st.lists(plain_records, min_size=1, max_size=15))
    for event in events:  # any order of keys
        for key in draw(st.permutations(list(event))):
            event[key] = event.pop(key)
    document = {**draw(headers), "traceEvents": events, **draw(headers)}
    dumps = partial(json.dumps, cls=Encoder, **draw(layouts))
    text = dumps(events if draw(st.booleans()) else document)
    return draw(st.sampled_from(["", "\n", "\ufeff"])) + text + draw(st.sampled_from(["", "\n "]))


# --- Both ways of reading ---


def outcome(data):
    """All that reading gives, or the error."""
    try:
        trace = kineto.read(Source(data, "x.json"))
    except (CorruptInputError, EmptyInputError) as error:
        return str(error)
    if trace is None:
        return None
    tables = {
        (table, name): (values.dtype, values.tolist())
        for table in TABLES
        for name, values in vars(getattr(trace, table)).items()
    }
    return tables, trace.strings, trace.meta, repr(trace.health)


@pytest.fixture(scope="module")
def both(kernels):
    """Reads a text with the kernel and without; how many sweeps there were, and both outcomes."""
    assert kernels("stepwhy.read.formats.kineto.kernels.records")
    swept = []

    class Counted(sweep.Sweep):
        def read(self, position, goal):
            swept.append(super().read(position, goal))
            return swept[-1]

    def read(text):
        data = text if isinstance(text, bytes) else text.encode("utf-8", errors="surrogatepass")
        swept.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuts, "CHUNK", PIECE)
            slow = outcome(data)
            patch.setattr(kineto, "LARGE", 0)
            patch.setattr(lanes, "STRETCH", 2 * PIECE)
            patch.setattr(lanes, "Sweep", Counted)
            return outcome(data), slow, sum(s.records for s in swept)

    return read


def test_generated_files(both):
    swept = 0

    @settings(FEW, max_examples=300)  # of fewer, hardly any record is swept
    @given(documents())
    def check(text):
        nonlocal swept
        with_kernel, without, records = both(text)
        assert with_kernel == without
        swept += records

    check()
    assert swept > 200  # the others are at the end of their files, or not plain


@FEW
@given(documents(), st.data())
def test_damaged_files(both, text, data):
    damaged = bytearray(text.encode("utf-8", errors="surrogatepass"))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        if data.draw(st.booleans()):
            damaged[at] = data.draw(st.integers(0, 255))
        else:
            del damaged[at : at + data.draw(st.integers(1, 40))]
    with_kernel, without, _ = both(bytes(damaged))
    assert with_kernel == without


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_of_kineto(both, generation):
    with_kernel, without, _ = both(sample(generation))
    assert with_kernel == without


def slices(count, **more):
    """Plain records as a profiler writes them."""
    return [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{i % 7}", "pid": 1, "tid": i % 3, "ts": i}
        | {"dur": 0.5, "args": {"External id": i, "Sequence number": i, **more}}
        for i in range(count)
    ]


def test_all_of_a_plain_file_is_swept(both):
    with_kernel, without, records = both(json.dumps({"traceEvents": slices(1000)}))
    assert with_kernel == without
    assert records > 990  # all but the last piece


def test_types_and_shapes_of_a_swept_file(both):
    args = {"Input type": ["float", "double"], "Input Dims": [[8, 3], []]}
    with_kernel, without, records = both(json.dumps({"traceEvents": slices(1000, **args)}))
    assert with_kernel == without
    assert records > 990


@pytest.mark.parametrize(
    "odd",
    [
        '{"ph": "X", "name": "a", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1e3, "dur": 1}',
        '{"ph": "X", "name": "a", "cat": "cpu_op", "pid": 1.5, "tid": 1, "ts": 1, "dur": 1}',
        '{"ph": "X", "name": "a", "cat": null, "pid": 1, "tid": 1, "ts": 1, "dur": 1}',
        '{"ph": "X", "n\\u0061me": "a", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 1}',
        '{"ph": "X", "name": "a", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": "1", "dur": 1}',
        '{"ph": "X", "args": {}, "args": {"correlation": 3}, "ts": 1, "dur": 1, "name": "a"}',
        '{"ph": "X", "name": "a", "name": "b", "cat": "cpu_op", "pid": 1, "ts": 1, "dur": 1}',
        '{"ph": "X", "name": "a", "args": ' + "[" * 100 + "]" * 100 + ', "ts": 1, "dur": 1}',
        "{}",
        "[]",
        "17",
    ],
)
def test_one_odd_record_among_plain_ones(both, odd):
    events = [json.dumps(record) for record in slices(200)]
    events.insert(100, odd)
    with_kernel, without, records = both('{"traceEvents": [' + ", ".join(events) + "]}")
    assert with_kernel == without
    assert records > 150


@pytest.mark.parametrize(
    "text", ["NaN", '"\\ud800"', "-Infinity", "01", "1.", ".5", "tru", "'a'", "{]", '"\t"']
)
def test_what_is_no_json_is_read_in_the_other_way(both, text):
    events = [json.dumps(record) for record in slices(200)]
    events[100] = events[100].replace('"External id": 100', f'"External id": {text}')
    with_kernel, without, _ = both('{"traceEvents": [' + ", ".join(events) + "]}")
    assert with_kernel == without


@pytest.mark.parametrize("place", [0, 100, 199, 200])
def test_bytes_that_are_not_utf_8(both, place):
    document = {"traceEvents": slices(200, note="@"), "host": "@"}
    parts = json.dumps(document).encode().split(b"@")
    text = b"@".join(parts[: place + 1]) + b"\xff" + b"@".join(parts[place + 1 :])
    with_kernel, without, _ = both(text)
    assert with_kernel == without
    assert "invalid-utf8" in with_kernel[-1]


def test_many_names_and_long_ones(both, monkeypatch):
    monkeypatch.setattr(tables, "_ROOM", 4)
    monkeypatch.setattr(sweep, "_ROWS", 16)
    events = slices(300)
    for i, event in enumerate(events):
        event["name"] = f"kernel {i} " + "x" * (i % 5 * 300)
    with_kernel, without, records = both(json.dumps(events))
    assert with_kernel == without
    assert records > 280


@pytest.mark.parametrize("many", [0, 7, 100])
def test_texts_that_are_numbered_anew(both, monkeypatch, many):
    """Names that come again later, stacks, threads and streams: their numbers do not last."""
    events = slices(300)
    for i, event in enumerate(events):
        event["name"] = f"request {i % 97}"
        event["cat"] = ("cpu_op", "user_annotation")[i % 2]
        event["tid"] = i % 3
        event["args"] = {"Call stack": f"a.py({i % 5}): f"}
    _, expected, _ = both(json.dumps(events))
    monkeypatch.setattr(sweep, "_MANY", many)
    monkeypatch.setattr(sweep, "_ROWS", 16)
    for module in (interning, strings):
        monkeypatch.setattr(module, "FEW", 20)
    with_kernel, without, records = both(json.dumps(events))
    assert with_kernel == without == expected
    assert records > 280


@pytest.mark.parametrize(
    ("written", "ns"),
    [
        ("1700000000000000.001", 1700000000000000001),
        ("1700000000000000", 1700000000000000000),
        ("2.0005", 2000),
        ("0.0015", 2),
        ("0.00250000000000000000001", 3),
        ("12.3", 12300),
    ],
)
def test_times_are_exact(both, written, ns):
    first = '{"ph": "X", "name": "a", "cat": "cpu_op", "ts": %s, "dur": %s}'
    others = [json.dumps(record | {"ts": 2 * 10**15}) for record in slices(50)]
    text = ", ".join([first % (written, written), *others])
    (tables, *_), without, records = both(f"[{text}]")
    assert tables["slices", "start_ns"][1][0] == ns
    assert tables["slices", "dur_ns"][1][0] == ns
    assert tables == without[0]
    assert records > 40


def test_a_mapped_file_is_read_without_keeping_it(both, tmp_path: Path, monkeypatch):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": slices(1000)}))
    monkeypatch.setattr(plain, "_DROP", 4096)
    with_kernel, _, _ = both(path.read_bytes())
    monkeypatch.setattr(kineto, "LARGE", 0)
    monkeypatch.setattr(cuts, "CHUNK", PIECE)
    trace = kineto.read(Source(pytest.fail, "x.json", path, head=b"{"))
    assert np.array_equal(trace.slices.start_ns, with_kernel[0]["slices", "start_ns"][1])


def test_pairs_of_consecutive_numbers_have_hashes_of_their_own(kernels):
    """As processes and threads, devices and streams, are numbered; each search is short."""
    numbering = kernels("stepwhy.base.columns.kernels.numbering")
    for pairs in (
        [(n, n) for n in range(4000)],
        [(-1 - n, n) for n in range(4000)],
        [(a, b) for a in range(64) for b in range(64)],
    ):
        table = Pairs()
        table._resize(4096)
        for number, pair in enumerate(pairs):
            assert numbering.number_of_pair(table.arrays, *pair) == number
        hashes = table._entries[: len(pairs), -1]
        slots = np.bincount(hashes & (len(table._slots) - 1))
        assert slots.max() < 12
