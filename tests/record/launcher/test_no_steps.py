"""Reasons why a run has no observed step, the most relevant first."""

from __future__ import annotations

import pytest

from stepwhy.record.launcher.no_steps import NO_LOOP, NOT_ATTACHED, why_no_step

_FULL = {"stopped": "No space left on device", "steps": 3, "optimizer_steps": 3000}


@pytest.mark.parametrize(
    ("exit_code", "processes", "start"),
    [
        (0, {}, NO_LOOP),
        (1, {"7": {}}, "the command failed before it trained: exit code 1. "),
        (
            1,
            {"7": {"exception": "ImportError"}, "6": {"exception": "ChildFailedError"}},
            "the command failed before it trained: exit code 1 (ImportError). ",
        ),
        (139, {}, "the command failed before it trained: SIGSEGV. "),
        (
            3,
            {"7": {"optimizer_steps": 1}},
            "the command failed after 1 step of a torch optimizer: exit code 3. ",
        ),
        (
            137,
            {"7": {"optimizer_steps": 1}},
            "SIGKILL ended the command after at least 1 step of a torch optimizer, before a step ",
        ),
        (
            1,
            {"7": {"failed": "ImportError of json"}},
            "the command failed (exit code 1), and the program ran unobserved, because the obse",
        ),
        (
            0,
            {"7": {"failed": "ImportError of json"}},
            "the program ran unobserved, because the observer could not be loaded: ImportError of ",
        ),
        (0, {"7": {"optimizer_steps": 1}}, "too few steps to time one: 1 step of a t"),
        (
            0,
            {"7": {"calls": 2}},
            "too few steps to time one: 2 calls of a compiled function. Timing needs at least 3",
        ),
        (0, {"7": _FULL}, "3,000 training steps were seen, but none was logged: No sp"),
        (1, {"7": _FULL}, "3,000 training steps were seen, but none was logged: No sp"),
    ],
)
def test_the_most_direct_reason_comes_first(exit_code, processes, start):
    assert why_no_step(exit_code, processes, attached=True).startswith(start)


def test_failed_command_differs_from_one_that_cannot_be_observed():
    assert why_no_step(0, {}, attached=False) == NOT_ATTACHED
    failed = why_no_step(127, {}, attached=False)
    assert failed == f"the command failed (exit code 127), and {NOT_ATTACHED}"


def test_largest_count_of_several_processes_is_used():
    processes = {"7": {"calls": 1}, "8": {"calls": 2}, "9": {"optimizer_steps": "many"}}
    assert "2 calls of a compiled function" in why_no_step(0, processes, attached=True)
