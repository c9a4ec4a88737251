"""What a prediction depends on, measured in a run, or why it is not known."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.input.batch_work import find_batch_work, starts_processes
from stepwhy.analyse.input.overlap import job_cpu_ns
from stepwhy.analyse.run.floors import operations_floor_ns
from stepwhy.analyse.run.usable import unusable
from stepwhy.analyse.steps.cores import (
    background_cores,
    children_cpu_ns_per_step,
    run_delay_share,
    runnable_threads,
    usable_cores,
)
from stepwhy.result.accuracy import PricingInputs
from stepwhy.result.edits import family_of
from stepwhy.result.predictions import Refusal
from stepwhy.result.wording.notes import PROCESSES_BESIDE_OPERATIONS
from stepwhy.result.wording.verdict import why_unknown
from stepwhy.trace import NULL, DeviceKind, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.facts import Facts
    from stepwhy.result.edits import Edit, What

_CATEGORIES: Final[dict[What, str]] = {
    "input": "input_wait",
    "compile": "compile",
    "dispatch": "dispatch",
    "python": "python",
    "storage": "storage",
    "communication": "communication",
    "copies": "transfer",
    "syncs": "sync",
}
"""The category of the breakdown that all of a part of the step is in."""

_BETWEEN_OPERATIONS: Final[tuple[What, ...]] = ("storage", "profiler")
"""Parts that make no operation longer: they add no operations, and no threads beside them."""


def gather(facts: Facts, edits: Sequence[Edit]) -> PricingInputs | Refusal:
    """What the step after some edits depends on.

    Args:
        facts: Facts of the run.
        edits: The edits, made together; at least one.
    """
    reason = _unpriced(facts, edits)
    if reason is not None:
        return reason
    costs = [_cost_ns(facts, edit) for edit in edits]
    if any(cost is None for cost in costs):
        unknown = edits[costs.index(None)]
        return Refusal(
            tuple(edits),
            f"The time of the step that {unknown} is about is not known.",
            "Predict a finding instead, which knows its cost.",
        )
    families = [family_of(edit) for edit in edits]
    # The least certain kind decides the interval.
    family = max(families, key=("removed", "overlapped", "replaced").index)
    steady_ns = facts.observed.steady_span_ns if facts.observed else None
    known = PricingInputs(
        step_ns=facts.wall_ns,
        cost_ns=min(sum(cost or 0 for cost in costs), facts.wall_ns),
        family=family,
        cores=usable_cores(facts.trace),
        cpu_ns=job_cpu_ns(facts),
        run_delay_share=run_delay_share(facts.trace, steady_ns),
        runnable_threads=runnable_threads(facts.trace, steady_ns),
        background_cores=background_cores(facts.trace),
        compute_ns=facts.breakdown["compute"],
        floor_ns=operations_floor_ns(facts),
        on_accelerator=facts.has_accelerator,
        driver_delay_ns=_driver_delay_ns(facts),
        children_cpu_ns=children_cpu_ns_per_step(facts.trace, facts.wall_ns),
        inflates_operations=any(_inflates_operations(facts, edit) for edit in edits),
        removes_operations=all(e.what == "ops" and e.change == "gone" for e in edits),
    )
    return _add_work(facts, edits, known) if "overlapped" in families else known


def _inflates_operations(facts: Facts, edit: Edit) -> bool:
    """Whether a part of the step may make operations longer.

    Compilations in some steps do not: the operations of the others are known without them.
    """
    in_some = edit.what == "compile" and facts.observed and "compile" in facts.observed.stalls_ns
    return not in_some and edit.what not in _BETWEEN_OPERATIONS


def _unpriced(facts: Facts, edits: Sequence[Edit]) -> Refusal | None:
    """Why this run, or one of these edits, has no model; None if it has."""
    why = unusable(facts)
    if why is not None or facts.wall_ns <= 0:
        reason = why_unknown(why) if why is not None else "No step with a duration is recorded."
        return Refusal(tuple(edits), reason)
    for edit in edits:
        if facts.has_accelerator and edit.what != "input":
            return Refusal(
                tuple(edits), f"{edit} on an accelerator needs a graph of what waits for what."
            )
        if edit.what == "profiler":
            return Refusal(
                tuple(edits),
                "Its time is in some long steps, and the step that is described is a usual one.",
                "Measure it with 'stepwhy try'.",
            )
        if starts_processes(facts, edit):
            return Refusal(tuple(edits), *PROCESSES_BESIDE_OPERATIONS)
        if edit.change == "moved" and not _has_device(facts, edit.device):
            return Refusal(
                tuple(edits),
                f"No operation ran on {edit.device}, so its speed is not known.",
                "Measure the fixed program with 'stepwhy compare'.",
            )
    return None


def _has_device(facts: Facts, device: str) -> bool:
    """Whether work of a device of this kind is recorded."""
    on_cpu = "GPU" not in device.upper() and "TPU" not in device.upper()
    return any((a.kind is DeviceKind.CPU) == on_cpu for a in facts.activities)


def _cost_ns(facts: Facts, edit: Edit) -> int | None:
    """The part of the mean step that disappears, moves or is replaced, ns; None if unknown."""
    about = edit.cost_ns
    if about is None and edit.what in {"ops", "kernels"} and edit.pattern:
        # Computing time of the mean step in operations whose name matches, ns.
        rows = facts.slices(Kind.KERNEL, Kind.OP, steady=True)
        self_ns = facts.nesting.self_ns(rows)
        names = facts.trace.slices.name[rows]
        chosen = facts.trace.matches(names, lambda name: fnmatchcase(name, edit.pattern))
        share = float(self_ns[chosen].sum()) / max(float(np.sum(self_ns)), 1.0)
        about = round(share * facts.breakdown["compute"])
    elif about is None and edit.what in _CATEGORIES:
        about = facts.breakdown[_CATEGORIES[edit.what]]
    if about is None or edit.factor is None:
        return about
    return round(about * (1 - 1 / edit.factor))


def _driver_delay_ns(facts: Facts) -> int | None:
    """Mean wait of the driving thread for a core in steady unprofiled steps, ns; None if unknown.

    It is read only in some of the short steps.
    """
    marks, current = facts.trace.marks, facts.regimes.current.rows
    is_plain = marks.profiled[current] == 0
    delays = marks.run_delay_ns[current][is_plain]
    delays = delays[facts.observed.warm_up if facts.observed else 0 :]
    known = delays[delays != NULL]
    return round(float(known.mean())) if len(known) else None


def _add_work(facts: Facts, edits: Sequence[Edit], known: PricingInputs) -> PricingInputs:
    """The inputs, with the work that moves beside the step and who does it."""
    moved = next(edit for edit in edits if family_of(edit) == "overlapped")
    work = find_batch_work(facts) if moved.what == "input" else None
    return replace(
        known,
        work_ns=work.work_ns if work is not None else _cost_ns(facts, moved),
        workers=moved.count or 1,
    )
