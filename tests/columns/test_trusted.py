"""Compiled code is loaded only if no other user can have written it."""

import json
import os
import pickle
import shutil
import stat
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from zlib import crc32

import pytest
from click.testing import CliRunner

from stepwhy.base.columns import code_cache, compiled, trusted
from stepwhy.base.columns.trusted import UntrustedError, opened_file, opened_folder
from stepwhy.cli import cli

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def file(folder):
    file = folder / "kernels.so"
    file.write_bytes(b"code")
    file.chmod(0o600)
    return file


def read(file):
    with opened_folder(file.parent) as parent, opened_file(file, parent) as opened:
        return os.read(opened, 10)


def link(target, name):
    name.symlink_to(target)
    return name


def test_own_file_is_read(file):
    assert read(file) == b"code"


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o500])
def test_folder_may_be_readable_by_others(file, mode):
    file.parent.chmod(mode)
    assert read(file) == b"code"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o720, 0o702])
def test_folder_writable_by_others_is_refused(file, mode):
    file.parent.chmod(mode)
    with pytest.raises(UntrustedError, match=r"other users may write to .*/cache"):
        read(file)


@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602, 0o620])
def test_file_writable_by_others_is_refused(file, mode):
    file.chmod(mode)
    with pytest.raises(UntrustedError, match=r"other users may write to .*/kernels.so"):
        read(file)


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_folder_replaceable_by_others_is_refused(file, tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(UntrustedError, match="lies in a folder to which other users may write"):
        read(file)


def test_folder_inside_a_sticky_folder_is_accepted(file, tmp_path):
    tmp_path.chmod(0o1777)
    assert read(file) == b"code"


@pytest.mark.parametrize("is_private", [True, False])
def test_private_group_may_write_to_parent_folder(file, tmp_path, monkeypatch, is_private):
    monkeypatch.setattr(trusted, "_is_private_group", lambda _: is_private)
    tmp_path.chmod(0o770)
    with nullcontext() if is_private else pytest.raises(UntrustedError):
        assert read(file) == b"code"


@pytest.mark.parametrize(
    ("name", "members", "is_private"),
    [
        ("ada", [], True),
        ("ada", ["ada"], True),
        ("ada", ["ada", "bob"], False),
        ("team", [], False),
    ],
)
def test_private_group(monkeypatch, name, members, is_private):
    import grp
    import pwd

    user = pwd.struct_passwd(("ada", "x", os.geteuid(), 77, "", "/home/ada", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((name, "x", gid, members)))
    assert trusted._is_private_group(77) == is_private
    assert not trusted._is_private_group(78)


def test_user_without_a_name_has_no_private_group(monkeypatch):
    def unknown(_):
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert not trusted._is_private_group(77)


@needs_root
@pytest.mark.parametrize("whose", ["file", "cache", "parent"])
def test_files_of_another_user_are_refused(file, tmp_path, whose):
    owned = {"file": file, "cache": file.parent, "parent": tmp_path}[whose]
    os.chown(owned, NOBODY, -1)
    with pytest.raises(UntrustedError, match="another user"):
        read(file)


@needs_root
def test_a_link_of_another_user_is_refused(file, tmp_path):
    name = link(file.parent, tmp_path / "link")
    assert read(name / file.name) == b"code"
    os.chown(name, NOBODY, -1, follow_symlinks=False)
    with pytest.raises(UntrustedError, match="through a symbolic link of another user"):
        read(name / file.name)


@pytest.mark.parametrize("target", ["cache", "../{parent}/cache", "{path}/cache"])
def test_own_links_to_folders_are_followed(file, tmp_path, target):
    name = link(target.format(parent=tmp_path.name, path=tmp_path), tmp_path / "link")
    assert read(name / file.name) == b"code"


def test_folders_on_the_way_of_a_link_are_checked(file, tmp_path):
    (tmp_path / "open").mkdir()
    link(file.parent, tmp_path / "open" / "link")
    (tmp_path / "open").chmod(0o777)
    name = link(tmp_path / "open" / "link", tmp_path / "first")
    with pytest.raises(UntrustedError, match="other users may write"):
        read(name / file.name)


def test_links_in_a_circle_are_refused(tmp_path):
    link("b", tmp_path / "a")
    link("a", tmp_path / "b")
    with pytest.raises(UntrustedError, match="too many symbolic links"):
        read(tmp_path / "a" / "kernels.so")


def test_a_link_in_place_of_the_file_is_not_followed(file):
    name = link(file, file.with_name("link.so"))
    with pytest.raises(UntrustedError, match=r"link\.so is a symbolic link"):
        read(name)


def test_a_pipe_in_place_of_the_file_does_not_block(folder):
    os.mkfifo(folder / "pipe.so", 0o600)
    with pytest.raises(UntrustedError, match=r"pipe\.so is not a regular file"):
        read(folder / "pipe.so")


def test_a_relative_folder_is_refused(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    with pytest.raises(UntrustedError, match=r"^\. is not an absolute path"):
        read(file.relative_to(file.parent))


def test_nothing_is_trusted_on_systems_without_owners(file, monkeypatch):
    monkeypatch.delattr(os, "geteuid")
    with pytest.raises(UntrustedError, match="does not report who may write"):
        read(file)


def test_created_folders_are_private(tmp_path):
    folder = tmp_path / "a" / "b"
    before = os.umask(0)
    try:
        with opened_folder(folder, create=True):
            pass
    finally:
        os.umask(before)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (folder, folder.parent)] == [0o700, 0o700]


def open_files():
    return len(list(Path("/dev/fd").iterdir()))


def test_no_file_stays_open(file):
    before = open_files()
    assert read(file) == b"code"
    file.parent.chmod(0o777)
    with pytest.raises(UntrustedError):
        read(file)
    assert open_files() == before


# --- the cache of compiled code ---

ROWS = "stepwhy.base.columns.kernels.rows"
CACHED = (code_cache.user_cache, code_cache.code_folder, compiled.load)


@pytest.fixture
def cache(folder, monkeypatch):
    """An empty cache; nothing was loaded yet."""
    monkeypatch.setenv("STEPWHY_CACHE", str(folder))
    monkeypatch.setattr(compiled, "_REFUSALS", [])
    for cached in CACHED:
        cached.cache_clear()
    yield folder
    for cached in CACHED:
        cached.cache_clear()


class Mark:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return exec, (f"open({str(self.path)!r}, 'w').close(); raise RuntimeError('planted')",)


@pytest.fixture
def planted(kernels, folder, tmp_path, request):
    """A numba index in the cache that creates a file when it is loaded."""
    assert kernels(ROWS)
    whole = code_cache.code_folder()
    request.getfixturevalue("cache")
    folder.chmod(0o755)
    copy = folder / whole.name
    shutil.copytree(whole, copy)
    paths = sorted(copy.rglob("*.nb?"))
    for path in paths:
        if path.suffix == ".nbi":
            path.write_bytes(pickle.dumps(Mark(tmp_path / "ran")))
    manifest = json.loads((copy / "manifest.json").read_bytes())
    manifest["files"] = {p.relative_to(copy).as_posix(): crc32(p.read_bytes()) for p in paths}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return next(path for path in paths if path.name.startswith("records."))


LOADED = (
    "from stepwhy.base.columns import compiled; compiled.can_compile = lambda: False;"
    "print(compiled.load('stepwhy.read.formats.kineto.kernels.records'));"
    "print(compiled.refusal())"
)


def loading(planted):
    """Whether code from the cache ran in a new process, and why not."""
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    module, reason = done.stdout.splitlines()
    assert module == "None"  # it is damaged, at best
    return (planted.parents[3] / "ran").exists(), reason


def test_own_code_is_loaded(planted):
    assert loading(planted) == (True, "None")


@pytest.mark.parametrize("what", ["file", "folder of numba", "folder of code", "cache"])
def test_code_writable_by_others_is_not_loaded(planted, what):
    places = {"file": planted, "folder of numba": planted.parent}
    places |= {"folder of code": planted.parents[1], "cache": planted.parents[2]}
    places[what].chmod(0o777)
    ran, reason = loading(planted)
    assert not ran
    assert "other users may write" in reason


def test_manifest_writable_by_others_is_not_read(planted):
    (planted.parents[1] / "manifest.json").chmod(0o666)
    assert not loading(planted)[0]


def test_a_link_to_code_is_not_followed(planted, tmp_path):
    planted.rename(tmp_path / "elsewhere.nbi")
    link(tmp_path / "elsewhere.nbi", planted)
    ran, reason = loading(planted)
    assert not ran
    assert "is a symbolic link" in reason


@needs_root
@pytest.mark.parametrize("what", ["file", "folder"])
def test_code_of_another_user_is_not_loaded(planted, what):
    os.chown(planted if what == "file" else planted.parents[1], NOBODY, -1)
    ran, reason = loading(planted)
    assert not ran
    assert "another user" in reason


def test_a_relative_cache_is_not_used(planted, monkeypatch):
    monkeypatch.chdir(planted.parents[3])
    monkeypatch.setenv("STEPWHY_CACHE", planted.parents[2].name)
    ran, reason = loading(planted)
    assert not ran
    assert "not an absolute path" in reason


@pytest.mark.usefixtures("cache")
def test_relative_cache_home_is_ignored(monkeypatch):
    monkeypatch.delenv("STEPWHY_CACHE")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    code_cache.user_cache.cache_clear()
    assert code_cache.user_cache().is_absolute()


def test_nothing_is_compiled_where_others_may_write(cache, monkeypatch):
    cache.chmod(0o777)
    monkeypatch.setattr(compiled, "can_compile", lambda: True)
    monkeypatch.setattr(compiled, "_start_compiler", pytest.fail)
    compiled.prepare()
    assert "other users may write to" in compiled.refusal()
    assert list(cache.iterdir()) == []


def test_compiler_reports_an_untrusted_cache(cache):
    cache.chmod(0o777)
    build = [sys.executable, "-m", "stepwhy.base.columns.compile"]
    done = subprocess.run(build, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert f"{cache}" in done.stderr
    assert "to which other users may write" in done.stderr
    assert list(cache.iterdir()) == []


def test_planted_links_are_not_followed_for_writing(cache, tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    link(victim, cache / "compiling")
    assert not code_cache.claim()
    os.utime(cache / "compiling", (0, 0), follow_symlinks=False)
    assert code_cache.claim()  # of a process that has died: the link itself goes
    monkeypatch.setattr(os, "urandom", bytes)
    link(tmp_path, cache / f"compiled-{bytes(8).hex()}.part")
    with pytest.raises(FileExistsError), code_cache.draft():
        pass
    assert victim.read_bytes() == b"precious"


def test_drafts_are_private(cache):
    with code_cache.draft() as draft:
        assert stat.S_IMODE(draft.stat().st_mode) == 0o700
        (draft / "a.nbi").write_bytes(b"code")
        code_cache.write_manifest(draft, "1")
        assert stat.S_IMODE((draft / "manifest.json").stat().st_mode) == 0o600
        code_cache.publish(draft)
    assert list(cache.iterdir()) == [code_cache.code_folder()]


def turn_into_link(file):
    file.rename(f"{file}.x")
    link(f"{file}.x", file)


def turn_into_pipe(file):
    file.unlink()
    os.mkfifo(file, 0o600)


PLANTS = {
    "link": (turn_into_link, "is a symbolic link"),
    "pipe": (turn_into_pipe, "is not a regular file"),
    "writable": (lambda file: file.chmod(0o666), "other users may write to"),
    "writable-folder": (lambda file: file.parent.chmod(0o777), "other users may write to"),
    "own": (lambda _: None, ""),
}


LARGE_ENOUGH = (
    "from stepwhy.read.formats.kineto import reader; reader.LARGE = 0;"
    "from stepwhy.cli import main; main()"
)


@pytest.mark.parametrize("plant", PLANTS)
def test_explain_does_not_run_planted_code_and_says_so(planted, tmp_path, plant):
    """As a user runs it."""
    (planted.parents[2] / "compiling").touch()  # so that no compiler is started
    change, reason = PLANTS[plant]
    change(planted)
    args = {"device": 0, "stream": 7}
    event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 1, "args": args}
    events = [{**event, "ts": 2 * n} for n in range(5000)]
    document = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(document, separators=(",", ":")))
    command = [sys.executable, "-c", LARGE_ENOUGH, "explain", str(trace), "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert (done.returncode, json.loads(done.stdout)["inputs"][0]["events_kept"]) == (0, 5000)
    if plant == "own":
        assert (tmp_path / "ran").exists()
    else:
        assert not (tmp_path / "ran").exists()
        assert done.stderr.count("compiled code was not used") == 1
        assert reason in done.stderr


def test_the_command_says_once_that_compiled_code_was_refused(tmp_path, monkeypatch):
    """And explains the trace in the plain way."""
    monkeypatch.setattr(compiled, "_REFUSALS", ["other users may write to /shared"])
    trace = tmp_path / "trace.json"
    trace.write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]')
    done = CliRunner().invoke(cli, ["explain", str(trace), "--json"])
    assert done.exit_code == 0
    assert done.stderr == (
        "stepwhy: reading was slower, because compiled code was not used: "
        "other users may write to /shared. "
        "Set STEPWHY_CACHE to the absolute path of a folder that only you can write to.\n"
    )
    assert "reading was slower" not in done.stdout
