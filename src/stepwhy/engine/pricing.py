"""Price the fixes of findings: what each of them is predicted to gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.diagnoses import rank
from stepwhy.diagnoses.shared.rule import within_cost
from stepwhy.findings import Prediction, Saving
from stepwhy.units import format_fraction, quantise
from stepwhy.whatif import price

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts


_MORE = "More than the cost, because other work would then overlap."
_LESS = "Less than half of the cost, because the step would then wait for other work."


def priced(facts: Facts, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with predicted savings where their edits can be priced, ranked by these.

    The others keep the bound that their diagnosis states.

    Args:
        facts: Facts of the run.
        findings: What the diagnoses returned.
    """
    return rank([_priced(facts, one) for one in findings])


def _priced(facts: Facts, finding: Finding) -> Finding:
    if finding.verdict != "found" or finding.edit is None:
        return finding
    try:
        found = price(facts, (finding.edit,))
    except Exception:  # noqa: BLE001 - a finding without a prediction is better than no report
        return finding
    if not isinstance(found, Prediction):
        return finding
    saving = saving_of(found)
    if finding.cost_ns_per_step:
        saving = within_cost(saving, finding.cost_ns_per_step)
    return replace(finding, saving=replace(saving, note=_with_reason(finding, saving)))


def _with_reason(finding: Finding, saving: Saving) -> str:
    """The note, and why the saving of replayed steps differs from the cost."""
    cost_ns, edit = finding.cost_ns_per_step, finding.edit
    if cost_ns is None or edit is None or saving.method != "replay":
        return saving.note
    parts = [saving.note]
    if saving.low_ns > cost_ns:
        parts.insert(0, _MORE)
    if saving.high_ns < cost_ns / 2:
        parts.insert(0, _LESS)
    if 0 < edit.sure < 1 and edit.what != "input":
        parts.append(f"Low end: the fix removes {format_fraction(edit.sure)} of the cost.")
    return " ".join(parts)


def saving_of(prediction: Prediction) -> Saving:
    """The saving that a prediction states, rounded to avoid false precision."""
    low, high = prediction.gain_ns
    return Saving(
        low_ns=quantise(low),
        high_ns=quantise(high),
        edit=" + ".join(map(str, prediction.edits)),
        method=prediction.method,
        remaining_ns=quantise(prediction.remaining_ns),
        note=" ".join(prediction.notes),
    )


__all__ = ["priced", "saving_of"]
