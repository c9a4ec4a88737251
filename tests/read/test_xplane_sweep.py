"""Compiled kernels read XPlane profiles exactly as the readers do that stand in for them."""

import mmap
import random
import threading
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.read.xplane_samples import block, number, varint

from stepwhy.base.columns import chunks, compiled
from stepwhy.base.errors import CorruptInputError
from stepwhy.read.formats.xplane import layout, planes, sweep
from stepwhy.read.formats.xplane.events import missing_id
from stepwhy.read.formats.xplane.groups import MISSING
from stepwhy.read.formats.xplane.kernels.layout import IdTable
from stepwhy.read.formats.xplane.planes import read_space
from stepwhy.read.formats.xplane.sweep import Sweeper
from stepwhy.read.inputs.source import Source
from stepwhy.trace import Health

SMALL = st.integers(0, 9)
NUMBERS = SMALL | st.sampled_from([-1, 300, 2**31, 2**62, 2**63 - 1, -(2**63)])
STATS = ("id", "tf_op", "step_num", "unwanted", "memcpy_details", "correlation_id")
PICOSECONDS = st.integers(0, 10**7) | NUMBERS

REFERENCE = st.builds(lambda key, to: number(1, key) + number(7, to), SMALL, SMALL)
STATISTIC = st.one_of(
    REFERENCE,
    st.builds(lambda key, value: number(1, key) + number(4, value), SMALL, NUMBERS),
    st.builds(lambda key, value: number(1, key) + number(3, value), SMALL, NUMBERS),
    st.builds(lambda key, value: number(1, key) + block(5, value), SMALL, st.binary(max_size=12)),
    st.builds(lambda key: number(1, key) + varint(2 << 3 | 1) + bytes(8), SMALL),
    st.builds(lambda key, value: number(4, value) + number(1, key), SMALL, NUMBERS),
    st.builds(lambda key: number(1, key), SMALL),
    st.binary(max_size=4),
)
FIELD = st.one_of(
    st.builds(number, st.sampled_from([1, 2, 3, 5]), NUMBERS),
    st.builds(block, st.just(4), STATISTIC),
    st.builds(number, st.sampled_from([9, 99]), NUMBERS),
)
PLAIN = st.builds(
    lambda key, at, dur, stats: number(1, key) + number(2, at) + number(3, dur) + b"".join(stats),
    SMALL,
    PICOSECONDS,
    PICOSECONDS,
    st.lists(st.builds(block, st.just(4), STATISTIC), max_size=4),
)
EVENT = PLAIN | st.lists(FIELD, max_size=5).map(b"".join)


def line(key, events):
    head = number(1, key) + block(2, f"thread {key}".encode()) + number(3, 1000 * key)
    return block(3, head, *(block(4, event) for event in events))


def names(field, entries):
    """Metadata by id: names, and what events of that name have in common."""
    return b"".join(
        block(field, number(1, key), block(2, block(2, name.encode()), *stats))
        for key, (name, *stats) in entries.items()
    )


# A call of a pipeline: ids are read where there is one.
CALL = "InstantiatedCapturedFunction::Run"
SHARED = {3: ("kernel", block(5, number(1, 2), number(7, 1)), block(5, number(1, 1), number(4, 5)))}
METADATA = names(
    4, {1: ("a",), 2: ("b",), 5: (CALL,), **SHARED, 2**40: ("far",), 8: ("",)}
) + names(5, {key: (name,) for key, name in enumerate(STATS, start=1)})
PLANES = st.lists(st.lists(EVENT, max_size=6), max_size=3).map(
    lambda lines: block(
        1, block(2, b"/host:CPU"), *(line(k, events) for k, events in enumerate(lines)), METADATA
    )
)


def read(data, *, with_kernels):
    """All that is read of a space, as plain values."""
    health = Health()
    least = 1 if with_kernels else 1 << 62
    with (
        patch.multiple(compiled, _MANY=least, _FEW=least),
        patch.object(sweep, "LARGE", least),
        patch.object(planes, "_MANY", least),
    ):
        try:
            space = read_space(Source(data, "x"), health)
        except CorruptInputError:
            return "corrupt"
    found = [
        (p.name, p.stats, p.lines, times(p.events), statistics(p.events, space.texts))
        for p in space.planes
    ]
    return found, health.events_read, health.counters


