"""How a run ended and what is missing, in sentences."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from stepwhy.read.formats.run_directory.files import (
    SCHEMA,
    Message,
    ProcessEnd,
    ProcessFile,
    RunFile,
)
from stepwhy.read.formats.run_directory.log_files import Gap
from stepwhy.read.formats.run_directory.notes import gap_notes, notes_of
from stepwhy.read.inputs.folders import RunFolder
from stepwhy.trace import Meta, TraceBuilder

SECOND = 1_000_000_000


def notes(tmp_path, run, process=None, *messages, resident=None):
    builder = TraceBuilder()
    builder.add("marks", start_ns=0, dur_ns=5 * SECOND)
    if resident is not None:
        builder.add("counters", time_ns=1, name=builder.intern("resident_bytes"), value=resident)
    log = builder.finish(Meta("step-log"))
    return list(notes_of(RunFolder(tmp_path), run, process or ProcessFile(), messages, log))


def ended(code, **more):
    return RunFile(SCHEMA, exit_code=code, ended_ns=100 * SECOND, **more)


def test_a_run_that_ended_well_needs_no_note(tmp_path):
    assert notes(tmp_path, ended(0), ProcessFile(ended_ns=6 * SECOND)) == []


def test_a_run_of_a_version_that_noted_no_end_needs_no_note(tmp_path):
    assert notes(tmp_path, ended(0), ProcessFile()) == []


def test_a_log_that_breaks_off_is_told(tmp_path):
    (note,) = notes(tmp_path, ended(0), ProcessFile(ended_ns=None))
    assert note.startswith("The step log breaks off 95.0 s before the run ended")


def test_the_reason_for_which_the_observer_stopped_stands_alone(tmp_path):
    stopped = Message("the observer stopped: a reason", "warning", "observer-stopped")
    assert notes(tmp_path, ended(0), ProcessFile(ended_ns=None), stopped) == [stopped.text]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "The training ended with exit code 1"),
        (143, "The training was ended by SIGTERM"),
        (250, "The training was ended by signal 122"),
        (137, "The training was killed (SIGKILL)"),
    ],
)
def test_other_ends_are_told(tmp_path, code, text):
    (note,) = notes(tmp_path, ended(code), ProcessFile(ended_ns=6), resident=3 << 30)
    until = " after 1 timed step, which took 5.00 s; it held up to 3.00 GiB of memory."
    assert note == text + until


def test_the_end_stands_before_what_the_observer_said(tmp_path):
    said = Message("a window was lost", "warning", "window-lost")
    first, second = notes(tmp_path, ended(1), ProcessFile(ended_ns=6), said)
    assert first.startswith("The training ended")
    assert second == said.text


def test_a_log_that_could_not_be_written_is_told_without_a_message(tmp_path):
    full = "the run directory could not be written (No space left on device)"
    word = ProcessEnd(stopped=full, steps=3, optimizer_steps=3000)
    run = ended(0, processes={"7": word})
    (note,) = notes(tmp_path, run, ProcessFile(pid=7, ended_ns=None))
    assert note == (
        f"The step log ends after 1 step: {full}. The training went on, for 3,000 steps in all."
    )


def test_what_a_kill_may_have_cost_is_told(tmp_path):
    (note,) = notes(tmp_path, ended(143), ProcessFile(ended_ns=None))
    assert note.startswith("The training was ended by SIGTERM after at least 1 timed step")
    assert note.endswith(" Steps of the last half second may be missing.")


def test_the_kernels_own_kill_is_told_from_another(tmp_path):
    (note,) = notes(tmp_path, ended(137, oom_kills=1))
    assert note.startswith("The training was killed by the kernel for lack of memory after 1 timed")


def test_a_run_that_goes_on_is_told_from_one_that_was_killed(tmp_path):
    (tmp_path / "steps.jsonl").touch()
    unfinished = RunFile(SCHEMA)
    (note,) = notes(tmp_path, unfinished, ProcessFile(pid=os.getpid()))
    assert note.startswith("The run is still going")
    (note,) = notes(tmp_path, unfinished, ProcessFile(pid=2**22 + 1))
    assert note.startswith("The run has no recorded end")
    long_ago = time.time() - 100_000
    os.utime(tmp_path / "steps.jsonl", (long_ago, long_ago))
    (note,) = notes(tmp_path, unfinished, ProcessFile(pid=os.getpid()))
    assert note.startswith("The run has no recorded end")


def test_a_killed_process_that_was_not_waited_for_does_not_go_on(tmp_path):
    (tmp_path / "steps.jsonl").touch()
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        (note,) = notes(tmp_path, RunFile(SCHEMA), ProcessFile(pid=ended.pid))
    assert note.startswith("The run has no recorded end")


def test_what_is_missing_in_the_log_is_told():
    (dropped, damaged) = gap_notes([Gap(10, 1000, 1_399_999)], 7)
    assert dropped.startswith("Lines 1,001 to 1,400,000 of the step log are not there")
    assert damaged.startswith("The step log is damaged: 7 of its lines")
    assert list(gap_notes([], 0)) == []
