"""Stored traces and archives with malicious members."""

from __future__ import annotations

import io
import os
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepwhy.base.errors import CorruptInputError, TooLargeError, UnsupportedFormatError
from stepwhy.read.formats.store import reader as store
from stepwhy.read.inputs.reading import read_source
from stepwhy.trace import Meta, TraceBuilder
from stepwhy.trace.store import load, save
from tests.engine.test_explain import kineto
from tests.inputs.hostile import explained

MILLION = 1_000_000


@pytest.fixture
def stored(tmp_path):
    """A stored trace, and a function that replaces its members."""
    path = tmp_path / "a.stepwhy"
    builder = TraceBuilder()
    builder.intern("name")
    save(builder.finish(Meta("kineto")), path)

    def write(**members):
        with zipfile.ZipFile(path) as archive:
            whole = {name: archive.read(name) for name in archive.namelist()}
        whole.update({name.replace("__", "."): data for name, data in members.items()})
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in whole.items():
                archive.writestr(name, data)
        return path

    return write


def parquet(columns, **options):
    target = io.BytesIO()
    pq.write_table(pa.table(columns), target, **options)
    return target.getvalue()


def test_string_in_very_many_rows(stored):
    """Ten gigabytes of text in a file of one megabyte."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["x" * MILLION])
    path = stored(strings__parquet=parquet({"text": text}, compression="none"))
    (answer,) = explained(path)
    assert answer["slug"] == "corrupt-input"
    assert "its strings are longer than it can hold" in answer["what"]


def test_columns_that_expand_too_much(stored):
    plain = {"use_dictionary": False, "compression": "zstd"}
    zeros = parquet({"text": ["\0" * (100 * MILLION)]}, **plain)
    assert len(zeros) < 1 << 16
    with pytest.raises(CorruptInputError, match="it expands more than any trace"):
        load(stored(strings__parquet=zeros).read_bytes(), "x")


def test_rows_that_do_not_fit_into_memory(stored, monkeypatch):
    """Columns of one repeated value take no space in a file, but their rows take memory."""
    path = stored()
    with zipfile.ZipFile(path) as archive:
        table = pq.read_table(io.BytesIO(archive.read("slices.parquet")))
    columns = {
        n: pa.repeat(pa.scalar(1, table.schema.field(n).type), MILLION) for n in table.schema.names
    }
    columns["padding"] = pa.array([os.urandom(MILLION // 8), *[b""] * (MILLION - 1)])
    path = stored(slices__parquet=parquet(columns))
    assert path.stat().st_size < MILLION // 4
    monkeypatch.setattr("stepwhy.read.inputs.memory.available_bytes", lambda: 20 * MILLION)
    with pytest.raises(TooLargeError, match=r"23\.8 MiB or more"):
        store.read(read_source(path))


@pytest.mark.parametrize(
    ("name", "is_read"),
    [("/etc/passwd", True), ("\\..\\x", True), ("nul\0", True), ("../../trace.json", False)],
)
def test_member_names_are_not_used_as_paths(tmp_path, name, is_read):
    """Members are never unpacked to their own paths."""
    target = tmp_path / "in" / "a.zip"
    target.parent.mkdir()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, kineto())
    if is_read:
        assert read_source(target).data == kineto().encode()
    else:
        with pytest.raises(UnsupportedFormatError):
            read_source(target)
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "a.zip"]


def test_unknown_members_of_a_stored_trace_are_ignored(stored, tmp_path):
    path = stored(**{"../../evil": b"x", "/etc/passwd": b"x"})
    assert load(path.read_bytes(), "x").strings
    assert [found.name for found in tmp_path.rglob("*")] == ["a.stepwhy"]


def test_members_that_share_their_bytes_are_refused(stored):
    """Many entries of the directory share the same content."""
    path = stored(padding=os.urandom(1 << 16))
    with zipfile.ZipFile(path, "a") as archive:
        member = archive.getinfo("padding")
        archive.filelist += [member] * 50
        archive._didModify = True
    with pytest.raises(CorruptInputError, match="larger than itself"):
        load(path.read_bytes(), "x")
