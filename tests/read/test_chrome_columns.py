"""Formats built on Chrome JSON become columns, which are the same whatever the pieces are."""

import json
import mmap
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import seeds
from stepwhy.read.formats.chrome_trace import reader as chrome_trace
from stepwhy.read.formats.exported import reader as exported
from stepwhy.read.formats.horovod import reader as horovod
from stepwhy.read.formats.horovod.exchanges import RangeRole, Ranges
from stepwhy.read.formats.horovod.ranks import _negotiations
from stepwhy.read.formats.horovod.records import LARGEST_BYTES
from stepwhy.read.formats.horovod.slices import _sums
from stepwhy.read.formats.megascan import reader as megascan
from stepwhy.read.formats.megascan.ranges import nest_ranges
from stepwhy.read.formats.tf_timeline import reader as tf_timeline
from stepwhy.read.inputs.source import Source
from stepwhy.read.shared.chrome_json import (
    Codes,
    Document,
    Growing,
    KeyCodes,
    cuts,
    document,
    first_seen,
)
from stepwhy.trace import NULL, Health, Phase
from stepwhy.trace.schema import TABLES

FEW = settings(max_examples=200, deadline=None, derandomize=True)
IMPORTERS = (chrome_trace, exported, horovod, megascan, tf_timeline)


def contents(trace):
    tables = {t: {c: v.tolist() for c, v in vars(trace.table(t)).items()} for t in TABLES}
    return trace.strings, trace.meta, trace.health, tables


def samples():
    for importer in IMPORTERS:
        name = importer.__name__.split(".")[-2]
        for number, (_, data) in enumerate(getattr(seeds, name)()):
            yield pytest.param(importer, data, id=f"{name}-{number}")


SAMPLES = list(samples())


@pytest.mark.parametrize(("importer", "data"), SAMPLES)
@pytest.mark.parametrize("piece", [40, 700])
def test_a_trace_is_the_same_whatever_the_pieces_are(importer, data, piece, monkeypatch):
    whole = contents(importer.read(Source(data, "x.json")))
    monkeypatch.setattr(cuts, "CHUNK", piece)
    assert contents(importer.read(Source(data, "x.json"))) == whole


@pytest.mark.parametrize(("importer", "data"), SAMPLES)
def test_a_trace_is_the_same_from_a_mapped_file(importer, data, tmp_path, monkeypatch):
    whole = contents(importer.read(Source(data, "x.json")))
    monkeypatch.setattr(document, "_HELD", 1)
    path = tmp_path / "x.json"
    path.write_bytes(data)
    source = Source(pytest.fail, "x.json", path, head=data[: 1 << 16])
    assert isinstance(source.mapped, mmap.mmap)
    assert contents(importer.read(source)) == whole


def test_records_that_begin_with_any_key_are_read_in_chunks(monkeypatch):
    monkeypatch.setattr(cuts, "CHUNK", 100)
    events = [{"number": i, "ph": "X", "name": str(i), "ts": i, "dur": 1} for i in range(50)]
    batches = list(Document(Source(json.dumps(events).encode(), "x"), dict, Health()))
    assert len(batches) > 10
    assert [e.name for b in batches for e in b.events] == [str(i) for i in range(50)]


# --- columns ------------------------------------------------------------------------------------


def test_a_column_grows():
    column = Growing(np.int32)
    assert column.values().tolist() == []
    column.append(np.arange(6)[::2])
    column.append(np.empty(0, dtype=np.int64))
    column.append(np.asarray([-1]))
    assert len(column) == 4
    assert column.values().tolist() == [0, 2, 4, -1]
    assert column.values().dtype == np.int32


def test_things_are_numbered_as_they_come():
    codes = Codes()
    assert codes.of("abcab", 5).tolist() == [0, 1, 2, 0, 1]
    numbers, places = first_seen(np.asarray([3, 1, 3, 0], dtype=np.int32))
    assert (numbers.tolist(), places.tolist()) == ([3, 1, 0], [0, 1, 3])


@FEW
@given(st.lists(st.lists(st.integers(-(2**62), 2**62), unique=True, max_size=40), max_size=8))
def test_keys_are_numbered_as_things_are(batches):
    keys, things = KeyCodes(), Codes()
    for batch in batches:
        # Some of which are known.
        some = list(dict.fromkeys([*list(things)[::2], *batch]))
        found = keys.of(np.asarray(some, dtype=np.int64))
        assert found.tolist() == things.of(some, len(some)).tolist()
    assert keys.keys().tolist() == list(things)
    assert len(keys) == len(things)