def times(events):
    columns = (events.line, events.name > 0, events.start_ns, events.dur_ns)
    return [column.tolist() for column in columns]


def statistics(events, texts):
    """By statistic; those that no event has are left out."""
    labels = events.labels
    found = {n: column[events.label].tolist() for n, column in labels.numbers.items()}
    found |= {f"{name} of each": column.tolist() for name, column in events.ids.items()}
    of_labels = {n: [texts[c] for c in column.tolist()] for n, column in labels.texts.items()}
    named = {n: [column[c] for c in events.label] for n, column in of_labels.items()}
    empty = (MISSING, missing_id("correlation_id"), "")
    return {
        key: values
        for key, values in [*found.items(), *((f"{n} as text", v) for n, v in named.items())]
        if any(value not in empty for value in values)
    }


@pytest.mark.usefixtures("kernels")
@given(PLANES)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_kernels_agree_with_the_other_readers(data):
    assert read(data, with_kernels=True) == read(data, with_kernels=False)


@pytest.mark.usefixtures("kernels")
@given(PLANES, st.randoms(use_true_random=False))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_kernels_agree_on_damaged_bytes(data, chance):
    damaged = bytearray(data)
    for _ in range(chance.choice([1, 1, 4])):
        damaged[chance.randrange(len(damaged))] = chance.choice([0, 0x22, 0x80, 0xFF])
    damaged = bytes(damaged[: chance.choice([len(damaged), chance.randrange(1, len(damaged) + 1)])])
    assert read(damaged, with_kernels=True) == read(damaged, with_kernels=False)


@pytest.mark.usefixtures("kernels")
def test_kernels_agree_on_a_statistic_that_nobody_asks_for_and_that_is_cut_off():
    event = b'"\x0c\x08\x00\x10\x00\x18\x00"\x04\x08\x008\x80'
    line = b"\x08\x00\x12\x08thread 0\x18\x00" + event
    data = block(1, block(2, b"/host:CPU"), block(3, line), METADATA)
    assert read(data, with_kernels=True) == read(data, with_kernels=False)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    "rest", [b"\0\0", b"\x11\0", b"2\x09", b"B\x02\0", b"*\x01ab", b"\x18\0\0", b"\x09\0"]
)
@pytest.mark.parametrize("key", [0, 1, 4])  # of a statistic that nobody knows, asks for, does not
def test_kernels_agree_on_a_statistic_that_is_not_one_value(rest, key):
    event = number(1, 1) + number(3, -1) + block(4, number(1, key) + rest)
    data = space([number(1, 1), event])
    for least in (len(data), len(data) - len(METADATA)):
        cut = data[:least]
        assert read(cut, with_kernels=True) == read(cut, with_kernels=False)


@given(PLANES, st.integers(1, 4), st.integers(1, 40))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_pieces_give_what_all_at_once_gives(data, events, size):
    whole = read(data, with_kernels=False)
    with patch.object(chunks, "CHUNK", events), patch.object(layout, "_CHUNK", size):
        assert read(data, with_kernels=False) == whole


def test_pages_of_a_mapped_file_come_back(tmp_path):
    data = space([number(1, 1) + block(4, number(1, 2), block(5, b"x" * 99))] * 400)
    file = tmp_path / "x.xplane.pb"
    file.write_bytes(data)
    found = []
    for source in (Source(data, "x"), Source(file.read_bytes, "x", file)):
        with patch.multiple(chunks, CHUNK=100), patch.multiple(layout, _CHUNK=9000):
            space_of = read_space(source, Health())
        found.append(statistics(space_of.planes[0].events, space_of.texts))
    assert isinstance(source.mapped, mmap.mmap)
    assert found[0] == found[1]
    assert len(found[0]["tf_op as text"]) == 400


def space(events, at=0):
    return block(1, block(2, b"/host:CPU"), line(at, events), METADATA)


