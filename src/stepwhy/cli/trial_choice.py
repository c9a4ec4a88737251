"""Choose the fix of a trial, conduct it, and remember what it gained."""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import EditError, MeasurementError, StepwhyError
from stepwhy.base.redaction.commands import redact_command
from stepwhy.cli.trial_runs import recorded_command
from stepwhy.cli.words import script_to_run
from stepwhy.diagnose import TABLE
from stepwhy.engine.whatif import predict
from stepwhy.measure.fixes import first_fix, fix_for_edit, fix_named
from stepwhy.measure.trial import conduct, fitted
from stepwhy.measure.trial_report import refusal, report, tried
from stepwhy.predict import ledger
from stepwhy.record.launcher.command import run_name
from stepwhy.result import current_id
from stepwhy.result.edits import parse_edit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.cli.trial_runs import ProgramRunner
    from stepwhy.measure.fixes import FixAbout
    from stepwhy.measure.trial import Budget
    from stepwhy.result import Finding, Result, Trial

_NO_TICKS = (
    "counts the steps while the program runs, and no step was seen of a PyTorch optimizer, Keras' "
    "fit or a TensorFlow 1 session"
)
_LIST = "'stepwhy try --list' shows what can be tried"

# Half-width of the interval of the measured step, relative to the step. Noisier results would
# widen all later intervals.
_MOST_NOISE = 0.05


class Wish(msgspec.Struct, frozen=True):
    """What the user wants to try; '' for what was not given.

    Args:
        diagnosis: Id of a finding.
        fix: NAME or NAME=VALUE of a fix.
        edit: An edit as text.
    """

    diagnosis: str = ""
    fix: str = ""
    edit: str = ""


class _Chosen(msgspec.Struct, frozen=True):
    about: FixAbout
    value: str
    finding: Finding | None

    @property
    def predicted(self) -> Finding | None:
        """The finding, if what was predicted for it is what this fix does."""
        edit = self.finding.edit if self.finding is not None else None
        return self.finding if self.about.argument_for(edit) == self.value else None


def target(words: Sequence[str], *, is_command: bool) -> tuple[list[str], str]:
    """The command and the finding that the words of the command line name.

    Args:
        words: TARGET [FINDING] [ARGS]..., or a command.
        is_command: Whether they are a command.

    Raises:
        CaptureError: There is no such script.
        NotFoundError: A run directory whose command cannot be run again.
        EditError: What follows a run directory is no finding.
    """
    if is_command:
        return list(words), ""
    first, rest = words[0], list(words[1:])
    id_ = current_id(rest[0].replace("_", "-")) if rest else ""
    named = id_.replace("-", "_") in TABLE
    diagnosis = id_ if named else ""
    rest = rest[1:] if named else rest
    recorded = recorded_command(Path(first)) if Path(first).is_dir() else None
    if recorded and rest:
        # What to do about a word that is no finding.
        ids = [name.replace("_", "-") for name in TABLE]
        near = get_close_matches(rest[0].replace("_", "-"), ids, 1)
        did_you_mean = f"Did you mean {near[0]}? " if near else ""
        raise EditError(
            f"there is no finding {rest[0]!r}",
            f"{did_you_mean}A run directory is run with its own arguments",
        )
    return recorded or script_to_run(first, rest), diagnosis


def try_fix(runner: ProgramRunner, command: Sequence[str], wish: Wish, budget: Budget) -> Trial:
    """Run the program, choose the fix, and measure what it gains.

    Args:
        runner: Runs the program.
        command: The command, for the result.
        wish: What to try.
        budget: When to stop.

    Raises:
        MeasurementError: The program fails without the fix, or no step was seen.
    """
    shown = " ".join(redact_command(command))
    first, result = runner.observe(fix=False)
    chosen = _choose(wish, result)
    if chosen is None:
        return refusal(shown, *_why_none(wish, result))
    about = fitted(chosen.about, first)
    fix = tried(about, chosen.value, chosen.finding)
    reason = _unfit(about, result, counts_steps=runner.counts_steps)
    if reason is not None:
        return refusal(shown, *reason, fix, result.steps.median_ns)
    runner.about, runner.value = about, chosen.value
    try:
        outcome = conduct(about, first, runner, budget)
    except MeasurementError as error:
        return refusal(shown, error.what, error.todo, fix, result.steps.median_ns)
    result_of_trial = report(shown, about, fix, outcome, chosen.predicted)
    _remember(result_of_trial, chosen.predicted, str(runner.path_of(first)), run_name(command))
    return result_of_trial


