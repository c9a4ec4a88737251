"""Decide whether a comparison lets a build pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.result.gate import Gate

if TYPE_CHECKING:
    from stepwhy.result import Comparison
    from stepwhy.result.gate import GateOutcome


def gate(result: Comparison, limit: float) -> Gate:
    """Whether B is slower than a limit allows; 'unknown' unless the runs can show it.

    Args:
        result: The comparison.
        limit: Largest relative slowdown that passes, such as 0.03.
    """
    reason = _unusable(result)
    if reason:
        return Gate(limit, "unknown", reason)
    outcome = _outcome(result, limit)
    return Gate(limit, outcome, _UNDECIDED if outcome == "unknown" else "")


_UNDECIDED = "the interval of the change allows both answers"


def _unusable(result: Comparison) -> str:
    """Why the runs show nothing about the program, whatever their times; '' if they do."""
    if not result.comparable:
        return "the environments of the runs differ"
    if result.quiet is False:
        return "other programs kept the machine busy"
    if result.pairs < 2:
        return "there is a single run of a program"
    return ""


def _outcome(result: Comparison, limit: float) -> GateOutcome:
    if result.low is None or result.high is None:
        return "unknown"
    if result.high <= limit:
        return "passed"
    if result.low > 0 and result.change > limit:
        return "slower"
    return "passed" if result.verdict in ("same", "faster") else "unknown"
