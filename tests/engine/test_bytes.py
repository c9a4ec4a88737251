"""Reading files whole, torn and hostile."""

from __future__ import annotations

import gzip

import pytest

from stepwhy.engine.bytes import read_source
from stepwhy.errors import CorruptInputError, EmptyInputError, NotFoundError

TEXT = b'{"traceEvents": []}' * 500


def test_plain_file(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(TEXT)
    source = read_source(path)
    assert (source.data, source.truncated, source.origin) == (TEXT, False, "a.json")


def test_gzip_is_told_by_content_not_by_name(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(gzip.compress(TEXT))
    assert read_source(path).data == TEXT


def test_members_of_a_gzip_file_are_joined(tmp_path):
    path = tmp_path / "two.gz"
    path.write_bytes(gzip.compress(b"first ") + gzip.compress(b"second"))
    source = read_source(path)
    assert (source.data, source.truncated) == (b"first second", False)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9, 0.999])
def test_torn_gzip_keeps_what_it_holds(tmp_path, kept):
    incompressible = bytes((i * 7919 + i // 251) % 256 for i in range(50_000))
    whole = gzip.compress(incompressible)
    path = tmp_path / "torn.gz"
    path.write_bytes(whole[: int(len(whole) * kept)])
    source = read_source(path)
    assert source.truncated
    assert incompressible.startswith(source.data)
    assert len(source.data) > 0


def test_gzip_of_which_nothing_is_left(tmp_path):
    path = tmp_path / "head.gz"
    path.write_bytes(gzip.compress(TEXT)[:12])
    with pytest.raises(CorruptInputError, match="nothing can be decompressed"):
        read_source(path)


def test_decompression_bomb_is_refused(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(gzip.compress(bytes(1 << 28))))  # a bomb in a bomb: 1 level read
    source = read_source(path)
    assert len(source.data) < 1 << 20
    path.write_bytes(gzip.compress(bytes(1 << 26)))
    with pytest.raises(CorruptInputError, match="300 times its size"):
        read_source(path)


def test_empty_file(tmp_path):
    path = tmp_path / "empty.json"
    path.touch()
    with pytest.raises(EmptyInputError, match=r"empty\.json is empty"):
        read_source(path)


def test_missing_file(tmp_path):
    with pytest.raises(NotFoundError, match="cannot be read"):
        read_source(tmp_path / "no.json")
