"""Runs of two programs for `stepwhy compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy import measure
from stepwhy.base import output
from stepwhy.cli.measuring import run_folder, run_progress
from stepwhy.cli.programs import program
from stepwhy.engine.stored_runs import stored_samples
from stepwhy.measure import Budget, Trial, forecast
from stepwhy.measure.looks import LEVEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepwhy.base.redaction import Redactor
    from stepwhy.cli.programs import Source
    from stepwhy.measure import Program

# Runs of a program that is compared with stored runs, as many as `stepwhy bench` made by default.
_BESIDE_STORED = 5


class Plan(NamedTuple):
    """How many runs to make.

    Attributes:
        repeats: Number of valid pairs; None for as many as the question needs.
        budget: Time for them, in seconds, if `repeats` is None.
        margin: Largest change that counts as the same.
        allow_busy: Whether runs are valid while other programs keep the machine busy.
    """

    repeats: int | None
    budget: float
    margin: float
    allow_busy: bool


def runs(
    sources: tuple[Source, Source], plan: Plan, out: Path | None, redactor: Redactor
) -> tuple[Trial, Path | None]:
    """Make or read the runs of two sources.

    Args:
        sources: The two programs or recordings.
        plan: How many runs to make.
        out: Folder for new runs; None for one that is named after the time.
        redactor: Redactor for names in stored runs.

    Returns:
        The runs, and the folder of new runs; None if all were stored.
    """
    if all(s.stored for s in sources):
        a, b = (stored_samples(s.stored, redactor, allow_busy=plan.allow_busy) for s in sources)
        return Trial(a, b, LEVEL, answered=False), None
    folder = run_folder(out, "compare")
    programs = [
        program(s.label, s.command, folder / name, folder)
        for s, name in zip(sources, ("a", "b"), strict=True)
    ]
    with run_progress() as progress:
        if not any(s.stored for s in sources):
            return _alternate(programs, plan, progress), folder
        a, b = (
            stored_samples(s.stored, redactor, allow_busy=plan.allow_busy)
            if s.stored
            else measure.measure(
                p, plan.repeats or _BESIDE_STORED, allow_busy=plan.allow_busy, progress=progress
            )
            for s, p in zip(sources, programs, strict=True)
        )
        return Trial(a, b, LEVEL, answered=False), folder


def _alternate(
    programs: list[Program], plan: Plan, progress: Callable[[str, int, int], None] | None
) -> Trial:
    """Run both in turns, and say before the runs if they will probably not answer."""
    if plan.repeats is None:
        return measure.measure_until_answered(
            programs,
            Budget(plan.budget),
            margin=plan.margin,
            allow_busy=plan.allow_busy,
            progress=progress,
            after_pair=_say_forecast,
        )
    warning = forecast(plan.repeats)
    if warning:
        output.line(f"stepwhy: {warning}")
    a, b = measure.measure_pairs(
        programs, plan.repeats, allow_busy=plan.allow_busy, progress=progress
    )
    return Trial(a, b, LEVEL, answered=False)


def _say_forecast(trial: Trial, possible: int) -> None:
    """After the first pair, say if the budget is too small for an answer."""
    if len(trial.a) == 1 and not trial.answered:
        warning = forecast(possible, [*trial.a, *trial.b])
        if warning:
            output.line(f"stepwhy: {warning} --budget allows more.")
