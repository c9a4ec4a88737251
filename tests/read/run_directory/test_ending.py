"""How a run ended, and why none of its steps was traced."""

from __future__ import annotations

import pytest

from stepwhy.read.formats.run_directory.ending import Ending, ending_of, untraced
from stepwhy.read.formats.run_directory.files import (
    SCHEMA,
    Message,
    ProcessEnd,
    ProcessFile,
    RunFile,
)
from stepwhy.trace import Meta, TraceBuilder

PROCESS = ProcessFile(pid=7, ended_ns=6)


def log(steps, *, profiled=0):
    builder = TraceBuilder()
    for step in range(steps):
        builder.add("marks", start_ns=1000 * step, dur_ns=1000, profiled=profiled)
    return builder.finish(Meta("step-log"))


def ended(code, **more):
    return RunFile(SCHEMA, exit_code=code, ended_ns=100, **more)


@pytest.mark.parametrize("code", [0, None])
def test_a_good_end_and_none_are_not_told(code):
    assert ending_of(ended(code), PROCESS, log(5)) == Ending(code)


def test_the_exception_of_the_process_itself_is_named():
    processes = {"6": ProcessEnd("KeyError"), "7": ProcessEnd("ValueError")}
    ending = ending_of(ended(1, processes=processes), PROCESS, log(305))
    assert (ending.exit_code, ending.exception) == (1, "ValueError")
    assert ending.sentence == (
        "The training ended with exit code 1 (ValueError) after 305 timed steps, the last of which "
        "took 1.00 µs."
    )


def test_steps_that_could_not_be_timed_are_counted():
    sentence = ending_of(ended(1), PROCESS, log(39), 1).sentence
    assert sentence == (
        "The training ended with exit code 1 after 40 steps, of which the last timed one took "
        "1.00 µs."
    )


def test_of_ranks_the_first_exception_is_named():
    processes = {"6": ProcessEnd("KeyError"), "7": ProcessEnd("RuntimeError")}
    rank = ProcessFile(pid=7, ended_ns=6, world_size=2)
    assert ending_of(ended(1, processes=processes), rank, log(5)).exception == "KeyError"


def test_a_crash_of_native_code_is_told_with_how_to_find_it():
    sentence = ending_of(ended(139), PROCESS, log(5)).sentence
    assert sentence.startswith("The training was ended by SIGSEGV after 5 timed steps")
    assert "python -X faulthandler" in sentence


_PROFILER = Message(
    "the training's own profiler (torch.profiler) was on at step 5. Two cannot run at once: more",
    "warning",
    "profiler-in-use",
)
_LOST = Message("a traced window was lost: an internal failure", "warning", "window-lost")
_FULL = Message(
    "a traced window was lost: the run directory could not be written (less than 64 MiB are free "
    "on the disk)",
    "warning",
    "window-lost",
)
_THREAD = Message(
    "the steps were timed, but not profiled: the training runs elsewhere. Import torch there",
    "warning",
    "loop-in-thread",
)
_WORKERS = Message(
    "the steps were timed, but not profiled: it can crash. Use one worker",
    "warning",
    "several-workers",
)


@pytest.mark.parametrize(
    ("messages", "reason", "advice"),
    [
        ([_PROFILER], "the training's own profiler (torch.profiler) was on at step 5", "Stop that"),
        ([_LOST], "a traced window was lost: an internal failure", "Run 'stepwhy check'"),
        ([_FULL], _FULL.text, "Free some space"),
        ([_THREAD], "the training runs elsewhere", "Import torch there"),
        ([_WORKERS], "it can crash", "Use one worker"),
        ([Message("said", "info", "other")], "the observer left no reason", "Run 'stepwhy check'"),
    ],
)
def test_what_the_observer_said_tells_why(messages, reason, advice):
    why = untraced(ended(0), PROCESS, messages, log(300))
    assert why.reason == reason
    assert why.advice.startswith(advice)


def test_a_full_disk_comes_before_all_else():
    stopped = "the run directory could not be written (No space left on device)"
    run = ended(0, processes={"7": ProcessEnd(stopped=stopped, optimizer_steps=3000)})
    why = untraced(run, PROCESS, [_PROFILER], log(3))
    assert why.reason == f"{stopped}; the training went on, for 3,000 steps in all"
    assert why.advice.startswith("Free some space")


def test_a_short_run_is_told_from_one_that_failed_early():
    short = untraced(ended(0), PROCESS, [], log(5))
    assert (short.reason, short.advice) == (
        "the run ended too early",
        "Let it train for 20 steps or more",
    )
    failed = untraced(ended(3), PROCESS, [], log(5))
    assert failed.reason == "the training failed too early (exit code 3)"
    assert failed.advice.startswith("Fix what ended it")


@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize(
    ("count", "advice"), [(30, "Run it again for longer"), (6, "Let it train for 20 steps")]
)
def test_a_run_that_ended_in_its_first_window_is_told(logged, count, advice):
    steps = log(count, profiled=int(logged))
    why = untraced(ended(137), PROCESS, [], steps, unfinished=not logged)
    assert why.reason == "the run ended while the first of them were being traced"
    assert why.advice.startswith(advice)
