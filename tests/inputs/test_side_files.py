"""Reading the files beside a trace."""

from __future__ import annotations

import errno
import json
import os

import pytest

from stepwhy.base.errors import NotAFileError, NotFoundError, TooLargeError
from stepwhy.base.regular_files import open_regular, read_regular
from stepwhy.read.inputs import within
from stepwhy.read.inputs.side_files import read_side_file
from tests.inputs.hostile import KINDS, counters, explained
from tests.read.tf_samples import CPU, run_metadata

NAMES = ("graph.pb", "sources.json.gz", "window.json")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


# --- The file itself ---


def test_existing_and_missing_files(folder):
    (folder / "a.json").write_bytes(b"{}")
    assert read_side_file(folder, folder / "a.json") == b"{}"
    assert read_side_file(folder, folder / "b.json") is None
    assert read_side_file(folder, folder / "a.json" / "c") is None


@pytest.mark.parametrize("kind", KINDS)
def test_non_files_in_the_folder_are_refused(folder, kind):
    KINDS[kind](folder / "a.json")
    with pytest.raises(NotAFileError, match=r"^a\.json is "):
        read_side_file(folder, folder / "a.json")


@pytest.mark.parametrize("target", ["b.json", "deep/../b.json", "deep/c.json", "{}/b.json"])
def test_a_link_inside_of_the_folder_is_followed(folder, target):
    (folder / "deep").mkdir()
    (folder / "b.json").write_bytes(b"1")
    (folder / "deep" / "c.json").symlink_to("../b.json")
    (folder / "a.json").symlink_to(target.format(folder))
    assert read_side_file(folder, folder / "a.json") == b"1"


def test_a_folder_that_is_a_link_itself(folder, tmp_path):
    (folder / "a.json").write_bytes(b"1")
    (tmp_path / "latest").symlink_to(folder)
    latest = tmp_path / "latest"
    assert read_side_file(latest, latest / "a.json") == b"1"


@pytest.mark.parametrize("target", ["../private.json", "up/private.json", "{}/private.json"])
def test_a_link_out_of_the_folder_is_refused(folder, tmp_path, target):
    (tmp_path / "private.json").write_bytes(b"secret")
    (folder / "up").symlink_to("..")
    (folder / "a.json").symlink_to(target.format(tmp_path))
    with pytest.raises(NotAFileError, match="link out of run"):
        read_side_file(folder, folder / "a.json")
    with pytest.raises(NotAFileError, match="link out of run"):
        read_side_file(folder, folder / "up" / "private.json")


def test_links_in_a_circle(folder):
    (folder / "a.json").symlink_to("b.json")
    (folder / "b.json").symlink_to("a.json")
    with pytest.raises(NotFoundError, match=r"a\.json cannot be read \(Too many levels"):
        read_side_file(folder, folder / "a.json")


def test_a_link_that_appears_after_its_path_was_checked_is_not_followed(folder, tmp_path):
    """The link may replace the file, or a folder on the way to it."""
    (tmp_path / "private.json").write_bytes(b"secret")
    (folder / "a.json").symlink_to("../private.json")
    (folder / "deep").symlink_to("..")
    with pytest.raises(OSError, match="Not a regular file"):
        within._open_below(folder, ("a.json",))
    with pytest.raises(NotADirectoryError):
        within._open_below(folder, ("deep", "private.json"))


def test_a_file_without_permission(folder, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    (folder / "a.json").write_bytes(b"1")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(NotFoundError, match=r"a\.json cannot be read \(Permission denied\)"):
        read_side_file(folder, folder / "a.json")


# --- Its size ---


def test_large_file_is_refused_without_any_size(folder, monkeypatch):
    (folder / "a.json").write_bytes(bytes(11))
    assert read_side_file(folder, folder / "a.json", most=11) == bytes(11)
    with pytest.raises(
        TooLargeError, match=r"holds 11 B; the limit for such files is 10 B.*ANY_SIZE=1"
    ):
        read_side_file(folder, folder / "a.json", most=10)
    monkeypatch.setenv("STEPWHY_ANY_SIZE", "1")
    assert read_side_file(folder, folder / "a.json", most=10) == bytes(11)


def test_a_file_that_does_not_fit_into_memory_is_refused(folder, monkeypatch):
    monkeypatch.setattr("stepwhy.read.inputs.memory.available_bytes", lambda: 1 << 20)
    with (folder / "a.json").open("wb") as file:
        file.truncate(1 << 25)
    with pytest.raises(TooLargeError, match=r"32\.0 MiB or more"):
        read_side_file(folder, folder / "a.json")


# --- Without waiting ---


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "passwd"])
def test_only_regular_files_are_opened(tmp_path, kind, flags):
    KINDS[kind](tmp_path / "x")
    with pytest.raises(OSError, match="Not a regular file"):
        open_regular(tmp_path / "x", flags)


def test_a_file_is_created_for_this_process_alone(tmp_path):
    handle = open_regular(tmp_path / "x", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    assert not os.get_inheritable(handle)
    os.write(handle, b"12345")
    os.close(handle)
    assert read_regular(tmp_path / "x", 3) == b"123"
    with pytest.raises(FileExistsError):
        open_regular(tmp_path / "x", os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def test_no_file_stays_open(tmp_path, monkeypatch):
    """Also not a file that became a pipe after the check."""
    os.mkfifo(tmp_path / "x")
    (tmp_path / "file").touch()
    regular = (tmp_path / "file").stat()
    monkeypatch.setattr(os, "stat", lambda *_, **__: regular)
    lowest = os.dup(0)
    os.close(lowest)
    with pytest.raises(OSError, match="Not a regular file"):
        open_regular(tmp_path / "x")
    assert os.dup(0) == lowest
    os.close(lowest)


# --- Beside a trace ---


RECORD = run_metadata([(CPU, [("a", "a = MatMul(x)", 2, 160, None)])]).SerializeToString()


def test_trace_is_explained_without_its_side_files(tmp_path):
    """For any kind of these three files, the report names what is missing."""
    paths = []
    for kind, make in KINDS.items():
        path = tmp_path / kind
        path.mkdir()
        (path / "run.pb").write_bytes(RECORD)
        for name in NAMES:
            make(path / name)
        paths.append(path / "run.pb")
    answers = explained(*paths)
    assert [counters(answer) for answer in answers] == [{"side-file-refused"}] * len(paths)


def test_a_private_file_is_not_in_the_report(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.pb").write_bytes(RECORD)
    private = {"ops": {"a": {"source": "secret.py:1"}}, "devices": ["SECRET:0"]}
    (tmp_path / "private.json").write_text(json.dumps(private))
    (tmp_path / "run" / "sources.json").symlink_to("../private.json")
    (answer,) = explained(tmp_path / "run" / "run.pb")
    assert "secret" not in json.dumps(answer).lower()
    (tmp_path / "run" / "sources.json").unlink()
    (tmp_path / "private.json").rename(tmp_path / "run" / "sources.json")
    (answer,) = explained(tmp_path / "run" / "run.pb")
    assert "secret" in json.dumps(answer).lower()
