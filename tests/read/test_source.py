"""An input as importers see it."""

import errno
import mmap
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from stepwhy.base.errors import TooLargeError
from stepwhy.read.inputs.source import HEAD_BYTES, Source, give_back, let_go


def test_the_head_is_the_beginning():
    assert Source(bytes(HEAD_BYTES + 1), "x").head == bytes(HEAD_BYTES)
    assert Source(b"ab", "x").head == b"ab"


def test_files_beside_it(tmp_path):
    (tmp_path / "notes.json").write_bytes(b"{}")
    source = Source(b"", "x", tmp_path / "trace.json")
    assert source.beside("notes.json") == b"{}"
    assert source.beside("absent.json") is None
    assert Source(b"", "x").beside("notes.json") is None


def test_content_is_read_when_it_is_asked_for():
    reads = []
    source = Source(lambda: reads.append(1) or b"whole", "x", head=b"wh")
    assert source.head == b"wh"
    assert reads == []
    assert (source.data, source.data) == (b"whole", b"whole")
    assert reads == [1]


def test_a_plain_file_is_its_own_file(tmp_path):
    path = tmp_path / "trace.sqlite"
    path.write_bytes(b"rows")
    with Source(path.read_bytes, "x", path, head=b"rows").as_file() as file:
        assert file == path
    assert path.is_file()


def test_what_was_unpacked_becomes_a_file_that_is_removed(tmp_path):
    path = tmp_path / "trace.sqlite.gz"
    with Source(b"rows", "x", path).as_file() as file:
        assert file.read_bytes() == b"rows"
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.parent.exists()


def test_there_may_be_no_space_for_it(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(TooLargeError, match="TMPDIR"), Source(b"rows", "x").as_file():
        pass


def test_a_plain_file_is_mapped_not_read(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(b"0123456789")
    source = Source(pytest.fail, "x", path, head=b"01")
    assert source.mapped[2:4] == b"23"
    assert source.size == 10


def test_what_is_in_memory_is_not_mapped(tmp_path):
    unpacked = Source(b"unpacked", "x", tmp_path / "trace.json.gz")
    assert unpacked.mapped is unpacked.data


def test_a_file_that_cannot_be_mapped_is_read(tmp_path):
    source = Source(lambda: b"piped", "x", tmp_path / "gone", head=b"p")
    assert source.mapped == b"piped"
    assert source.size == 5


@pytest.mark.parametrize("window", [16, 20, 1 << 24])
def test_a_file_is_searched_window_by_window(tmp_path, monkeypatch, window):
    monkeypatch.setattr("stepwhy.read.inputs.source._WINDOW", window)
    path = tmp_path / "trace.json"
    path.write_bytes(b" " * 18 + b"needle" + b" " * 30)
    source = Source(pytest.fail, "x", path, head=b" ")
    assert source.holds(re.compile(rb"ne+dle"))
    assert not source.holds(re.compile(rb"needles"))


def test_pages_that_were_let_go_are_read_again(tmp_path):
    content = bytes(range(256)) * 64
    path = tmp_path / "large"
    path.write_bytes(content)
    mapped = Source(lambda: content, "large", path).mapped
    assert isinstance(mapped, mmap.mmap)
    let_go(mapped, 0, len(content))
    let_go(mapped, 1, 2)  # not even a page
    assert mapped[:] == content


def test_bytes_cannot_be_let_go():
    content = bytes(mmap.PAGESIZE * 2)
    let_go(content, 0, len(content))
    assert len(content) == mmap.PAGESIZE * 2


@pytest.mark.parametrize("library", ["its own", "another", OSError])
def test_freed_memory_is_given_back_where_the_system_can(monkeypatch, library):
    def without_trimming(_name):
        if library is OSError:
            raise library
        return object()

    if library != "its own":
        monkeypatch.setattr("ctypes.CDLL", without_trimming)
    held = np.arange(1000)
    give_back()
    assert held.sum() == 499_500
