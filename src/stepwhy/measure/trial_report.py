"""The result of a trial in words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy import __version__
from stepwhy.base.units import format_fraction, format_ns
from stepwhy.measure.stats import judge
from stepwhy.measure.trial import LEVEL, MARGIN, busy_note, compare_losses, summaries
from stepwhy.result.trial import Trial, TriedFix

if TYPE_CHECKING:
    from stepwhy.measure.fixes import FixAbout
    from stepwhy.measure.stats import Ratio
    from stepwhy.measure.trial import Outcome, TrialRun
    from stepwhy.result import Finding
    from stepwhy.result.trial import TrialVerdict

_REORDERED = (
    "The fix changes the order in which random numbers are drawn, so losses differ by chance."
)
_MEASUREMENT = (
    "This is a measurement, not a fix: it shows what the step would take if its input were free."
)
_NO_REPORT = "Name another one with --fix; 'stepwhy try --list' shows them"


def tried(about: FixAbout, value: str, finding: Finding | None) -> TriedFix:
    """The fix for the result."""
    diagnosis = finding.id if finding else ""
    return TriedFix(about.name, about.title, value, diagnosis, about.is_measurement)


def refusal(
    command: str, reason: str, todo: str, fix: TriedFix | None = None, step_ns: int | None = None
) -> Trial:
    """The result of a trial that was not made.

    Args:
        command: The command, redacted.
        reason: Why, one sentence without a full stop.
        todo: What to do next, one sentence without a full stop.
        fix: The fix, if one was chosen.
        step_ns: Step time without it, if it was measured.
    """
    return Trial(
        command, fix, "refused", f"Not tried: {reason}.", step_ns=step_ns, reason=reason,
        todo=todo, stepwhy=__version__,
    )  # fmt: skip


def report(
    command: str, about: FixAbout, fix: TriedFix, outcome: Outcome, finding: Finding | None
) -> Trial:
    """The result of a trial.

    Args:
        command: The command, redacted.
        about: The fix.
        fix: The fix for the result.
        outcome: What the experiment has shown.
        finding: The finding whose saving is the prediction.
    """
    changed, left = _distinct(outcome.runs, "changed"), _distinct(outcome.runs, "left")
    step_ns = round(outcome.step_ns) if outcome.step_ns == outcome.step_ns else None
    refused = _distinct(outcome.runs, "refused")
    if refused:
        return refusal(command, "; ".join(refused), _NO_REPORT, fix, step_ns)
    if not changed:
        # Why a fix changed nothing.
        why = f"{about.missing} ({'; '.join(left[:3])})" if left else about.missing
        return refusal(command, why, _NO_REPORT, fix, step_ns)
    ratio = outcome.ratio
    verdict = _verdict(ratio)
    saving = finding.saving if finding else None
    found = Trial(
        command=command,
        fix=fix,
        verdict=verdict,
        sentence=_sentence(verdict, ratio, outcome, fix),
        step_ns=step_ns,
        level=LEVEL,
        margin=MARGIN,
        predicted_low_ns=saving.low_ns if saving else None,
        predicted_high_ns=saving.high_ns if saving else None,
        method=outcome.method,
        statistic=about.statistic,
        pairs=ratio.pairs if ratio else 0,
        runs=summaries(about, outcome.runs),
        changed=changed,
        losses=compare_losses(outcome.runs),
        todo=_todo(verdict, ratio),
        notes=_notes(about, outcome, left),
        stepwhy=__version__,
    )
    return replace(found, **_numbers(ratio, outcome.step_ns))


def _distinct(runs: tuple[TrialRun, ...], name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for run in runs for text in getattr(run, name)))


def _verdict(ratio: Ratio | None) -> TrialVerdict:
    match judge(ratio, MARGIN):
        case "faster":
            return "gain"
        case "cannot tell":
            return "cannot tell"
        case _:
            return "no gain"


def _numbers(ratio: Ratio | None, step_ns: float) -> dict[str, int]:
    """Step time with the fix, and the gain with its interval."""
    if ratio is None:
        return {}
    return {
        "fixed_ns": round(step_ns * (1 + ratio.change)),
        "gain_ns": round(-step_ns * ratio.change),
        "low_ns": round(-step_ns * ratio.high),
        "high_ns": round(-step_ns * ratio.low),
    }


def _sentence(verdict: str, ratio: Ratio | None, outcome: Outcome, fix: TriedFix) -> str:
    what = f"{fix.name}={fix.value}" if fix.value else fix.name
    if ratio is None:
        return f"Cannot tell whether {what} gains anything: there are too few pairs of steps."
    step = format_ns(outcome.step_ns)
    now = format_ns(outcome.step_ns * (1 + ratio.change))
    if verdict == "gain":
        share = format_fraction(-ratio.change)
        return f"{what} gains {share} of the step: {now} instead of {step}."
    if verdict == "cannot tell":
        return f"Cannot tell whether {what} gains anything: a step takes {step}, and {now} with it."
    if ratio.low > 0:
        return f"{what} makes the step longer: {now} instead of {step}."
    return f"{what} gains nothing: the step of {step} stays the same within {100 * MARGIN:g} %."


def _todo(verdict: str, ratio: Ratio | None) -> str:
    if verdict != "cannot tell":
        return ""
    if ratio is None:
        return "Let the program run more steps, or raise --budget"
    size = format_fraction(min(ratio.detectable, 9.99))
    return f"Only a change of {size} would be detected: raise --budget, or quiet the machine"


def _notes(about: FixAbout, outcome: Outcome, left: tuple[str, ...]) -> tuple[str, ...]:
    losses = compare_losses(outcome.runs)
    notes = [
        _MEASUREMENT if about.is_measurement else "",
        _REORDERED if about.reorders and losses == "differ" and not about.is_measurement else "",
        f"Not changed: {'; '.join(left[:3])}." if left else "",
        about.caveat,
        busy_note(outcome.runs),
    ]
    return tuple(note for note in notes if note)
