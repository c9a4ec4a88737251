"""A run directory in which somebody else put pipes, devices and links before the training."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.inputs.hostile import KINDS, child

from stepwhy.capture.launcher.run_directory import Run, messages_of
from stepwhy.capture.launcher.status import summary
from stepwhy.capture.process.folder import append_bytes
from stepwhy.capture.registry import ATTACHED_FILE
from stepwhy.capture.sampling import stacks

TRAINING = "open('trained', 'w').close()"
NO_FILES = [kind for kind in KINDS if kind != "passwd"]


@pytest.fixture
def private(tmp_path):
    path = tmp_path / "private"
    path.write_text("mine\n")
    return path


def trains(folder, out):
    """Whether a training runs to its end, and what `stepwhy run` says of it."""
    done = child("-m", "stepwhy", "run", "--out", out, "--", "python", "-c", TRAINING, cwd=folder)
    return (folder / "trained").exists(), done


@pytest.mark.parametrize("kind", ["pipe", "zero", "full", "socket", "tty"])
def test_the_training_runs_whatever_its_run_directory_holds(tmp_path, kind):
    out = tmp_path / "out"
    (out / "process-1" / "windows").mkdir(parents=True)
    for name in (ATTACHED_FILE, "process-1/messages.jsonl", "process-1/steps.jsonl", "report.html"):
        KINDS[kind](out / name)
    ended, done = trains(tmp_path, out)
    assert ended, done.stderr


def test_a_link_for_the_file_of_processes_leads_nowhere(tmp_path, private):
    out = tmp_path / "out"
    out.mkdir()
    (out / ATTACHED_FILE).symlink_to(private)
    ended, done = trains(tmp_path, out)
    assert ended, done.stderr
    assert private.read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_run_file_that_is_none_is_left_alone(tmp_path, kind):
    """As of a directory that holds a run: this one goes beside it."""
    out = tmp_path / "out"
    out.mkdir()
    KINDS[kind](out / "run.json")
    ended, done = trains(tmp_path, out)
    assert (ended, done.returncode) == (True, 0)
    assert [path.name for path in out.iterdir()] == ["run.json"]
    assert not (out / "run.json").is_file()


def test_a_process_signs_in_without_waiting(tmp_path):
    """The pipe takes the file's place after the launcher has made it."""
    os.mkfifo(tmp_path / ATTACHED_FILE)
    program = "import os; from stepwhy.capture import attach; attach.attach()"
    done = child("-c", program, env={"STEPWHY_RUN_DIR": str(tmp_path)})
    assert b"No such device or address" in done.stderr  # which the bootstrap catches


@pytest.mark.parametrize("kind", NO_FILES)
def test_a_log_that_is_no_file_is_an_error_at_once(tmp_path, kind):
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
def test_what_the_launcher_reads_is_read_from_files_alone(tmp_path, kind):
    process = tmp_path / "process-1"
    process.mkdir()
    for name in ("messages.jsonl", "steps.jsonl", "steps-000000000000.jsonl", "process.json"):
        KINDS[kind](process / name)
    assert messages_of(tmp_path) == []
    assert summary(tmp_path) == ""
    assert stacks._may_be_traced(process)


def test_what_the_launcher_reads_is_bounded(tmp_path):
    process = tmp_path / "process-1"
    process.mkdir()
    for name in ("messages.jsonl", "steps.jsonl", "process.json"):
        with (process / name).open("wb") as file:
            file.truncate(1 << 42)
    assert messages_of(tmp_path) == []
    assert summary(tmp_path) == ""
    assert stacks._may_be_traced(process)


def test_a_file_of_processes_that_is_left_over_is_made_anew(tmp_path):
    (tmp_path / ATTACHED_FILE).write_text("4711\n")
    run = Run(tmp_path, ["python"])
    assert (tmp_path / ATTACHED_FILE).read_text() == ""
    assert json.loads(Path(run.path / "run.json").read_bytes())["exit_code"] is None
