"""PyTorch's memory timelines, both kinds, written here as PyTorch writes them."""

from __future__ import annotations

import json
import tracemalloc
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.memory_timeline_samples import (
    AT_NS,
    AT_US,
    CREATE,
    PARAMETER,
    RAW,
    SUMS,
    sums,
)
from tests.read.tf_samples import counters, source_of

from stepwhy.analyse.answers.memory import memory_uses
from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.base.errors import CorruptInputError, StepwhyError
from stepwhy.diagnose import run_all
from stepwhy.read.formats.memory_timeline import reader as importer
from stepwhy.result.reasons import Gap, Lack
from stepwhy.trace import NULL
from stepwhy.trace.integrity import check


def read(data):
    source = source_of(json.dumps(data).encode())
    assert importer.recognise(source)
    trace = importer.read(source)
    check(trace)
    return trace


def rows(trace):
    table = trace.allocations
    columns = (table.time_ns - AT_NS, table.change, table.total)
    owners = [trace.string(int(o)) for o in table.owner]
    return list(zip(*(c.tolist() for c in columns), owners, strict=True))


def test_every_tensor_of_a_raw_timeline_is_a_block():
    trace = read(RAW)
    assert rows(trace) == [
        (0, 1000, 1000, "parameter"),
        (0, 300, 1300, "activation"),
        (100, 300, 1600, "activation"),
        (200, 50, 1650, "gradient"),
        (300, -300, 1350, "activation"),
        (400, -50, 1300, "gradient"),
        (400, 50, 1350, "parameter"),
    ]
    block = trace.allocations.block.tolist()
    assert block[4] == block[2] != block[1]
    assert block[5] == block[3]
    assert (trace.health.events_read, trace.health.events_kept) == (7, 7)
    assert trace.meta.signals == {"memory"}


def test_the_peak_and_what_held_it():
    (use,) = memory_uses(Facts(read(RAW)))
    assert (use.peak_bytes, use.peak_ns, use.base_bytes) == (1650, 200, 0)
    assert [(h.name, h.blocks, h.bytes) for h in use.holders] == [
        ("parameter", 1, 1000),
        ("activation", 2, 600),
        ("gradient", 1, 50),
    ]
    assert (use.over, use.span_ns) == ("run", 401)


def test_nothing_is_concluded_about_the_device_or_the_steps():
    facts = Facts(read(RAW))
    verdict = decide(facts)
    assert verdict.reason == Gap(Lack.CONTENT_BESIDE_MEMORY)
    concluded = {f.id for f in run_all(facts) if f.verdict not in {"no_data", "incomplete"}}
    graphs = {"single-device-towers", "unfetched-tower", "soft-placement-fallback", "graph-loop"}
    of_tensorflow = {"uncolocated-gradients", "variable-traffic", "dense-update"}
    assert concluded <= graphs | of_tensorflow


def test_sums_are_changes_of_each_category():
    trace = read(SUMS)
    assert rows(trace) == [
        (0, 1000, 1000, "parameter"),
        (5000, 600, 1600, "activation"),
        # What is lost comes first, or it would seem to be more at once than it ever was.
        (9000, -600, 1000, "activation"),
        (9000, 600, 1600, "parameter"),
    ]
    assert set(trace.allocations.block.tolist()) == {NULL}
    (use,) = memory_uses(Facts(trace))
    assert (use.peak_bytes, use.peak_ns, use.holders) == (1600, 5000, ())
    held = "At the peak the tensors were: parameter 1000 B, activation 600 B."
    assert trace.meta.notes[0] == held


def test_categories_are_counters_too():
    trace = read(SUMS)
    table = trace.counters
    named = [trace.string(int(n)) for n in table.name]
    assert list(zip(named, table.value.tolist(), strict=True)) == [
        ("parameter bytes", 1000),
        ("activation bytes", 600),
        ("parameter bytes", 1600),
        ("activation bytes", 0),
    ]


def test_absurd_records_are_counted():
    damaged = [*RAW, [1 << 63, CREATE, 5, PARAMETER], [AT_NS, CREATE, 1 << 60, PARAMETER]]
    trace = read(damaged)
    assert counters(trace) == {"unusable-record": 2}
    assert len(trace.allocations) == 7


@pytest.mark.parametrize("held", [[], [0], [0, 5]])
def test_a_time_that_lacks_sums_is_counted(held):
    times, (first, _, last) = SUMS
    trace = read([times, [first, held, last]])
    assert counters(trace) == {"unusable-record": 1}
    assert [row[::2] for row in rows(trace)] == [(0, 1000), (9000, 1600)]


def test_a_time_with_more_sums_than_there_are_categories_spoils_no_other():
    times, (first, second, last) = SUMS
    trace = read([times, [first, [*second, 7], last]])
    assert rows(trace) == rows(read(SUMS))


def test_absurd_sums_are_counted():
    times, (first, _, last) = SUMS
    trace = read([times, [first, sums(parameter=1 << 70), last]])
    assert counters(trace) == {"unusable-record": 2}  # there and back again
    assert [row[::2] for row in rows(trace)] == [(0, 1000)]


