"""Price edits of a run on an accelerator: replay the graph of its recorded steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.breakdown.closed import ON_DEVICE
from stepwhy.analyse.run.host_path import least_step_ns
from stepwhy.base.units import format_fraction
from stepwhy.predict.calibration import shipped_record
from stepwhy.predict.changes import NothingToChangeError, changed
from stepwhy.predict.gpu_gains import reach
from stepwhy.predict.graph import build_graph
from stepwhy.predict.quality import judge
from stepwhy.predict.replay import delays_in_place, recorded_steps, replayed
from stepwhy.result.predictions import Prediction, Refusal

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.predict.calibration import Record
    from stepwhy.predict.graph import Graph
    from stepwhy.result.edits import Edit

# What survives on the host takes up to this much longer beside workers: 6 to 19 % of the host's
# work on five pairs of ResNet-50 runs, all of which lie within 10 % of the step.
_BESIDE_WORKERS = 0.1
# Of the step: a replay is not exact to less than this, whatever its two ends say.
_LEAST_ERROR = 0.01
# Of the step: what fixes of the device's or the host's work gain more than replays at their best
# show. On an H100, it was 3 to 4 % for casts and FP32 products, and 7 % for attention.
_MORE_GAINED = 0.05


def price_replayed(
    facts: Facts, edits: tuple[Edit, ...], record: Record | None = None
) -> Prediction | Refusal:
    """The step after some edits, by a replay of its recorded dependencies.

    Args:
        facts: Facts of a run with an accelerator.
        edits: The edits, applied together.
        record: Measured fixes that the interval is calibrated with; None for those of the lab.
    """
    if (found := _remove_stalls(facts, edits)) is not None:
        return found
    quality = facts.derived(judge)
    if not quality.qualifies:
        return Refusal(edits, " ".join(quality.reasons))
    graph = facts.derived(build_graph)
    base_ns = recorded_steps(graph).mean_ns(graph.steady)
    try:
        outcomes = [_outcome(facts, graph, edits, base_ns, best=best) for best in (True, False)]
    except NothingToChangeError as error:
        return Refusal(edits, f"{error}.")
    found = _prediction(facts, edits, outcomes, facts.wall_ns / max(base_ns, 1.0))
    return _calibrated(facts, found, shipped_record() if record is None else record)


def _remove_stalls(facts: Facts, edits: tuple[Edit, ...]) -> Prediction | None:
    """The step without what stalls some steps; None for edits of anything else.

    The log times it in all steps. The few profiled ones may hold none of it, or far too much.
    """
    stalls = facts.observed.stalls_ns if facts.observed is not None else {}
    if not edits or any(edit.what not in stalls or edit.change != "gone" for edit in edits):
        return None
    gone_ns = [min(edit.cost_ns or stalls[edit.what], stalls[edit.what]) for edit in edits]
    low_ns = facts.wall_ns - sum(gone_ns)
    high_ns = facts.wall_ns - round(_sure(edits) * sum(gone_ns))
    return Prediction(
        edits=edits,
        step_ns=facts.wall_ns,
        remaining_ns=(low_ns + high_ns) // 2,
        low_ns=low_ns,
        high_ns=high_ns,
        family="device",
        method="replay",
        structural_low_ns=low_ns,
        structural_high_ns=high_ns,
        naive_ns=low_ns,
        notes=(_OF_STALLS,),
    )


class _Outcome(msgspec.Struct, frozen=True):
    """What a replay shows of some edits, on the time scale of the recorded steps.

    Args:
        mean_ns: The mean step.
        slowed_ns: Time per step that kernels may take longer beside other work.
        removed_ns: Device work per step that disappears.
        notes: What was assumed, in sentences.
    """

    mean_ns: float
    slowed_ns: float
    removed_ns: int
    notes: tuple[str, ...]


def _outcome(
    facts: Facts, graph: Graph, edits: tuple[Edit, ...], base_ns: float, *, best: bool
) -> _Outcome:
    """The outcome of edits at their best, or at their least.

    Raises:
        NothingToChangeError: The trace has nothing that an edit is about.
    """
    change = changed(facts, graph, edits, best=best)
    # Device work that the change removes per steady step.
    nodes, work = graph.nodes, slice(graph.nodes.first, None)
    shorter = nodes.duration_ns[work] - change.duration_ns[work]
    steady = graph.steps.in_steady(nodes.start_ns[work])
    removed_ns = round(graph.mean_ns(float(shorter[steady].sum())))
    # At its least, delays stay where they were in the step.
    schedule = change.schedule if change.best else delays_in_place(graph, change.schedule)
    steps = replayed(graph, schedule)
    mean_ns = min(max(steps.mean_ns(graph.steady), change.floor_ns), base_ns)
    return _Outcome(mean_ns, change.slowed_ns, removed_ns, change.notes)


def _prediction(
    facts: Facts, edits: tuple[Edit, ...], outcomes: list[_Outcome], scale: float
) -> Prediction:
    least_ns = least_step_ns(facts, edits)
    remaining = [max(scale * one.mean_ns, least_ns) for one in outcomes]
    low, high = min(remaining), max(remaining)
    low = min(low, max(_without_launches_ns(facts, edits), least_ns))
    low, high = (min(value, facts.wall_ns) for value in (low, high))
    high = facts.wall_ns - _sure(edits) * (facts.wall_ns - high)
    centre = (low + high) / 2
    high += scale * max(one.slowed_ns for one in outcomes)
    if any(edit.change in {"workers", "prefetch"} for edit in edits):
        high = (1 + _BESIDE_WORKERS) * high
        centre = (1 + _BESIDE_WORKERS / 2) * centre
    high, centre = min(high, facts.wall_ns), min(centre, facts.wall_ns)
    error = max(_LEAST_ERROR, facts.derived(judge).median_error or 0.0) * facts.wall_ns
    of_input = all(edit.what == "input" for edit in edits)
    more = 0.0 if of_input else _MORE_GAINED * facts.wall_ns
    return Prediction(
        edits=edits,
        step_ns=facts.wall_ns,
        remaining_ns=round(centre),
        low_ns=round(max(low - max(error, more), least_ns)) if edits else facts.wall_ns,
        high_ns=round(min(high + error, facts.wall_ns)),
        family="device",
        method="replay",
        structural_low_ns=round(low),
        structural_high_ns=round(high),
        naive_ns=_subtracted_ns(facts, edits, outcomes[0].removed_ns),
        notes=_notes(edits, outcomes),
    )


def _calibrated(facts: Facts, found: Prediction, record: Record) -> Prediction:
    """A prediction with the upper end of the gain that was measured on a GPU.

    Launches cannot save the work that the device does.
    """
    if all(edit.what in _NOT_OF_GROUP for edit in found.edits):
        return found
    reached_ns = found.step_ns - round(reach(record.on_gpu) * found.gain_ns[1])
    # Device time per step if no edit touches the device's work, else 0.
    device_work_ns = (
        0
        if any(edit.what not in _OF_HOST for edit in found.edits)
        else sum(facts.breakdown[category] for category in ON_DEVICE)
    )
    ceiling_ns = max(least_step_ns(facts, found.edits), device_work_ns)
    low_ns = min(found.low_ns, max(reached_ns, ceiling_ns))
    return replace(found, low_ns=low_ns, notes=(*found.notes, *_gpu_notes(record)))


def _gpu_notes(record: Record) -> tuple[str, ...]:
    """What the upper end of a gain on a GPU rests on; () if nothing was measured."""
    factor = reach(record.on_gpu)
    if factor == 1:
        return ()
    held = sum(gain.ratio <= factor for gain in record.on_gpu)
    sentence = (
        f"The high end is up to {format_fraction(factor - 1)} above that of the replay: with this "
        f"margin, {held} of {len(record.on_gpu)} gains measured on one H100 are within the range."
    )
    return (sentence,)


_OF_LOADERS = (
    "Predicted by replaying the recorded steps; for two recorded pairs of runs with and without "
    "workers, this was off by 1 to 2 % of the step."
)
_OF_STALLS = (
    "What stalls some steps was timed in all of them: without it, a step takes as long as the "
    "others."
)
_OF_OTHERS = "Predicted by replaying the recorded steps."
# What a loader gains was measured on other machines, and exchanges between GPUs on none.
_NOT_OF_GROUP = frozenset({"input", "communication"})
_OF_HOST = frozenset({"dispatch", "launches", "syncs"})


def _sure(edits: tuple[Edit, ...]) -> float:
    """Share of the gain that is certain, 0..1.

    If a fix removes only a share of its cost, it gains at least this share of what removing all
    gains: the longest of several paths is a convex function of what is on them. How much workers
    gain was measured.
    """
    return min((edit.sure for edit in edits if edit.what != "input"), default=1.0)


def _notes(edits: tuple[Edit, ...], outcomes: list[_Outcome]) -> tuple[str, ...]:
    """How the prediction was made, and what was assumed."""
    own = (note for one in outcomes for note in one.notes)
    of_input = all(edit.what == "input" for edit in edits)
    return tuple(dict.fromkeys([_OF_LOADERS if of_input else _OF_OTHERS, *own]))


def _without_launches_ns(facts: Facts, edits: tuple[Edit, ...]) -> int:
    """The step if the device waits for no launch that edits remove; replays keep their latencies.

    Other launches, as of an optimizer that has a finding of its own, stay.
    """
    costs = [edit.cost_ns for edit in edits if edit.what == "dispatch" and edit.change == "gone"]
    if not costs or None in costs:
        return facts.wall_ns
    on_device = sum(facts.breakdown[category] for category in ON_DEVICE)
    return max(facts.wall_ns - sum(cost or 0 for cost in costs), on_device)


_CATEGORIES = {
    "input": "input_wait", "kernels": "compute", "ops": "compute", "copies": "transfer",
    "launches": "dispatch", "syncs": "sync",
}  # fmt: skip
"""The category of the breakdown that a part of the step has most of its time in."""


def _subtracted_ns(facts: Facts, edits: tuple[Edit, ...], removed_ns: int) -> int:
    """What subtracting from the step would leave, without regard to what else is waited for."""
    left = dict(facts.breakdown)
    for edit in edits:
        category = _CATEGORIES.get(edit.what, edit.what)
        kept = 1 / edit.factor if edit.factor else 0.0
        cost = round(
            (1 - kept) * (facts.breakdown[category] if edit.cost_ns is None else edit.cost_ns)
        )
        if category in {"compute", "transfer", "communication"}:
            cost = removed_ns
        left[category] -= min(cost, left[category])
    return sum(left.values())
