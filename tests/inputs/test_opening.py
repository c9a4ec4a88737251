"""Open files and pipes that the user named."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading

import pytest

from stepwhy.base import output
from stepwhy.base.errors import EmptyInputError, NotAFileError, NotFoundError, TooLargeError
from stepwhy.read.inputs import memory, pipes, spool
from stepwhy.read.inputs.opening import open_input
from stepwhy.read.inputs.pipes import read_pipe
from stepwhy.read.inputs.reading import read_source
from tests.engine.test_explain import kineto
from tests.inputs.hostile import KINDS, SECONDS, child, explained

TRACE = kineto().encode()


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def write_through(path, *pieces):
    """Write to a pipe from another thread, in several writes."""

    def write():
        with path.open("wb", buffering=0) as file:
            for piece in pieces:
                file.write(piece)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


# --- Files ---


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/dev/zero", "a device"),
        ("/dev/full", "a device"),
        ("/dev/null", "a device"),
        ("/dev/tty", "a device"),
        ("/dev", "a folder"),
    ],
)
def test_other_kinds_of_files_are_refused(path, kind):
    (answer,) = explained(path) if path != "/dev" else [{"slug": "not-a-file", "what": kind}]
    assert (answer["slug"], kind in answer["what"]) == ("not-a-file", True)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "passwd"])
def test_other_kinds_of_files_in_a_folder_are_refused(tmp_path, kind):
    path = tmp_path / "trace.json"
    KINDS[kind](path)
    with pytest.raises(NotAFileError, match=r"trace\.json is (not a regular file but|a link)"):
        open_input(path, tmp_path)


def test_a_socket_that_the_user_named_is_refused(tmp_path):
    KINDS["socket"](tmp_path / "s")
    with pytest.raises(NotAFileError, match="s is not a regular file but a socket"):
        open_input(tmp_path / "s")


@pytest.mark.parametrize("content", [TRACE, gzip.compress(TRACE)], ids=["plain", "gzip"])
def test_a_sparse_file_of_a_terabyte_is_refused_before_it_is_read(tmp_path, monkeypatch, content):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    os.truncate(path, 1 << 40)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 34)
    with pytest.raises(
        TooLargeError,
        match=r"trace\.json \w+ 1024 GiB( or|, but most)",
    ):
        read_source(path)


def test_link_out_of_a_folder_is_read_if_the_user_named_it(tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "private.json").write_bytes(TRACE)
    link = tmp_path / "inside" / "trace.json"
    link.symlink_to("../private.json")
    assert read_source(link).data == TRACE
    with pytest.raises(NotAFileError, match=r"link out of inside\. Replace the link"):
        read_source(link, link.parent)
    assert read_source(link, tmp_path).data == TRACE


def test_a_file_that_is_swapped_for_a_link_or_a_pipe_is_not_opened_again(tmp_path):
    path = tmp_path / "trace.json"
    for kind in ("passwd", "pipe"):
        path.unlink(missing_ok=True)
        path.write_bytes(TRACE)
        source = read_source(path, tmp_path)
        path.unlink()
        KINDS[kind](path)
        with pytest.raises(NotAFileError):
            _ = source.mapped


# --- Pipes ---


def test_a_pipe_is_read_to_its_end(pipe):
    writer = write_through(pipe, *(TRACE[i : i + 1000] for i in range(0, len(TRACE), 1000)))
    assert read_source(pipe).data == TRACE
    writer.join()


def test_a_large_pipe_goes_to_a_temporary_file(pipe, monkeypatch):
    monkeypatch.setattr(spool, "_UNWATCHED", 1 << 18)
    content = os.urandom(1 << 20)
    writer = write_through(pipe, content)
    source = read_source(pipe)
    writer.join()
    assert not isinstance(source.mapped, bytes)
    assert source.data == content


def test_pipe_that_does_not_fit_is_refused(pipe, monkeypatch):
    monkeypatch.setattr(spool, "_UNWATCHED", 1 << 16)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 17)
    done = threading.Event()

    def write():
        with pipe.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except BrokenPipeError:
                done.set()

    threading.Thread(target=write, daemon=True).start()
    with pytest.raises(TooLargeError, match=r"pipe holds .* or more"):
        read_source(pipe)
    assert done.wait(SECONDS)


def test_disk_space_is_left_for_other_programs(pipe, monkeypatch):
    monkeypatch.setattr(spool, "_UNWATCHED", 1 << 16)
    full = os.statvfs_result((4096, 4096, 1000, 100, 99, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda _: full)
    writer = write_through(pipe, TRACE * 200)
    assert isinstance(read_source(pipe).mapped, bytes)
    writer.join()


def test_endless_pipe_is_refused(pipe, monkeypatch):
    monkeypatch.setattr(pipes, "_MOST_BYTES", len(TRACE) - 1)
    writer = write_through(pipe, TRACE)
    with pytest.raises(TooLargeError, match=r"pipe is a pipe that delivers more than .*ANY_SIZE=1"):
        read_source(pipe)
    writer.join()
    monkeypatch.setenv("STEPWHY_ANY_SIZE", "1")
    writer = write_through(pipe, TRACE)
    assert read_source(pipe).data == TRACE
    writer.join()


def test_an_empty_pipe(pipe):
    writer = write_through(pipe)
    with pytest.raises(EmptyInputError, match="pipe is empty"):
        read_source(pipe)
    writer.join()


def test_pipe_without_a_writer(pipe):
    with pytest.raises(NotFoundError, match="no program opened it for writing within 0 s"):
        read_pipe(pipe, wait_s=0)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_long_wait_for_a_pipe_is_announced_once(pipe, monkeypatch, is_open):
    """Both for a program that opens it late, and for one that writes nothing."""
    lines, announced = [], threading.Event()

    def line(text):
        lines.append(text)
        announced.set()

    monkeypatch.setattr(pipes, "_UNNOTICED_WAIT_S", 0)
    monkeypatch.setattr(output, "line", line)
    opened = os.open(pipe, os.O_RDWR) if is_open else None

    def write():
        announced.wait(SECONDS)
        with pipe.open("wb", buffering=0) as file:
            for begin in range(0, 30, 10):
                file.write(TRACE[begin : begin + 10])
        if opened is not None:
            os.close(opened)

    thread = threading.Thread(target=write)
    thread.start()
    assert read_pipe(pipe).read() == TRACE[:30]
    thread.join()
    assert lines == ["stepwhy: waiting for a program to write a trace to pipe"]


def test_no_message_if_a_trace_arrives_at_once(pipe, capfd, monkeypatch):
    monkeypatch.setattr(pipes, "_UNNOTICED_WAIT_S", SECONDS)
    writer = write_through(pipe, TRACE)
    content = read_pipe(pipe).read()
    writer.join()
    assert (content, capfd.readouterr().err) == (TRACE, "")


def test_slow_writer_is_not_interrupted(pipe, monkeypatch):
    """It is silent for longer than the wait for a writer, which is zero here."""
    monkeypatch.setattr(pipes, "_WRITER_WAIT_S", 0)
    reading = threading.Event()
    read = pipes._read

    def reported(handle):
        reading.set()
        return read(handle)

    monkeypatch.setattr(pipes, "_read", reported)
    handle = os.open(pipe, os.O_RDWR)  # the pipe has a writer from here on

    def write():
        reading.wait(SECONDS)
        os.write(handle, TRACE[:5])
        os.close(handle)

    thread = threading.Thread(target=write)
    thread.start()
    assert read_pipe(pipe, wait_s=0).read() == TRACE[:5]
    thread.join()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_trace_through_standard_input(pack):
    done = child("-m", "stepwhy", "explain", "/dev/stdin", "--json", input=pack(TRACE))
    assert done.returncode == 0, done.stderr
    assert b'"format":"kineto"' in done.stdout.replace(b" ", b"")


def test_a_trace_from_a_process_substitution(tmp_path):
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(TRACE))
    command = f"'{sys.executable}' -m stepwhy explain <(gzip -dc x.json.gz)"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_endless_pipe_is_bounded_by_memory_and_space(tmp_path):
    """Its content is refused, and the writer gets a broken pipe."""
    program = (
        "from stepwhy.read.inputs import memory; from stepwhy.engine import explain\n"
        "memory.available_bytes = lambda: 1 << 28\n"
        "explain(['/dev/stdin'])"
    )
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as cat:
        done = child("-c", program, stdin=cat.stdout, env={"TMPDIR": str(tmp_path)})
        cat.stdout.close()
    assert b"TooLargeError: stdin holds 1.0" in done.stderr
    assert list(tmp_path.iterdir()) == []
