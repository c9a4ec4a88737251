"""Stored traces: what is written is what is read, and damage is refused."""

import contextlib
import io
import json
import stat
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz.extremes.stored import STORE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.trace.traces import traces

from stepwhy.base.columns import strings
from stepwhy.base.errors import CorruptInputError, NewerFormatError, OutputError, StepwhyError
from stepwhy.read.formats.store import reader as importer
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.source import Source
from stepwhy.trace import Kind, Meta, Role, TraceBuilder, store
from stepwhy.trace.schema import SCHEMA_VERSION, TABLES, columns_of
from stepwhy.trace.store import is_store, load, save

FEW = settings(
    max_examples=25, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip


def small():
    builder = TraceBuilder()
    track = builder.track(Role.HOST_THREAD, "main")
    for i in range(3):
        builder.slice(track, Kind.OP, f"op {i}", i, 1)
    return builder.finish(Meta("test", signals=frozenset({"host-ops"}), notes=("A note.",)))


def stored(trace, folder):
    path = folder / "run.stepwhy"
    save(trace, path)
    return path.read_bytes()


def rewritten(data, name, content):
    """The archive with one member replaced, or left out when the content is None."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.namelist():
            if member != name:
                new.writestr(member, old.read(member))
            elif content is not None:
                new.writestr(member, content)
    return target.getvalue()


@FEW
@given(trace=traces())
def test_a_stored_trace_comes_back_equal(trace, tmp_path):
    data = stored(trace, tmp_path)
    assert is_store(data)
    back = load(data, "run")
    assert back.strings == trace.strings
    assert back.meta == trace.meta
    assert back.health == trace.health
    for table in TABLES:
        for name, values in vars(trace.table(table)).items():
            other = getattr(back.table(table), name)
            assert other.dtype == values.dtype
            assert other.tolist() == values.tolist(), (table, name)


def with_sizes(*sizes):
    """A trace whose slices have these sizes and nothing else that differs, but their times."""
    builder = TraceBuilder()
    track, name = builder.track(Role.HOST_THREAD, "main"), builder.intern("x")
    shared = {c: np.zeros(len(sizes), dtype=np.int8) for c in ("kind", "phase")}
    where = {"track": np.full(len(sizes), track), "name": np.full(len(sizes), name)}
    times = {"start_ns": np.arange(len(sizes)), "dur_ns": np.ones(len(sizes), dtype=np.int64)}
    builder.slices_from({**shared, **where, **times, "bytes": np.asarray(sizes)})
    return builder.finish(Meta("test"))


@pytest.mark.parametrize(
    "sizes", [(), (1, 2, 3), (-1, -1, -1, 5), (5, -1, -1, -1), (-1, -1, -1), (1, -1, 3, 4)]
)
def test_columns_are_joined_from_parts(tmp_path, monkeypatch, sizes):
    monkeypatch.setattr("stepwhy.trace.store._ROWS_AT_ONCE", 2)
    back = load(stored(with_sizes(*sizes), tmp_path), "run").slices
    assert back.bytes.tolist() == list(sizes)
    assert back.start_ns.tolist() == list(range(len(sizes)))
    assert (back.bytes.strides == (0,)) == (not sizes or set(sizes) == {-1})


@pytest.mark.parametrize("times", [0, 2])
def test_a_column_of_another_length_than_its_table_is_damage(tmp_path, monkeypatch, times):
    read = store._read_column
    data = stored(with_sizes(1, 2, 3), tmp_path)
    monkeypatch.setattr(
        store, "_read_column", lambda f, n: list(read(f, n)) * (times if n == "bytes" else 1)
    )
    with pytest.raises(CorruptInputError):
        load(data, "run")


def test_of_a_mapped_file_no_more_than_its_columns_is_held(tmp_path):
    rows = 200_000
    load(stored(small(), tmp_path), "run")  # what is imported
    path = tmp_path / "run.stepwhy"
    rng = np.random.default_rng(1)
    save(with_sizes(*rng.integers(0, 1 << 40, rows).tolist()), path)
    source = read_source(path)
    tracemalloc.start()
    trace = importer.read(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    held = sum(c.nbytes for c in vars(trace.slices).values() if c.strides != (0,))
    assert len(trace.slices) == rows
    # Times are checked all at once; the file and a second copy of a column would be more.
    assert peak < 1.25 * held


def test_a_file_from_before_a_table_or_column_was_added_reads_as_without(tmp_path):
    import pyarrow.parquet as pq

    builder = TraceBuilder()
    builder.add("marks", start_ns=1, dur_ns=2, profiled=1, light=1)
    builder.add("levels", time_ns=1, queue=builder.intern("q"), kind=0, value=1)
    data = stored(builder.finish(Meta("test")), tmp_path)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        header = json.loads(archive.read("trace.json"))
        marks = pq.read_table(io.BytesIO(archive.read("marks.parquet")))
    del header["tables"]
    for table in ("events", "levels", "stages"):
        data = rewritten(data, f"{table}.parquet", None)
    buffer = io.BytesIO()
    pq.write_table(marks.drop(["light", "cpu_ns"]), buffer)
    data = rewritten(data, "marks.parquet", buffer.getvalue())
    older = load(rewritten(data, "trace.json", json.dumps(header)), "run")
    assert (len(older.events), len(older.levels)) == (0, 0)
    assert (older.marks.light.tolist(), older.marks.cpu_ns.tolist()) == ([0], [-1])
    buffer = io.BytesIO()
    pq.write_table(marks.drop(["start_ns"]), buffer)
    with pytest.raises(CorruptInputError):
        load(rewritten(data, "marks.parquet", buffer.getvalue()), "run")


def test_a_table_that_the_file_names_must_be_there(tmp_path):
    data = rewritten(stored(small(), tmp_path), "events.parquet", None)
    with pytest.raises(CorruptInputError, match="damaged"):
        load(data, "run")


def test_the_importer_reads_it(tmp_path):
    source = Source(stored(small(), tmp_path), "run")
    assert importer.recognise(source)
    assert importer.read(source).slices.start_ns.tolist() == [0, 1, 2]
    assert not importer.recognise(Source(b"PK\x03\x04" + bytes(100), "x"))
    assert not importer.recognise(Source(b"[{}]", "x"))


def test_an_archive_of_another_trace_is_no_stored_trace(tmp_path):
    path = tmp_path / "profile.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("worker7.pt.trace.json", "{}")
    assert not is_store(path.read_bytes())


def test_a_newer_version_is_refused(tmp_path):
    data = stored(small(), tmp_path)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        header = json.loads(archive.read("trace.json"))
    assert header["version"] == SCHEMA_VERSION
    header["version"] += 1
    newer = rewritten(data, "trace.json", json.dumps(header))
    with pytest.raises(NewerFormatError, match="Update stepwhy"):
        load(newer, "run")


@pytest.mark.parametrize("member", ["trace.json", "strings.parquet", "slices.parquet"])
@pytest.mark.parametrize("content", [None, b"", b"[]", b"{}", b'"x"', b"PAR1PAR1", b"\xff\xfe"])
def test_a_missing_or_wrong_member_is_damage(tmp_path, member, content):
    data = rewritten(stored(small(), tmp_path), member, content)
    with pytest.raises(CorruptInputError, match="damaged"):
        load(data, "run")


def test_a_header_of_wrong_types_is_damage(tmp_path):
    data = stored(small(), tmp_path)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        good = json.loads(archive.read("trace.json"))
    for change in (
        {"version": "1"}, {"version": None}, {"meta": None}, {"meta": "x"}, {"meta": {"a": 1}},
        {"health": 3}, {"health": [{}]}, {"events_read": 7}, {"events_read": "7"},
        {"meta": {"format": "x", "world_size": 10**30}}, {"meta": {"format": "x", "rank": 1 << 63}},
        {"events_read": 1 << 63, "events_kept": 1 << 63},
        {"meta": {"format": 5}}, {"meta": {"format": "x", "notes": [3]}},
    ):  # fmt: skip
        bad = rewritten(data, "trace.json", json.dumps({**good, **change}))
        with pytest.raises(CorruptInputError):
            load(bad, "run")


def parquet(table, change):
    """A table of an archive with some columns replaced."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table(pq.read_table(io.BytesIO(table)).to_pydict() | change), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "column",
    [
        {"start_ns": [0.5, 1.0, float("nan")]},
        {"start_ns": [1, None, 3]},
        {"start_ns": ["1", "2", "3"]},
        {"start_ns": np.asarray([2**64 - 1, 0, 1], dtype=np.uint64)},
        {"kind": [257, 1, 1]},  # 1 in eight bits
        {"track": [2**32, 0, 0]},
        {"start_ns": [0, 1, 2**62]},
        {"start_ns": [-(2**63), 0, 1]},
        {"dur_ns": [2**62, 1, 1]},
        {"bytes": [-2, 1, 1]},
    ],
)
def test_a_column_of_other_values_is_damage(tmp_path, column):
    data = stored(small(), tmp_path)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        table = archive.read("slices.parquet")
    assert load(rewritten(data, "slices.parquet", parquet(table, {})), "run").slices is not None
    with pytest.raises(CorruptInputError, match=f"slices.{next(iter(column))}"):
        load(rewritten(data, "slices.parquet", parquet(table, column)), "run")


