"""What users, and other users of the same folder, see of files while and after they are written."""

from __future__ import annotations

import errno
import os
import pty
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stepwhy.base import whole_files
from stepwhy.base.whole_files import create, output_file, output_folder, write_whole
from tests.inputs.hostile import KINDS

OTHER_USER = 65534


def write_output(path, data):
    with output_file(path) as file:
        file.write(data)


def write_folder(path, data=b"new"):
    with output_folder(path) as create_in:
        for name in ("a", "b"):
            with create_in(name) as file:
                file.write(data)


WRITERS = [write_whole, write_output]
every_writer = pytest.mark.parametrize("write", WRITERS)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


# --- What is there already ---


@every_writer
@pytest.mark.parametrize("kind", ["file", "passwd", "zero", "full", "tty", "socket"])
def test_what_is_there_is_replaced_and_never_followed(folder, write, kind):
    private = folder.parent / "private"
    private.write_text("mine")
    path = folder / "out"
    {"file": lambda path: path.symlink_to(private), **KINDS}[kind](path)
    write(path, b"new")
    assert (path.is_symlink(), path.read_bytes(), names(folder)) == (False, b"new", ["out"])
    assert private.read_text() == "mine"


@every_writer
def test_a_draft_is_always_a_new_file(folder, write, monkeypatch):
    """Even where another user guesses its name."""
    private = folder.parent / "private"
    private.write_text("mine")
    monkeypatch.setattr(os, "urandom", bytes)
    (folder / f".stepwhy-{bytes(8).hex()}.part").symlink_to(private)
    with pytest.raises(FileExistsError):
        write(folder / "out", b"new")
    assert private.read_text() == "mine"
    assert "out" not in names(folder)


def test_each_draft_has_a_name_of_its_own(folder):
    seen = set()
    for _ in range(3):
        with output_file(folder / "out"):
            seen.update(set(names(folder)) - {"out"})
    assert len(seen) == 3


@every_writer
def test_a_name_may_be_as_long_as_names_can_be(folder, write):
    path = folder / ("n" * 255)
    write(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("kind", ["passwd", "pipe", "zero"])
def test_a_stream_for_a_program_begins_as_a_new_file(folder, kind):
    KINDS[kind](folder / "log")
    with create(folder / "log") as file:
        file.write(b"new")
    assert (folder / "log").lstat().st_size == 3
    assert stat.S_ISREG((folder / "log").lstat().st_mode)


def test_a_link_in_place_of_a_draft_folder_receives_nothing(folder):
    """Another user who may write to the folder renames the draft."""
    private = folder.parent / "private"
    private.mkdir()
    with output_folder(folder / "out") as create_in:
        (draft,) = folder.iterdir()
        draft.rename(folder / "aside")
        draft.symlink_to(private)
        with create_in("a") as file:
            file.write(b"new")
    assert names(private) == []


# --- Permissions ---


@every_writer
@pytest.mark.usefixtures("umask")
def test_a_new_file_has_the_permissions_that_the_umask_gives(folder, write):
    write(folder / "out", b"new")
    assert mode(folder / "out") == 0o640


@every_writer
@pytest.mark.parametrize("before", [0o600, 0o644, 0o444])
@pytest.mark.usefixtures("umask")
def test_a_file_keeps_its_permissions(folder, write, before):
    (folder / "out").write_text("old")
    (folder / "out").chmod(before)
    write(folder / "out", b"new")
    assert (mode(folder / "out"), (folder / "out").read_bytes()) == (before, b"new")


@every_writer
@pytest.mark.usefixtures("umask")
@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_the_permissions_of_another_users_file_are_not_kept(folder, write):
    (folder / "out").write_text("old")
    (folder / "out").chmod(0o666)
    os.chown(folder / "out", OTHER_USER, -1)
    write(folder / "out", b"new")
    assert mode(folder / "out") == 0o640


@pytest.mark.usefixtures("umask")
def test_a_folder_has_the_permissions_that_the_umask_gives(folder):
    write_folder(folder / "new" / "out")
    assert mode(folder / "new" / "out") == 0o750
    assert mode(folder / "new" / "out" / "a") == 0o640


# --- Devices and pipes ---


def run(code, *arguments, **options):
    program = f"import sys\nfrom pathlib import Path\nfrom tests.test_whole_files import *\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        check=False,
        timeout=120,
        **options,
    )


TO_STDOUT = "write_output(Path('/dev/stdout'), b'new')"


def test_standard_output_may_be_a_pipe():
    done = run(TO_STDOUT)
    assert (done.returncode, done.stdout) == (0, b"new")


def test_standard_output_may_be_a_file(folder):
    """Which receives it even where it is opened for appending."""
    (folder / "out").write_text("old, ")
    program = f"from pathlib import Path\nfrom tests.test_whole_files import *\n{TO_STDOUT}"
    with (folder / "out").open("ab") as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True, timeout=120)
    assert (folder / "out").read_text() == "old, new"
    assert Path("/dev/stdout").is_symlink()


