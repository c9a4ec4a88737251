"""Run directories with planted pipes, devices and links."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.inputs.hostile import KINDS, child

from stepwhy.record.core.process.folder import append_bytes
from stepwhy.record.core.registry import ATTACHED_FILE
from stepwhy.record.launcher.run_directory import Run, messages_of
from stepwhy.record.launcher.status import summary
from stepwhy.record.sampling import stacks

TRAINING = "open('trained', 'w').close()"
NO_FILES = [kind for kind in KINDS if kind != "passwd"]


@pytest.fixture
def private(tmp_path):
    path = tmp_path / "private"
    path.write_text("mine\n")
    return path


def trains(folder, out):
    """Whether a training runs to its end, and the messages of `stepwhy run`."""
    done = child("-m", "stepwhy", "run", "--out", out, "--", "python", "-c", TRAINING, cwd=folder)
    return (folder / "trained").exists(), done


@pytest.mark.parametrize("kind", ["pipe", "zero", "full", "socket", "tty"])
def test_training_runs_with_any_content_of_its_run_directory(tmp_path, kind):
    out = tmp_path / "out"
    (out / "process-1" / "windows").mkdir(parents=True)
    for name in (ATTACHED_FILE, "process-1/messages.jsonl", "process-1/steps.jsonl", "report.html"):
        KINDS[kind](out / name)
    ended, done = trains(tmp_path, out)
    assert ended, done.stderr


def test_link_in_place_of_the_process_file_is_not_followed(tmp_path, private):
    out = tmp_path / "out"
    out.mkdir()
    (out / ATTACHED_FILE).symlink_to(private)
    ended, done = trains(tmp_path, out)
    assert ended, done.stderr
    assert private.read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_run_file_that_is_not_a_file_is_left_alone(tmp_path, kind):
    """As for a directory with a run: another directory is used."""
    out = tmp_path / "out"
    out.mkdir()
    KINDS[kind](out / "run.json")
    ended, done = trains(tmp_path, out)
    assert (ended, done.returncode) == (True, 0)
    assert [path.name for path in out.iterdir()] == ["run.json"]
    assert not (out / "run.json").is_file()


def test_process_registers_without_waiting(tmp_path):
    """A pipe replaces the file after the launcher has created it."""
    os.mkfifo(tmp_path / ATTACHED_FILE)
    program = "import os; from stepwhy.record import attach; attach.attach()"
    done = child("-c", program, env={"STEPWHY_RUN_DIR": str(tmp_path)})
    assert b"No such device or address" in done.stderr  # which the bootstrap catches


@pytest.mark.parametrize("kind", NO_FILES)
def test_log_that_is_not_a_file_is_an_error_at_once(tmp_path, kind):
    KINDS[kind](tmp_path / "steps.jsonl")
    with pytest.raises(OSError, match="Not a regular file"):
        append_bytes(tmp_path / "steps.jsonl", b"1\n")


def test_a_link_for_a_log_is_not_followed(tmp_path, private):
    for target in (private, tmp_path / "new"):
        log = tmp_path / f"{target.name}.jsonl"
        log.symlink_to(target)
        with pytest.raises(OSError, match="Not a regular file"):
            append_bytes(log, b"1\n")
    assert private.read_text() == "mine\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", NO_FILES)
def test_launcher_reads_only_regular_files(tmp_path, kind):
    process = tmp_path / "process-1"
    process.mkdir()
    for name in ("messages.jsonl", "steps.jsonl", "steps-000000000000.jsonl", "process.json"):
        KINDS[kind](process / name)
    assert messages_of(tmp_path) == []
    assert summary(tmp_path) == ""
    assert stacks._about(process) == {}


def test_launcher_reads_a_bounded_amount(tmp_path):
    process = tmp_path / "process-1"
    process.mkdir()
    for name in ("messages.jsonl", "steps.jsonl", "process.json"):
        with (process / name).open("wb") as file:
            file.truncate(1 << 42)
    assert messages_of(tmp_path) == []
    assert summary(tmp_path) == ""
    assert stacks._about(process) == {}


def test_leftover_process_file_is_replaced(tmp_path):
    (tmp_path / ATTACHED_FILE).write_text("4711\n")
    run = Run(tmp_path, ["python"])
    assert (tmp_path / ATTACHED_FILE).read_text() == ""
    assert json.loads(Path(run.path / "run.json").read_bytes())["exit_code"] is None