def test_keys_that_want_one_slot_get_several():
    keys, wanted = KeyCodes(), np.arange(1 << 16, dtype=np.int64) << 47
    assert keys.of(wanted).tolist() == list(range(1 << 16))
    assert keys.of(wanted[::-3]).tolist() == list(range(1 << 16))[::-3]


# --- MegaScan: which range lies in which --------------------------------------------------------


def innermost(ranges, time):
    """The last begun of the ranges that cover the time up to the next nanosecond."""
    around = [i for i, (start, end, _) in enumerate(ranges) if start <= time < end]
    return around[-1] if around else None


spans = st.tuples(st.integers(0, 30), st.integers(0, 12), st.sampled_from([0, 1, 2]))


@FEW
@given(st.lists(spans, max_size=12))
def test_every_time_belongs_to_the_innermost_range(found):
    """Ranges that nest; children that outlast their parents are cut to them."""
    ranges = []
    for start, length, phase in sorted(found, key=lambda r: (r[0], -r[1])):
        ends = [e for s, e, _ in ranges if s <= start < e]
        ranges.append((start, min([start + length, *ends]), phase))
    ranges.sort(key=lambda r: (r[0], -r[1]))
    nested = nest_ranges(
        np.asarray([r[0] for r in ranges], dtype=np.int64),
        np.asarray([r[1] for r in ranges], dtype=np.int64),
        np.asarray([r[2] for r in ranges], dtype=np.int8),
    )
    owners = {}
    for owner in np.flatnonzero(~nested.is_parent).tolist():
        owners |= dict.fromkeys(range(*ranges[owner][:2]), owner)
    for owner, start, length in zip(nested.owner, nested.start_ns, nested.dur_ns, strict=True):
        assert nested.is_parent[owner]
        owners |= dict.fromkeys(range(start, start + length), owner)
    assert owners == {t: i for t in range(50) if (i := innermost(ranges, t)) is not None}


def test_a_range_without_a_phase_has_that_of_the_one_around_it():
    times = np.asarray([0, 1, 2, 20], dtype=np.int64), np.asarray([10, 9, 3, 30], dtype=np.int64)
    own = [Phase.FORWARD, Phase.UNKNOWN, Phase.COMMUNICATION, Phase.UNKNOWN]
    nested = nest_ranges(*times, np.asarray(own, dtype=np.int8))
    expected = [Phase.FORWARD, Phase.FORWARD, Phase.COMMUNICATION, Phase.UNKNOWN]
    assert nested.phase.tolist() == expected
    assert nested.is_parent.tolist() == [True, True, False, False]


# --- Horovod: ticks of ranks, and sizes ---------------------------------------------------------


def one_by_one(asked, ticks):
    """Who was last, alone and since the first: each tick belongs to the first end behind it."""
    found, left = [], list(ticks)
    for start, end in asked:
        inside = [t for t in left if start <= t[0] <= end]
        left = [t for t in left if t[0] > end]
        if len(inside) > 1:
            found.append(
                (inside[-1][1], inside[-1][0] - inside[-2][0], inside[-1][0] - inside[0][0])
            )
    return found


@FEW
@given(st.integers(0, 2**32), st.sampled_from([1, 1000]))
def test_ticks_belong_to_the_negotiation_that_they_end(seed, chunk):
    chance = random.Random(seed)  # noqa: S311 - the same on every machine
    pieces, expected = [], []
    for row in range(1 + chance.randrange(3)):
        asked = sorted((chance.randrange(50), chance.randrange(20)) for _ in range(5))
        asked = [(start, start + length) for start, length in asked]
        ticks = sorted((chance.randrange(60), chance.randrange(3)) for _ in range(12))
        pieces += [(row, 0, start, end, RangeRole.NEGOTIATION) for start, end in asked]
        pieces += [(row, rank, time, time, RangeRole.TICK) for time, rank in ticks]
        expected += one_by_one(asked, ticks)
    pieces.sort(key=lambda p: p[2])  # in the order of time; of one row as they are
    columns = [np.asarray([p[i] for p in pieces], dtype=np.int64) for i in range(5)]
    row, name, start_ns, end_ns, role = columns
    nothing = np.full(len(row), NULL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stepwhy.base.columns.chunks.CHUNK", chunk)
        ranks = np.arange(3, dtype=np.int32)
        table = Ranges(
            ["a"] * 4, list("012"), ranks, row, name, role, start_ns, end_ns, nothing, nothing
        )
        found = _negotiations(table)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_sizes_add_up_unless_one_is_not_known():
    sizes = np.asarray([3, 4, 5, NULL, LARGEST_BYTES - 1, LARGEST_BYTES - 1, 7], dtype=np.int64)
    sums = _sums(sizes, np.asarray([0, 2, 4, 6]))
    assert sums.tolist() == [7, NULL, LARGEST_BYTES, 7]