def test_strings_that_are_none_are_damage(tmp_path):
    data = stored(small(), tmp_path)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        strings = archive.read("strings.parquet")
    for texts in ([1, 2, 3, 4], [b"a", b"b", b"c", b"d"], [None, "b", "c", "d"]):
        bad = rewritten(data, "strings.parquet", parquet(strings, {"text": texts}))
        with pytest.raises(CorruptInputError):
            load(bad, "run")


def test_what_is_wrong_is_said_in_one_line(tmp_path):
    data = rewritten(stored(small(), tmp_path), "slices.parquet", b"PAR1" + bytes(40) + b"PAR1")
    with pytest.raises(CorruptInputError) as error:
        load(data, "run")
    assert str(error.value).isprintable()
    bad = rewritten(data, "trace.json", json.dumps({"version": 1, "meta": {"\n" * 5000: 1}}))
    with pytest.raises(CorruptInputError) as error:
        load(bad, "run")
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


def test_a_member_that_unpacks_to_much_is_refused(tmp_path):
    data = io.BytesIO(stored(small(), tmp_path))
    with zipfile.ZipFile(data, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("padding", bytes(1 << 20))
    with pytest.raises(CorruptInputError, match="larger than itself"):
        load(data.getvalue(), "run")


def test_a_table_that_claims_too_many_rows_is_refused(tmp_path):
    many = {"text": [""] * 200_000}
    data = stored(small(), tmp_path)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        strings = parquet(archive.read("strings.parquet"), many)
    assert len(strings) < 20_000
    with pytest.raises(CorruptInputError, match="more rows than it can"):
        load(rewritten(data, "strings.parquet", strings), "run")


def test_a_small_table_of_too_many_rows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_MOST_ROWS_OF_SMALL", 5, raising=False)
    path = tmp_path / "run.stepwhy"
    path.write_bytes(STORE["slices"](40))
    with pytest.raises(CorruptInputError, match="more rows than it can"):
        load(path.read_bytes(), "run")


def test_cut_anywhere_it_is_refused(tmp_path):
    data = stored(small(), tmp_path)
    for cut in range(0, len(data), 97):
        with pytest.raises(CorruptInputError):
            load(data[:cut], "run")


def deflated(data):
    """The archive as another tool packs it: its first member stored, the others compressed."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            how = zipfile.ZIP_STORED if name == "trace.json" else zipfile.ZIP_DEFLATED
            new.writestr(name, old.read(name), how)
    return target.getvalue()


@pytest.mark.parametrize("place", [6, 8, 10])
def test_a_member_that_no_zip_reader_knows_is_damage(tmp_path, place):
    """Its version, its flags (all of them: encrypted, patched), its kind of compression."""
    data = bytearray(stored(small(), tmp_path))
    data[data.rindex(b"PK\x01\x02") + place] = 0xFF
    with pytest.raises(CorruptInputError, match="damaged"):
        load(bytes(data), "run")


def test_damage_of_packed_members_is_refused_or_harmless(tmp_path):
    data = deflated(stored(small(), tmp_path))
    for at in range(60, len(data), 7):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        with contextlib.suppress(StepwhyError):
            load(bytes(damaged), "run")


def test_a_type_that_arrow_cannot_read_is_damage(tmp_path, monkeypatch):
    def open_file(_data, **_):
        raise pa.ArrowNotImplementedError("Integers with more than 64 bits not implemented")

    data = stored(small(), tmp_path)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", open_file)
    with pytest.raises(CorruptInputError, match="64 bits"):
        load(data, "run")


def test_damage_anywhere_is_refused_or_harmless(tmp_path):
    data = stored(small(), tmp_path)

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(st.integers(0, len(data) - 1), st.integers(0, 255), st.integers(1, 4))
    def mutate(position, value, length):
        bad = data[:position] + bytes([value]) * length + data[position + length :]
        try:
            load(bad, "run")
        except StepwhyError:
            return

    mutate()


def test_writing_replaces_the_file_at_once_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "run.stepwhy"
    path.write_bytes(b"before")
    save(small(), path)
    assert is_store(path.read_bytes())
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "run.stepwhy"
    path.write_bytes(b"before")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        save(small(), path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_a_typed_error(tmp_path):
    with pytest.raises(OutputError) as error:
        save(small(), tmp_path / "absent" / "run.stepwhy")
    assert str(tmp_path) not in str(error.value)
    assert error.value.exit_code == 4


def test_any_parquet_reader_opens_the_tables(tmp_path):
    import pyarrow.parquet as pq

    with zipfile.ZipFile(io.BytesIO(stored(small(), tmp_path))) as archive:
        table = pq.read_table(io.BytesIO(archive.read("slices.parquet")))
    assert table.column("start_ns").to_pylist() == [0, 1, 2]


def test_a_stored_trace_is_as_readable_as_any_file(tmp_path):
    path = tmp_path / "run.stepwhy"
    save(small(), path)
    plain = Path(tmp_path / "plain")
    plain.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_columns_grow_wider_where_later_values_need_it(tmp_path, monkeypatch):
    """Strings, ids and rows are as narrow as the widest needs, whatever part it stands in."""
    monkeypatch.setattr(store, "_ROWS_AT_ONCE", 2)
    builder = TraceBuilder()
    thread = builder.track(Role.HOST_THREAD, "main", process=1, thread=1)
    ids = [-1, -1, 5, -1, 70_000, 300, 1 << 40, 2]
    for start, one in enumerate(ids):
        builder.slice(thread, Kind.OP, "f", start, 1, correlation=one, sequence=min(one, 300))
    trace = builder.finish(Meta("test"))
    store.save(trace, tmp_path / "t.stepwhy")
    loaded = store.load((tmp_path / "t.stepwhy").read_bytes(), "t.stepwhy")
    for name in ("correlation", "sequence", "name", "scope"):
        held, wanted = getattr(loaded.slices, name), getattr(trace.slices, name)
        assert held.tolist() == wanted.tolist()
        assert held.dtype == wanted.dtype


def test_many_strings_are_packed(tmp_path, monkeypatch):
    monkeypatch.setattr(strings, "FEW", 3)
    builder = TraceBuilder()
    builder.track(Role.HOST_THREAD, "main", process=1, thread=1)
    for number in range(9):
        builder.slice(0, Kind.OP, f"request {number} é", number, 1)
    trace = builder.finish(Meta("test"))
    store.save(trace, tmp_path / "t.stepwhy")
    loaded = store.load((tmp_path / "t.stepwhy").read_bytes(), "t.stepwhy")
    assert isinstance(loaded.strings, strings.Strings)
    assert loaded.strings == trace.strings


def test_columns_are_written_as_the_schema_says(tmp_path):
    """However narrow they are in memory."""
    save(small(), tmp_path / "t.stepwhy")
    with zipfile.ZipFile(tmp_path / "t.stepwhy") as archive:
        for table in TABLES:
            written = pq.read_schema(io.BytesIO(archive.read(f"{table}.parquet")))
            types = {field.name: str(field.type) for field in written}
            assert types == {c.name: str(np.dtype(c.dtype)) for c in columns_of(table)}