def check(wish: Wish) -> None:
    """Refuse a wish that no run can fulfil, before anything is run.

    Raises:
        EditError: There is no such fix or edit.
    """
    if wish.fix:
        name, _, value = wish.fix.partition("=")
        about = fix_named(name)
        if about is None:
            raise EditError(f"there is no fix {name!r}", _LIST)
        _check_value(about, value)
    if wish.edit:
        parse_edit(wish.edit)


def _check_value(about: FixAbout, value: str) -> None:
    """Refuse an argument that a fix does not understand.

    Raises:
        EditError: It does not.
    """
    how = f"Write {about.name}=VALUE: the {about.value}"
    if about.needs_value and not value:
        raise EditError(f"{about.name} needs an argument", how)
    if value and not about.value:
        raise EditError(f"{about.name} has no argument", f"Leave out '={value}'")
    if value and not about.takes(value):
        raise EditError(f"{value!r} is no argument of {about.name}", how)


def _choose(wish: Wish, result: Result) -> _Chosen | None:
    """The fix to try; None if there is none."""
    framework = result.run.framework
    if wish.fix:
        name, _, value = wish.fix.partition("=")
        about = fix_named(name)
        return _Chosen(about, value, _matching_finding(about, result)) if about else None
    if wish.edit:
        made = fix_for_edit(parse_edit(wish.edit), framework)
        return _Chosen(*made, _matching_finding(made[0], result)) if made else None
    found = first_fix(result.findings, framework, wish.diagnosis)
    if found is None:
        return None
    about, finding = found
    return _Chosen(about, about.argument_for(finding.edit) or "", finding)


def _matching_finding(about: FixAbout, result: Result) -> Finding | None:
    """The finding that a fix named by the user would fix."""
    ids = [f for f in result.findings if f.verdict == "found" and f.id in about.diagnoses]
    return ids[0] if ids else None


def _why_none(wish: Wish, result: Result) -> tuple[str, str]:
    """Why there is no fix to try, and what to do."""
    if wish.edit:
        return f"no fix makes {wish.edit} real in this program", f"Name one with --fix; {_LIST}"
    found = {f.id for f in result.findings if f.verdict == "found"}
    if wish.diagnosis and wish.diagnosis not in found:
        return f"{wish.diagnosis} was not found in this run", f"Name a fix with --fix; {_LIST}"
    if wish.diagnosis or found:
        which = wish.diagnosis or ", ".join(sorted(found))
        return (
            f"no fix of {which} can be applied at run time",
            f"Change the program as its report says, and use 'stepwhy compare'; {_LIST}",
        )
    return "nothing was found in this run", f"Name a fix with --fix; {_LIST}"


def _unfit(about: FixAbout, result: Result, *, counts_steps: bool) -> tuple[str, str] | None:
    """Why a fix does not suit a run, and what to do; None if it does."""
    framework, ranks = result.run.framework, result.run.ranks
    if about.framework and framework and about.framework != framework:
        return f"{about.name} is for {about.framework}, and this is {framework}", _LIST
    if ranks > 1 and not about.ranks:
        return (
            f"{about.name} is not tried in a program of {ranks} processes",
            "Run the training in one process, or change the program and use 'stepwhy compare'",
        )
    if about.counts_steps and not counts_steps:
        return f"{about.name} {_NO_TICKS}", "Change the program, and use 'stepwhy compare'"
    return None


def _remember(result: Trial, finding: Finding | None, path: str, name: str) -> None:
    """Add the result of a trial to the ledger, if a prediction of it is known.

    A failure is no error: the trial has been made.

    Args:
        result: The trial.
        finding: The finding whose fix was tried; None if there is none.
        path: The run without the fix.
        name: Name of the program.
    """
    if finding is None or finding.edit is None or not _is_precise(result):
        return
    try:
        found = predict([path], [finding.edit]).predictions
        if found:
            # The step with the fix, on the scale of the predicted run.
            share = (result.fixed_ns or 0) / (result.step_ns or 1)
            measured_ns = round(found[0].step_ns * share)
            ledger.append(
                ledger.entry_of(
                    name, found[0], measured_ns, datetime.now().astimezone().date().isoformat()
                )
            )
    except (StepwhyError, OSError):
        return


def _is_precise(result: Trial) -> bool:
    """Whether a trial is precise enough, and its fix did what the prediction is about."""
    if result.low_ns is None or result.high_ns is None or not result.step_ns:
        return False
    is_other = result.fix is None or result.fix.is_measurement
    return not is_other and (result.high_ns - result.low_ns) / 2 <= _MOST_NOISE * result.step_ns
