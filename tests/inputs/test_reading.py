"""Read files: plain, compressed, torn and malicious ones."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import random
import sys
import tempfile
import threading
import zipfile
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwhy.base.errors import (
    CorruptInputError,
    EmptyInputError,
    NotFoundError,
    TooLargeError,
    UnsupportedFormatError,
)
from stepwhy.read.formats.store import reader as store
from stepwhy.read.inputs import memory, spool
from stepwhy.read.inputs.reading import read_source
from stepwhy.trace import Meta, TraceBuilder
from stepwhy.trace.store import save

TEXT = b'{"traceEvents": []}' * 500
# Half a megabyte of incompressible data without repetition.
NOISE = b"".join(zlib.crc32(i.to_bytes(4, "big")).to_bytes(4, "big") for i in range(125_000))


def zipped(*members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def zstandard(data):
    return pa.Codec("zstd").compress(data, asbytes=True)


def one_zip(data):
    return zipped(("trace.json", data))


PACKERS = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": zstandard,
    "zip": one_zip,
}
STREAMS = {name: pack for name, pack in PACKERS.items() if name != "zip"}


def read(folder, data, name="trace.json"):
    path = folder / name
    path.write_bytes(data)
    return read_source(path)


# --- Plain files ---


def test_plain_file(tmp_path):
    source = read(tmp_path, TEXT, "a.json")
    assert (source.data, source.truncated, source.origin) == (TEXT, False, "a.json")


def test_plain_file_is_read_at_first_use(tmp_path):
    source = read(tmp_path, TEXT + NOISE)
    (tmp_path / "trace.json").unlink()
    assert source.head == (TEXT + NOISE)[:65536]
    with pytest.raises(NotFoundError, match=r"trace\.json cannot be read"):
        _ = source.data


def test_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(TEXT),))
    writer.start()
    assert read_source(pipe).data == TEXT
    writer.join()


def test_empty_file(tmp_path):
    with pytest.raises(EmptyInputError, match=r"empty\.json is empty"):
        read(tmp_path, b"", "empty.json")


def test_missing_file(tmp_path):
    with pytest.raises(NotFoundError, match="cannot be read"):
        read_source(tmp_path / "no.json")


# --- Archives ---


@pytest.mark.parametrize("kind", PACKERS)
def test_archives_are_recognised_by_content(tmp_path, kind):
    source = read(tmp_path, PACKERS[kind](TEXT), "trace.txt")
    assert (source.data, source.truncated) == (TEXT, False)


@pytest.mark.parametrize("kind", STREAMS)
def test_members_of_a_file_are_joined(tmp_path, kind):
    source = read(tmp_path, STREAMS[kind](b"first ") + STREAMS[kind](b"second"))
    assert (source.data, source.truncated) == (b"first second", False)


def test_a_padded_gzip_file(tmp_path):
    source = read(tmp_path, gzip.compress(NOISE) + gzip.compress(TEXT) + bytes(100))
    assert (source.data, source.truncated) == (NOISE + TEXT, False)


def test_bytes_after_a_gzip_stream_are_ignored(tmp_path):
    source = read(tmp_path, gzip.compress(TEXT) + b"a signature")
    assert (source.data, source.truncated) == (TEXT, False)


@pytest.mark.parametrize("inner", STREAMS)
def test_an_archive_in_an_archive(tmp_path, inner):
    assert read(tmp_path, one_zip(STREAMS[inner](TEXT))).data == TEXT


def test_nesting_of_archives_is_limited(tmp_path):
    data = TEXT
    for _ in range(4):
        data = gzip.compress(data)
    with pytest.raises(CorruptInputError, match="more than 3 times over"):
        read(tmp_path, data)


def test_files_added_by_operating_systems_are_ignored(tmp_path):
    members = ("run/", b""), ("run/trace.json", TEXT), ("__MACOSX/run/._trace.json", b"finder")
    assert read(tmp_path, zipped(*members)).data == TEXT


def test_a_zip_archive_of_a_file_without_a_name(tmp_path):
    unnamed = one_zip(TEXT).replace(b"trace.json", bytes(10))
    assert read(tmp_path, unnamed).data == TEXT


def test_a_zip_archive_of_several_files(tmp_path):
    with pytest.raises(UnsupportedFormatError, match="zip archive of 2 files"):
        read(tmp_path, zipped(("a.json", TEXT), ("b.json", TEXT)))


def test_an_encrypted_zip_archive(tmp_path):
    data = bytearray(one_zip(TEXT))
    for header, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(header) + flags] |= 1
    with pytest.raises(UnsupportedFormatError, match="encrypted zip"):
        read(tmp_path, bytes(data))
    with pytest.raises(UnsupportedFormatError, match="encrypted zip"):
        read(tmp_path, bytes(data[:100]))


def test_a_zip_archive_whose_directory_is_damaged(tmp_path):
    """Damaged: the name in the directory, its encoding, or the signature of the directory."""
    data = zipped(("tr\u00e9.json", NOISE))
    directory = data.index(b"PK\x01\x02")
    for at, value in ((directory + 46, b"T"), (directory + 48, b"\xff"), (directory, b"x")):
        damaged = data[:at] + value + data[at + 1 :]
        source = read(tmp_path, damaged)
        assert (source.data, source.truncated) == (NOISE, True)


@pytest.mark.parametrize(("header", "place"), [(b"PK\x01\x02", 6), (b"PK\x01\x02", 10)])
def test_a_zip_archive_of_an_unknown_version_or_method(tmp_path, header, place):
    data = bytearray(one_zip(TEXT))
    data[data.index(header) + place] = 0xFF
    with pytest.raises(UnsupportedFormatError, match="rare version or kind"):
        read(tmp_path, bytes(data))


def test_stored_trace_is_not_unpacked(tmp_path):
    path = tmp_path / "run.stepwhy"
    save(TraceBuilder().finish(Meta("kineto")), path)
    source = read_source(path)
    assert source.data == path.read_bytes()
    assert store.recognise(source)
    assert read(tmp_path, zipped(("run.stepwhy", path.read_bytes()))).data == path.read_bytes()


@pytest.mark.parametrize("module", ["bz2", "lzma"])
def test_a_python_without_a_library(tmp_path, monkeypatch, module):
    data = {"bz2": bz2.compress(TEXT), "lzma": lzma.compress(TEXT)}[module]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedFormatError, match=module):
        read(tmp_path, data)


# --- Torn archives ---


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9, 0.999])
@pytest.mark.parametrize("kind", ["gzip", "xz", "zstandard", "zip"])
def test_torn_archive_keeps_its_intact_part(tmp_path, kind, kept):
    whole = PACKERS[kind](NOISE)
    source = read(tmp_path, whole[: int(len(whole) * kept)])
    assert source.truncated
    assert NOISE.startswith(source.data)
    assert len(source.data) > 0.75 * kept * len(NOISE)


def test_torn_bzip2_keeps_its_whole_blocks(tmp_path):
    data = NOISE * 3
    whole = bz2.compress(data)
    source = read(tmp_path, whole[: int(len(whole) * 0.8)])
    assert source.truncated
    assert data.startswith(source.data)
    assert len(source.data) > 890_000  # one block of 900 kB


@given(cut=st.integers(100, 5_000))
@settings(derandomize=True, max_examples=30)
def test_torn_gzip_keeps_all_intact_data(tmp_path_factory, cut):
    text = b"".join(b'{"name": "op%d", "ts": %d}, ' % (i, i * 7) for i in range(2_000))
    torn = gzip.compress(text)[:cut]
    inflate = zlib.decompressobj(31)
    expected = inflate.decompress(torn) + inflate.flush()
    source = read(tmp_path_factory.mktemp("torn"), torn)
    assert (source.data, source.truncated) == (expected, True)


def test_damaged_checksum_is_reported(tmp_path):
    data = bytearray(gzip.compress(TEXT))
    data[-5] ^= 1
    source = read(tmp_path, bytes(data))
    assert (source.data, source.truncated) == (TEXT, True)


def test_torn_inner_archive_is_reported(tmp_path):
    inner = gzip.compress(NOISE)
    assert read(tmp_path, one_zip(inner[:-100])).truncated


@pytest.mark.parametrize("kind", PACKERS)
def test_archive_without_intact_data(tmp_path, kind):
    with pytest.raises(CorruptInputError, match="nothing can be decompressed"):
        read(tmp_path, PACKERS[kind](TEXT)[:12])


# --- Bombs and large files ---


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "zip"])
def test_decompression_bomb_is_refused(tmp_path, kind):
    with pytest.raises(TooLargeError, match="60 times its size"):
        read(tmp_path, PACKERS[kind](bytes((1 << 26) + (1 << 24))))


def test_archive_with_the_highest_known_ratio_is_read(tmp_path):
    """bzip2 compressed a recorded trace by a factor of 57."""
    noise = random.Random(5)  # noqa: S311 - the same file every time
    text = b"".join(noise.randbytes(44) + bytes(3000) for _ in range(30_000))
    data = gzip.compress(text)
    assert 50 < len(text) / len(data) < 60
    assert read(tmp_path, data).size == len(text) > 1 << 26


def test_bomb_is_read_with_any_size(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWHY_ANY_SIZE", "1")
    assert read(tmp_path, gzip.compress(bytes(1 << 27))).size == 1 << 27


def test_a_bomb_in_a_bomb_is_refused(tmp_path):
    with pytest.raises(TooLargeError, match="60 times its size"):
        read(tmp_path, gzip.compress(gzip.compress(bytes(1 << 27))))


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 500_000)
    monkeypatch.setattr(spool, "_UNWATCHED", 1 << 18)


@pytest.mark.usefixtures("little_memory")
def test_a_plain_file_that_does_not_fit_is_not_read(tmp_path):
    source = read(tmp_path, NOISE)
    with pytest.raises(
        TooLargeError, match=r"holds 488 KiB or more.* 1\.5 times .* 488 KiB are left"
    ):
        _ = source.data


@pytest.mark.usefixtures("little_memory")
def test_large_archive_is_mapped_and_refused_only_if_it_must_be_in_memory(tmp_path):
    source = read(tmp_path, gzip.compress(NOISE * 20))
    assert source.size == 20 * len(NOISE)
    assert source.mapped[len(NOISE) :] == NOISE * 19
    assert source.head == NOISE[: len(source.head)]
    with pytest.raises(TooLargeError, match=r"holds 9\.54 MiB or more"):
        _ = source.data


def test_a_large_archive_in_an_archive(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "_UNWATCHED", 1 << 18)
    assert read(tmp_path, gzip.compress(gzip.compress(NOISE * 2))).data == NOISE * 2


class Full:
    """A temporary file on a disk that becomes full."""

    def __init__(self, room):
        self._file, self._room = io.BytesIO(), room

    def write(self, piece):
        if self._file.tell() + len(piece) > self._room:
            self._file.write(piece[:7])
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(piece)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 3_000_000])
def test_full_disk_loses_no_content(tmp_path, monkeypatch, room):
    monkeypatch.setattr(spool, "_UNWATCHED", 1 << 18)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full(room))
    assert read(tmp_path, gzip.compress(NOISE * 20)).mapped == NOISE * 20


@pytest.mark.usefixtures("little_memory")
def test_archive_that_does_not_fit_is_refused_before_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full(0))
    with pytest.raises(TooLargeError) as caught:
        read(tmp_path, gzip.compress(NOISE * 20))
    assert "MiB or more" in caught.value.what


@pytest.mark.usefixtures("little_memory")
def test_archive_that_fits_is_read(tmp_path):
    assert read(tmp_path, gzip.compress(TEXT)).data == TEXT
    assert read(tmp_path, TEXT).data == TEXT


@pytest.mark.usefixtures("little_memory")
def test_any_size_skips_the_check(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPWHY_ANY_SIZE", "1")
    assert read(tmp_path, NOISE).data == NOISE
