"""A file that is being written is read from a copy, so that nothing is cut off under a reader."""

import mmap
import os
import subprocess
import sys
import time

import pytest

from stepwhy.read.inputs import source
from stepwhy.read.inputs.source import Source, at_rest


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "trace.json"
    path.write_bytes(b"x" * (3 * mmap.PAGESIZE))
    return path


def make_old(path):
    long_ago = time.time() - 3600
    os.utime(path, (long_ago, long_ago))


def test_a_file_that_lies_there_is_read_itself(path):
    make_old(path)
    with path.open("rb") as file, at_rest(file) as read:
        assert read is file


def test_a_file_that_just_changed_is_copied(path, monkeypatch):
    monkeypatch.setattr(source, "_COPIED_AT_ONCE", 1000)
    with path.open("rb") as file, at_rest(file) as read:
        assert read is not file
        read.seek(0)
        assert read.read() == path.read_bytes()


@pytest.mark.parametrize("ahead_s", [60, 1e6])
def test_a_clock_that_is_ahead_makes_a_file_new(path, ahead_s):
    soon = time.time() + ahead_s
    os.utime(path, (soon, soon))
    with path.open("rb") as file, at_rest(file) as read:
        assert read is not file


READER = """
import sys, pathlib
from stepwhy.read.inputs.source import Source
path = pathlib.Path(sys.argv[1])
mapped = Source(path.read_bytes, "x", path).mapped
path.write_bytes(b"anew")
print(len(mapped), mapped[-1:])
"""


def test_what_is_written_anew_ends_no_reader(path):
    done = subprocess.run(
        [sys.executable, "-c", READER, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[0] == str(3 * mmap.PAGESIZE)


def test_without_space_for_a_copy_it_is_held_in_memory(path, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    source = Source(path.read_bytes, "x", path)
    assert source.mapped is source.data