@pytest.mark.usefixtures("kernels")
def test_a_plane_of_strange_events_is_left_to_the_other_readers(monkeypatch):
    monkeypatch.setattr(sweep, "_ODD_EVENTS", 3)
    strange = number(1, 1) + number(99, 1)
    for count in (3, 4):
        _, events_read, _ = read(space([strange] * count), with_kernels=True)
        assert events_read == count
    assert read(space([strange] * 9), with_kernels=True) == read(
        space([strange] * 9), with_kernels=False
    )


@pytest.mark.usefixtures("kernels")
def test_texts_that_do_not_fit_make_their_table_grow():
    noise = random.Random(4)  # noqa: S311 - the same bytes every time, no secret
    texts = [noise.randbytes(noise.randrange(1, 90)) for _ in range(4000)]
    events = [number(1, 1) + block(4, number(1, 2), block(5, text)) for text in texts * 2]
    data = space(events)
    assert read(data, with_kernels=True) == read(data, with_kernels=False)


@pytest.mark.usefixtures("kernels")
def test_long_lines_are_read_in_pieces_and_mapped_files_too(monkeypatch, tmp_path):
    data = space([number(1, 1) + number(2, 10**6 * i) + bytes(0) for i in range(9000)])
    whole = read(data, with_kernels=True)
    monkeypatch.setattr(sweep, "_CHUNK", 5000)
    (tmp_path / "x").write_bytes(data)
    mapped = Source(Path(tmp_path / "x").read_bytes, "x", tmp_path / "x").mapped
    monkeypatch.setattr(sweep, "LARGE", 1)
    layout = Sweeper.of(mapped).walk(data.index(b"\x22"), len(data), 0x22)
    assert len(layout) > 5
    assert read(data, with_kernels=True) == whole == read(mapped[:], with_kernels=False)


def several(lines_of_planes):
    """Planes of different names; the metadata of the second one is damaged."""
    named = [(f"/device:GPU:{number}", lines) for number, lines in enumerate(lines_of_planes)]
    damage = {1: block(4, b"\xff\xff")}
    return b"".join(
        block(
            1,
            block(2, name.encode()),
            *(line(k, events) for k, events in enumerate(lines)),
            damage.get(place, METADATA),
        )
        for place, (name, lines) in enumerate(named)
    )


@pytest.mark.usefixtures("kernels")
@given(st.lists(st.lists(st.lists(EVENT, max_size=6), max_size=3), min_size=2, max_size=5))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_planes_that_are_read_at_once_stay_in_order(lines_of_planes):
    data = several(lines_of_planes)
    assert read(data, with_kernels=True) == read(data, with_kernels=False)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("events", "at_once"), [((9, 9, 9), True), ((9, 0, 0), False)])
def test_planes_are_read_at_once_where_several_are_large(monkeypatch, events, at_once):
    threads, plain = set(), Sweeper.read

    def noted(self, lines, wanted):
        threads.add(threading.current_thread() is threading.main_thread())
        return plain(self, lines, wanted)

    monkeypatch.setattr(Sweeper, "read", noted)
    one = number(1, 1) + number(2, 10**6) + number(3, 10**6)
    data = several([[[one] * count] for count in events])
    monkeypatch.setattr(sweep, "LARGE", 1)
    monkeypatch.setattr(planes, "_MANY", 5)
    space = read_space(Source(data, "x"), Health())
    assert [len(plane.events) for plane in space.planes] == [events[0], events[2]]
    assert threads == {not at_once}


def test_ids_are_found_in_tables_and_beyond_them():
    keys = np.array([-5, 0, 3, 2**40], dtype=np.int64)
    dense, far, of_far = IdTable.of(keys, np.array([7, 8, 9, 10], dtype=np.int32), missing=-1)
    assert dense.tolist() == [8, -1, -1, 9]
    assert (far.tolist(), of_far.tolist()) == ([-5, 2**40], [7, 10])


@pytest.mark.usefixtures("kernels")
def test_small_files_are_read_without_kernels():
    assert Sweeper.of(bytes(sweep.LARGE - 1)) is None
    assert Sweeper.of(bytes(sweep.LARGE)) is not None
