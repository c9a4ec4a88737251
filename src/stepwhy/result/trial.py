"""Result of `stepwhy try`: what a fix gained when it was applied at run time."""

from __future__ import annotations

from typing import Literal

import msgspec

TRIAL_SCHEMA = "stepwhy.trial/1"

TrialVerdict = Literal["gain", "no gain", "cannot tell", "refused"]
Losses = Literal["agree", "differ", "not seen", "not compared"]
TrialMethod = Literal["blocks", "runs", ""]


class TriedFix(msgspec.Struct, frozen=True):
    """The fix that was tried.

    Args:
        name: Its name, as in `stepwhy try --list`.
        title: What it changes, in a few words.
        value: Its argument; '' for the default.
        diagnosis: Id of the finding that it fixes; '' if the user named the fix.
        is_measurement: Whether it is no fix, but shows what a part of the step costs.
    """

    name: str
    title: str
    value: str = ""
    diagnosis: str = ""
    is_measurement: bool = False


class TrialRunSummary(msgspec.Struct, frozen=True):
    """One run of the program.

    Args:
        path: Its run directory.
        fix: 'off', 'on', or 'switched' in blocks of steps.
        steps: Number of steps that were measured.
        step_ns: Step time of the run; with 'switched', of the steps without the fix.
        background_cores: Cores that other programs kept busy; null if unknown.
    """

    path: str
    fix: Literal["off", "on", "switched"]
    steps: int
    step_ns: int
    background_cores: float | None = None


class Trial(msgspec.Struct, frozen=True):
    """Output of `stepwhy try --json`; times are per step, in ns.

    Args:
        command: The command, redacted.
        fix: What was tried; null if nothing could be chosen.
        verdict: 'gain', 'no gain' (less than the margin, or slower), 'cannot tell', or 'refused'.
        sentence: The verdict in one sentence.
        step_ns: Step time without the fix; null if it was not measured.
        fixed_ns: Step time with the fix.
        gain_ns: By how much the step gets shorter; negative if it gets longer.
        low_ns: Lower end of the confidence interval of the gain.
        high_ns: Upper end of it.
        level: Confidence level over all looks at the growing experiment, 0..1.
        margin: Largest change, relative to the step, that counts as none.
        predicted_low_ns: Lower end of the gain that was predicted from the run without the fix;
            null if none was.
        predicted_high_ns: Upper end of it.
        method: 'blocks': the fix was switched within runs; 'runs': whole runs in turns.
        statistic: Whether the step time is the median step or the mean one, which also counts
            rare long steps.
        pairs: Number of pairs of blocks, or of runs.
        runs: All runs, in chronological order.
        changed: What the fix changed in the program.
        losses: Whether the losses with the fix agree with those without it.
        reason: Why it was refused; '' otherwise.
        todo: What to do next; '' if nothing is needed.
        notes: Remarks for the reader.
    """

    command: str
    fix: TriedFix | None
    verdict: TrialVerdict
    sentence: str
    step_ns: int | None = None
    fixed_ns: int | None = None
    gain_ns: int | None = None
    low_ns: int | None = None
    high_ns: int | None = None
    level: float = 0.98
    margin: float = 0.03
    predicted_low_ns: int | None = None
    predicted_high_ns: int | None = None
    method: TrialMethod = ""
    statistic: Literal["median", "mean"] = "median"
    pairs: int = 0
    runs: tuple[TrialRunSummary, ...] = ()
    changed: tuple[str, ...] = ()
    losses: Losses = "not seen"
    reason: str = ""
    todo: str = ""
    notes: tuple[str, ...] = ()
    schema: str = TRIAL_SCHEMA
    stepwhy: str = ""