def test_standard_output_may_be_a_terminal():
    leader, terminal = pty.openpty()
    program = f"from pathlib import Path\nfrom tests.test_whole_files import *\n{TO_STDOUT}"
    subprocess.run([sys.executable, "-c", program], stdout=terminal, check=True, timeout=120)
    assert os.read(leader, 9) == b"new"
    os.close(terminal)
    os.close(leader)


def test_a_device_stays_one():
    before = Path("/dev/null").stat()
    write_output(Path("/dev/null"), b"new")
    assert Path("/dev/null").stat().st_ino == before.st_ino
    assert stat.S_ISCHR(before.st_mode)
    with pytest.raises(OSError, match="No space left"):
        write_output(Path("/dev/full"), b"new")


def test_nothing_is_created_among_devices():
    with pytest.raises(FileNotFoundError):
        write_output(Path("/dev/stepwhy-test"), b"new")


def test_a_pipe_receives_the_content_when_it_is_complete(folder):
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with output_file(folder / "pipe") as file:
        file.write(b"nex")
        file.seek(2)
        file.write(b"w")
        file.flush()
        with pytest.raises(BlockingIOError):
            os.read(reader, 9)
    assert os.read(reader, 9) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)


def test_a_pipe_that_no_program_reads_is_an_error_at_once(folder):
    os.mkfifo(folder / "pipe")
    with pytest.raises(OSError, match="No program reads this pipe"):
        write_output(folder / "pipe", b"new")


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a pipe to another user")
def test_another_users_pipe_is_replaced(folder):
    os.mkfifo(folder / "out")
    os.chown(folder / "out", OTHER_USER, -1)
    reader = os.open(folder / "out", os.O_RDONLY | os.O_NONBLOCK)
    write_output(folder / "out", b"new")
    assert os.read(reader, 9) == b""
    assert (folder / "out").read_bytes() == b"new"
    os.close(reader)


def test_a_pipe_that_is_exchanged_for_a_file_receives_nothing(folder, monkeypatch):
    os.mkfifo(folder / "out")
    found = whole_files._is_stream

    def exchange(about):
        is_stream = found(about)
        (folder / "out").unlink()
        (folder / "out").write_text("old")
        return is_stream

    monkeypatch.setattr(whole_files, "_is_stream", exchange)
    with pytest.raises(OSError, match="Somebody replaced it"):
        write_output(folder / "out", b"new")
    assert (folder / "out").read_text() == "old"


# --- What goes wrong ---


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError, SystemExit])
@pytest.mark.parametrize("write", [output_file, output_folder])
def test_a_writer_that_is_interrupted_leaves_what_was_there(folder, write, error):
    with pytest.raises(error), write(folder / "out"):
        raise error
    assert names(folder) == []


def limit_files():
    # Python would keep modules whose bytecode was cut off.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


@pytest.mark.parametrize("write", ["write_whole", "write_output", "write_folder"])
def test_a_full_disk_leaves_what_was_there(folder, write):
    if write != "write_folder":
        (folder / "out").write_text("old")
    before = names(folder)
    done = run(f"{write}(Path(sys.argv[1]), bytes(101))", folder / "out", preexec_fn=limit_files)
    assert os.strerror(errno.EFBIG).encode() in done.stderr
    assert names(folder) == before


HANG = """
with {}(Path(sys.argv[1])) as opened:
    print("writes", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("write", ["output_file", "output_folder"])
def test_a_writer_that_is_ended_removes_its_draft(folder, write, number):
    """And ends by the same signal. Nothing can remove it after SIGKILL, and it is in no one's way.

    An output that is there stays.
    """
    if write == "output_file":
        (folder / "out").write_text("old")
    before = names(folder)
    program = "import sys\nfrom pathlib import Path\nfrom stepwhy.base.whole_files import *\n"
    process = subprocess.Popen(
        [sys.executable, "-c", program + HANG.format(write), folder / "out"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert process.stdout.readline() == b"writes\n"
        assert len(names(folder)) == len(before) + 1
        process.send_signal(number)
        assert process.wait(60) == -number
    left = set(names(folder)) - set(before)
    assert len(left) == (number == signal.SIGKILL)
    assert [(folder / name).read_text() for name in before] == ["old"] * len(before)
    {"output_file": write_output, "output_folder": write_folder}[write](folder / "out", b"new")


def test_signals_are_handled_as_before_afterwards(folder):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)
    write_output(folder / "out", b"new")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGHUP)) == before


def test_a_signal_with_a_handler_is_left_to_it(folder):
    received = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with output_file(folder / "out") as file:
            signal.raise_signal(signal.SIGTERM)
            file.write(b"new")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert (folder / "out").read_bytes() == b"new"


def test_a_folder_that_holds_something_is_not_replaced(folder):
    (folder / "out").mkdir()
    (folder / "out" / "mine").touch()
    with pytest.raises(OSError, match="not empty"):
        write_folder(folder / "out")
    assert names(folder) == ["out"]
    assert names(folder / "out") == ["mine"]


def test_files_may_be_in_subfolders(folder):
    with output_folder(folder / "out") as create_in:
        for name in ("a/one", "a/two", "b/one"):
            with create_in(name) as file:
                file.write(name.encode())
    assert names(folder / "out") == ["a", "b"]
    assert (folder / "out" / "a" / "two").read_bytes() == b"a/two"
