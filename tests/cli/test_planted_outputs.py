"""Commands that write a result into a folder with planted links."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from stepwhy.base.errors import OutputError
from stepwhy.cli import measuring
from stepwhy.engine import explain
from stepwhy.engine.opening import open_one
from stepwhy.show import html
from stepwhy.show.export import WRITERS
from tests.kineto_samples import sample

ROOT = Path(__file__).parents[2]
EXPORTS = {
    "chrome-trace": "out.trace.json.gz",
    "speedscope": "out.speedscope.json",
    "stepwhy": "out.stepwhy",
    "parquet": "out.parquet",
}
COMMANDS = {
    **{
        form: ("export", "t.json", "--overwrite", "--to", form, "--out", name)
        for form, name in EXPORTS.items()
    },
    "html": ("explain", "t.json", "--html", "out.html"),
}
OUTPUTS = {**EXPORTS, "html": "out.html"}
every_output = pytest.mark.parametrize("output", OUTPUTS)
every_file = pytest.mark.parametrize("output", [name for name in OUTPUTS if name != "parquet"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "t.json").write_bytes(sample("2024 fractional"))
    (tmp_path / "private").write_text("mine")
    monkeypatch.chdir(folder)
    return folder


def outputs():
    return sorted(path.name for path in Path.cwd().iterdir() if path.name != "t.json")


def stepwhy(output, out=None, **options):
    """Run the command that writes an output, to another file if one is given."""
    *arguments, name = COMMANDS[output]
    return subprocess.run(
        [sys.executable, "-m", "stepwhy", *arguments, out or name],
        capture_output=True,
        check=False,
        timeout=120,
        env={**os.environ, "STEPWHY_NATIVE": "0"},
        **options,
    )


def write(output):
    """Write an output in this process, whose id is known."""
    if output == "html":
        html.write(OUTPUTS[output], explain(["t.json"]))
    else:
        WRITERS[output][1](open_one("t.json").trace, Path(OUTPUTS[output]))


# --- Links ---


@every_output
def test_a_link_in_place_of_a_draft_is_not_followed(folder, output):
    """Names of temporary files, including earlier ones."""
    name = OUTPUTS[output]
    for draft in (f"{name}.part", f".{name}.{os.getpid()}.part", f".{name}.{os.getpid()}"):
        (folder / draft).symlink_to("../private")
    planted = outputs()
    write(output)
    assert Path("../private").read_text() == "mine"
    assert outputs() == sorted([*planted, name])
    assert not Path(name).is_symlink()


@every_file
def test_a_link_in_place_of_the_result_is_replaced(folder, output):
    (folder / OUTPUTS[output]).symlink_to("../private")
    done = stepwhy(output)
    assert done.returncode in {0, 1}, done.stderr
    assert Path("../private").read_text() == "mine"
    assert outputs() == [OUTPUTS[output]]
    assert not Path(OUTPUTS[output]).is_symlink()


def test_a_folder_of_tables_does_not_go_through_a_link(folder):
    (folder / "out.parquet").symlink_to("..")
    done = stepwhy("parquet")
    assert (done.returncode, b"cannot be written" in done.stderr) == (4, True)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["folder", "private"]


@pytest.mark.usefixtures("folder")
def test_a_result_of_measurements_does_not_go_through_a_link(monkeypatch):
    for name in ("bench.json", f".bench.json.{os.getpid()}"):
        Path(name).symlink_to("../private")
    monkeypatch.setattr(measuring, "render", lambda _: "{}")
    measuring.save_result(Path("bench.json"), None)
    assert Path("../private").read_text() == "mine"
    assert Path("bench.json").read_text() == "{}"
    assert not Path("bench.json").is_symlink()


# --- Devices ---


@every_file
@pytest.mark.usefixtures("folder")
def test_a_result_can_go_to_standard_output(output):
    """Also to a program: in Bash, `--out >(program)` is a path in /dev/fd."""
    begins = {
        "chrome-trace": b'{"schema"',
        "speedscope": b'{"$schema"',
        "stepwhy": b"PK",
        "html": b"<!doctype html>",
    }
    done = stepwhy(output, "/dev/stdout")
    assert done.returncode in {0, 1}, done.stderr
    assert begins[output].lower() in done.stdout.lower()[: 1 << 16]
    assert Path("/dev/stdout").is_symlink()
    assert outputs() == []


@every_file
@pytest.mark.usefixtures("folder")
def test_result_can_be_discarded(output):
    assert stepwhy(output, "/dev/null").returncode in {0, 1}
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


# --- Errors ---


@every_output
@pytest.mark.usefixtures("folder")
def test_a_full_disk_leaves_nothing(output):
    def limit():
        # Python would keep modules whose bytecode was cut off.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = stepwhy(output, preexec_fn=limit)
    assert (done.returncode, outputs()) == (4, [])
    assert os.strerror(errno.EFBIG).encode() in done.stderr


@every_output
@pytest.mark.usefixtures("folder")
def test_a_folder_without_room_for_files_is_an_error(output):
    done = stepwhy(output, "/proc/out")
    assert (done.returncode, b"Traceback" in done.stderr) == (4, False)


@every_output
def test_a_read_only_folder_is_an_error(folder, output, monkeypatch):
    write(output)  # loads all modules, while this process may read them
    before = outputs()
    monkeypatch.setitem(OUTPUTS, output, f"other-{OUTPUTS[output]}")
    folder.chmod(0o555)
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        with pytest.raises(OutputError, match="Permission denied"):
            write(output)
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
    assert outputs() == before


@every_output
@pytest.mark.usefixtures("folder")
def test_a_command_that_is_terminated_leaves_nothing(output):
    """Terminated while writing, as by `timeout` or a scheduler."""
    program = f"""
import os, signal
from stepwhy.base import whole_files
from tests.cli.test_planted_outputs import write
new_file = whole_files._new_file

def end(*arguments, **options):
    file = new_file(*arguments, **options)
    signal.raise_signal(signal.SIGTERM)
    return file

whole_files._new_file = end
write({output!r})
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "STEPWHY_NATIVE": "0"},
        timeout=240,
    )
    assert (done.returncode, outputs()) == (-signal.SIGTERM, [])