def test_what_adds_up_to_more_than_there_is_is_damage():
    data = [[AT_NS, CREATE, (1 << 52) - 1, PARAMETER] for _ in range(1100)]
    with pytest.raises(CorruptInputError):
        importer.read(source_of(json.dumps(data).encode()))


# A trace holds 48 of them, and a column may move when it grows; the text is 140 or more.
_MOST_BYTES_PER_CHANGE = 110


@pytest.mark.parametrize("is_raw", [True, False])
def test_neither_text_nor_records_are_held_as_a_whole(monkeypatch, is_raw):
    monkeypatch.setattr(importer, "_CHUNK", 1 << 12)
    monkeypatch.setattr(importer, "_RECORDS", 1 << 8)
    count = 20_000
    times = [AT_US + 7 * i for i in range(count)]
    data = [times, [sums(parameter=1000 * (1 + i % 2)) for i in range(count)]]
    if is_raw:
        data = [[AT_NS + 7 * i, CREATE, 512 - 1024 * (i % 2), PARAMETER] for i in range(count)]
    source = source_of(json.dumps(data, separators=("," + 30 * " ", ":")).encode())
    del data, times
    importer.read(source_of(json.dumps(RAW).encode()))  # what is imported
    tracemalloc.start()
    trace = importer.read(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(trace.allocations) == count
    assert peak < _MOST_BYTES_PER_CHANGE * count


@pytest.mark.parametrize("data", [RAW, SUMS])
def test_a_torn_file_is_refused(data):
    torn = json.dumps(data).encode()[:-6]
    with pytest.raises(CorruptInputError, match="cut off or damaged"):
        importer.read(source_of(torn))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"[[], []]",
        b"[[1, 2], [3, 4]]",
        b"[[1, 9, 3, 4], [1, 9, 3, 4]]",
        b"[[1, 2], [[0, 1], [0, 1]]]",
        b'[{"ph": "X"}]',
        b"[[1.5, 2, 3, 4]]",
    ],
)
def test_other_lists_are_not_taken(data):
    assert not importer.recognise(source_of(data))
    assert importer.read(source_of(data)) is None


def test_times_that_fill_the_head_are_looked_past():
    times = [AT_US + i for i in range(6000)]
    trace = read([times, [sums(parameter=i + 1) for i in range(6000)]])
    assert trace.health.events_read == 6000


WRITE = """
import torch, warnings
warnings.simplefilter("ignore")
model = torch.nn.Sequential(torch.nn.Linear(200, 300), torch.nn.ReLU(), torch.nn.Linear(300, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with torch.profiler.profile(
    activities=[torch.profiler.ProfilerActivity.CPU],
    record_shapes=True, profile_memory=True, with_stack=True,
) as profiler:
    for _ in range(2):
        model(torch.rand(64, 200)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
for name in ("sums.json", "sums.json.gz", "all.raw.json.gz"):
    profiler.export_memory_timeline(name, device="cpu")
"""


@pytest.mark.framework
def test_pytorchs_own_timelines_agree_with_each_other(tmp_path, forks):
    pytest.importorskip("torch")
    from stepwhy.read.inputs.reading import read_source

    forks("torch").check_output(WRITE, tmp_path)
    uses = {}
    for name in ("sums.json", "sums.json.gz", "all.raw.json.gz"):
        source = read_source(tmp_path / name)
        assert importer.recognise(source)
        trace = importer.read(source)
        check(trace)
        assert trace.health.events_kept == trace.health.events_read > 0
        (uses[name],) = memory_uses(Facts(trace))
    # Weights and biases, at least, are held throughout.
    least = 4 * (200 * 300 + 300 + 300 * 10 + 10)
    assert uses["sums.json"] == uses["sums.json.gz"]
    raw, sums = uses["all.raw.json.gz"], uses["sums.json"]
    assert least < sums.peak_bytes <= raw.peak_bytes
    held = {h.name: h.bytes for h in raw.holders}
    assert held["parameter"] == least
    assert sum(held.values()) == raw.peak_bytes


def outcome(data):
    """What reading gives: the tables and counters, or the error."""
    try:
        trace = importer.read(source_of(data))
    except StepwhyError as error:
        return type(error), str(error)
    if trace is None:
        return None
    tables = (trace.allocations, trace.counters)
    columns = [values.tolist() for table in tables for values in vars(table).values()]
    return columns, trace.meta, trace.health


@settings(derandomize=True, max_examples=150, deadline=None)
@given(st.sampled_from([RAW, SUMS]), st.integers(1, 40), st.data())
def test_chunks_give_the_same_as_the_whole_list(records, size, draw):
    """And what is no JSON is repaired alike."""
    data = bytearray(json.dumps(records).encode())
    for _ in range(draw.draw(st.integers(0, 2))):
        place = draw.draw(st.integers(0, len(data) - 1))
        data[place : place + 1] = draw.draw(st.sampled_from([b"", b"]", b"[", b",", b"7", b"],["]))
    whole = outcome(bytes(data))
    with patch.multiple(importer, _CHUNK=size, _RECORDS=1 + size % 3):
        assert outcome(bytes(data)) == whole
