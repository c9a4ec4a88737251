"""Price the fixes of findings: what each of them is predicted to gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.analyse.run.host_path import least_step_ns
from stepwhy.base.units import format_fraction, format_ns, quantise, quantise_within
from stepwhy.diagnose import hot_line, rank
from stepwhy.diagnose.shared.rule import SPARED, within_cost
from stepwhy.predict import price
from stepwhy.predict.calibration import OUTSIDE
from stepwhy.result import Prediction, Saving

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.analyse.facts import Facts
    from stepwhy.predict.ranks import Job
    from stepwhy.result import Edit, Finding


_MORE = "It can save more than its cost: what waits for this work then starts earlier, too."
_MORE_BESIDE = (
    "It can save more than its cost: where such fixes were measured, the rest of the step often "
    "became faster, too."
)
_MUCH_MORE = 1.1
_MORE_BY_PART = {
    "dispatch": "It can save more than its cost: the cost counts a long gap as a single launch, "
    "but without launches the whole gap may close.",
    "ops": "It can save more than its cost on the device: the host no longer launches this work.",
    "kernels": "It can save more than its cost on the device: the host launches less work.",
}
_LESS = "It saves less than half of its cost: without it, the step waits for other work."
# Share of the work that a fix removes for certain; up to here it may remove next to nothing.
_UNSURE = 0.2
_PARTLY = "The low end assumes that the fix removes {} of this work."
_MAY_FAIL = "In some programs this fix saved little: try it."
_SHARED = (
    "The steps of all ranks were replayed. The low end shares all work evenly among the {0}s; the "
    "high end removes what {0} {1} has more than the mean."
)
_SAME_INPUT = "It saves less than half of its cost: the step still waits for the same input."


def priced(
    facts: Facts, findings: Iterable[Finding], job: Job | None = None
) -> tuple[Finding, ...]:
    """The findings with predicted savings where their edits can be priced, ranked by these.

    The others keep the bound that their diagnosis states.

    Args:
        facts: Facts of the run.
        findings: What the diagnoses returned.
        job: All ranks of the run, if their steps may be replayed together.
    """
    return rank([_priced(facts, one, job) for one in findings])


def _priced(facts: Facts, finding: Finding, job: Job | None) -> Finding:
    if finding.verdict != "found" or finding.edit is None:
        return _widen(facts, finding)
    try:
        of_job = None if job is None else _job_saving(job, finding.edit)
        if of_job is not None:
            return replace(finding, saving=of_job)
        found = price(facts, (finding.edit,))
        if not isinstance(found, Prediction):
            return _cap_by_host_path(facts, _widen(facts, finding), finding.edit)
        saving = saving_of(found)
        if finding.id == hot_line.RULE.id or any(one.what == SPARED for one in finding.evidence):
            saving = _halve(facts, finding.edit, saving)
    except Exception:  # noqa: BLE001 - a finding without a prediction is better than no report
        return finding
    if found.method == "cpu":
        saving = _with_unsure(saving, finding.edit, found.gain_ns[0])
    if finding.cost_ns_per_step:
        saving = _cap_by_cost(saving, finding.cost_ns_per_step)
    return replace(finding, saving=replace(saving, note=_add_reason(finding, saving)))


def _widen(facts: Facts, finding: Finding) -> Finding:
    """A finding whose bound holds in programs outside of the lab, too, if they run on CPUs."""
    saving, cost_ns = finding.saving, finding.cost_ns_per_step
    if facts.has_accelerator or saving is None or cost_ns is None:
        return finding
    most_ns = (facts.wall_ns + saving.high_ns) // 2 if saving.high_ns > cost_ns else cost_ns
    low_ns = quantise(saving.low_ns / OUTSIDE)
    high_ns = quantise_within(min(saving.high_ns * OUTSIDE, most_ns), most_ns)
    high_ns = max(high_ns, saving.high_ns)
    return replace(finding, saving=replace(saving, low_ns=low_ns, high_ns=high_ns))


def _with_unsure(saving: Saving, edit: Edit, least_ns: int) -> Saving:
    """A saving whose low end allows for the work that takes the place of what the fix removes."""
    if not 0 < edit.sure < 1 or (edit.sure > _UNSURE and edit.what != "compile"):
        return saving
    note = _MAY_FAIL if edit.sure <= _UNSURE else _PARTLY.format(format_fraction(edit.sure))
    low_ns = quantise(round(edit.sure * least_ns))
    return replace(saving, low_ns=low_ns, note=f"{saving.note} {note}".strip())


def _job_saving(job: Job, edit: Edit) -> Saving | None:
    """What a fix gains if the steps of all ranks are replayed; None if they cannot be.

    The work that one stage or rank no longer does is in fact done by the others. So the low end is
    that of sharing all work evenly, and the high end that of removing what is more than the mean.
    """
    found = job.price([edit])
    if not isinstance(found, Prediction):
        return None
    saving = saving_of(found)
    if edit.change != "even" or not edit.pattern:
        return saving
    shared = job.price([replace(edit, pattern="", cost_ns=None)])
    if not isinstance(shared, Prediction):
        return saving
    low_ns = quantise(min(found.gain_ns[0], shared.gain_ns[0]))
    return replace(saving, low_ns=low_ns, note=_SHARED.format(edit.what, edit.pattern))


def _halve(facts: Facts, edit: Edit, gone: Saving) -> Saving:
    """The saving of a line that is gone, from that of one that is half as long."""
    half = price(facts, (replace(edit, cost_ns=(edit.cost_ns or 0) // 2),))
    if not isinstance(half, Prediction):
        return gone
    least = saving_of(half)
    note = (
        f"With half of the line, it should save {_interval(least)}; without it, {_interval(gone)}. "
        "Whether the step needs it, the record does not show."
    )
    return replace(gone, low_ns=least.low_ns, note=f"{note} {gone.note}".strip())


def _interval(saving: Saving) -> str:
    return f"{format_ns(saving.low_ns)} to {format_ns(saving.high_ns)}"


def _cap_by_host_path(facts: Facts, finding: Finding, edit: Edit) -> Finding:
    """A finding whose bound leaves the step the work that the host does meanwhile."""
    most_ns = facts.wall_ns - least_step_ns(facts, (edit,))
    saving = finding.saving
    if saving is None or saving.high_ns <= most_ns:
        return finding
    low, high = (
        quantise_within(min(ns, most_ns), most_ns) for ns in (saving.low_ns, saving.high_ns)
    )
    share = format_fraction(1 - most_ns / facts.wall_ns)
    note = (
        f"{saving.note} The host works for {share} of the step: no more than the rest can be saved."
    )
    return replace(finding, saving=replace(saving, low_ns=low, high_ns=high, note=note.strip()))


def _cap_by_cost(saving: Saving, cost_ns: int) -> Saving:
    """A saving whose low end is at most the cost, the only part of the step measured to be lost."""
    saving = within_cost(saving, cost_ns)
    return replace(saving, low_ns=min(saving.low_ns, quantise_within(cost_ns, cost_ns)))


def _add_reason(finding: Finding, saving: Saving) -> str:
    """The note, and why the saving of replayed steps differs from the cost."""
    cost_ns, edit = finding.cost_ns_per_step, finding.edit
    if cost_ns is not None and saving.method == "cpu" and saving.high_ns > _MUCH_MORE * cost_ns:
        return f"{_MORE_BESIDE} {saving.note}".strip()
    if cost_ns is None or edit is None or saving.method != "replay":
        return saving.note
    parts = [saving.note]
    if saving.high_ns > cost_ns:
        shrinks = edit.what in {"ops", "kernels"} and edit.change not in {"gone", "fused"}
        parts.insert(0, _MORE if shrinks else _MORE_BY_PART.get(edit.what, _MORE))
    if saving.high_ns < cost_ns / 2:
        parts.insert(0, _SAME_INPUT if edit.what == "input" else _LESS)
    if 0 < edit.sure < 1 and edit.what != "input":
        parts.append(_PARTLY.format(format_fraction(edit.sure)))
    return " ".join(parts)


def saving_of(prediction: Prediction) -> Saving:
    """The saving that a prediction states, rounded to avoid false precision.

    Of a saving of most of the step, the rest is rounded: of 340 ms, 335 is not nearly all.
    """
    step_ns = prediction.step_ns
    low, high = (
        quantise(ns) if 2 * ns < step_ns else step_ns - quantise(step_ns - ns)
        for ns in prediction.gain_ns
    )
    return Saving(
        low_ns=low,
        high_ns=high,
        edit=" + ".join(map(str, prediction.edits)),
        method=prediction.method,
        remaining_ns=quantise(prediction.remaining_ns),
        note=" ".join(prediction.notes),
    )
