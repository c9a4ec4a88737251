"""Add a measured fix to the user's ledger, from which later predictions learn."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from stepwhy.base.errors import StepwhyError
from stepwhy.engine.whatif import predict
from stepwhy.predict import ledger

if TYPE_CHECKING:
    from stepwhy.result import Finding, Prediction, Trial

# Half-width of the interval of the measured step, relative to the step. Noisier results would
# widen all later intervals.
_MOST_NOISE = 0.05


def remember(result: Trial, finding: Finding | None, path: str, name: str) -> None:
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
            ledger.append(ledger.entry_of(name, found[0], _measured_ns(result, found[0]), _today()))
    except (StepwhyError, OSError):
        return


def _is_precise(result: Trial) -> bool:
    """Whether a trial is precise enough, and its fix did what the prediction is about."""
    if result.low_ns is None or result.high_ns is None or not result.step_ns:
        return False
    is_other = result.fix is None or result.fix.is_measurement
    return not is_other and (result.high_ns - result.low_ns) / 2 <= _MOST_NOISE * result.step_ns


def _measured_ns(result: Trial, prediction: Prediction) -> int:
    """The step with the fix, on the scale of the predicted run."""
    share = (result.fixed_ns or 0) / (result.step_ns or 1)
    return round(prediction.step_ns * share)


def _today() -> str:
    return datetime.now().astimezone().date().isoformat()
