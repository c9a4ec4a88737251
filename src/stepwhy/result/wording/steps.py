"""How steps were found, cut and timed, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_count, format_fraction, format_ns
from stepwhy.result.reasons import (
    BetweenMarkers,
    Cut,
    LongSteps,
    Perturbed,
    RanAhead,
    Repeats,
    Unprofiled,
)
from stepwhy.result.wording.names import shown_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import Stretch
    from stepwhy.result.reasons import StepNote

_CUTS = {
    Cut.BY_OPTIMIZER: "Steps are inferred from the calls of the optimizer.",
    Cut.BY_BATCHES: "Steps are inferred from the fetches of batches.",
    Cut.BY_PASSES: "Steps are inferred from the backward passes.",
    Cut.TRACED_RUNS: "Each step is one traced run of the graph; runs between them were not traced.",
    Cut.ONE_RUN: "The trace holds one run of the graph.",
    Cut.WHOLE_TRACE: "No step marker, and nothing repeats as steps do: the whole trace is treated "
    "as one step.",
    Cut.DEVICE_WORK_ONLY: "Time before the first and after the last recorded device work is left "
    "out.",
    Cut.WITHOUT_PROFILERS_WAITS: "Waits for an accelerator without work, before the first and "
    "after the last operation, are left out: the profiler makes them.",
    Cut.NOTHING_RECORDED: "Nothing was recorded.",
    Cut.AT_DEVICE_ENDS: "Steps are cut where their device work ends: the launches run ahead of the "
    "device.",
    Cut.FIRST_STEPS_LOST: "The profiler lost the device work of the first steps, so they are left "
    "out.",
    Cut.LAST_STEPS_LOST: "The profile ends before the device work of the last steps, so they are "
    "left out.",
    Cut.DEVICE_BEHIND: "The device runs earlier work during nearly all of a step, so steps are cut "
    "where the host marks them; what the device does for them is not known well.",
    Cut.DEVICE_ENDS_LOST: "The profile ends before the device work of the steps, so they are cut "
    "where the host launches them.",
    Cut.NOT_TRACED: "Steps were timed, but none was traced, so there is no breakdown.",
}


def steps_note(notes: Sequence[StepNote]) -> str:
    """Sentences on how the steps were found, cut and timed; '' without notes."""
    return " ".join(map(_sentence, notes))


def _sentence(note: StepNote) -> str:
    match note:
        case Cut():
            return _CUTS[note]
        case Repeats(count, name):
            return f"Steps are inferred from '{shown_name(name)}', which repeats {count} times."
        case BetweenMarkers(share):
            return (
                f"The step markers leave out {format_fraction(share)} of the time from the first "
                "step to the last: what happens there is in no step."
            )
        case LongSteps(mean_ns, share):
            return (
                f"Some steps take much longer: the mean is {format_ns(mean_ns)}, so "
                f"{format_fraction(share)} of the time of all steps is not in this report."
            )
        case Perturbed(times):
            return (
                f"Traced steps took {times:.1f} times as long as the others. The step time and the "
                "waits for input were measured without tracing: use these to judge a change. The "
                "other categories overstate short operations."
            )
        case Unprofiled(profiled, None, None):
            return (
                f"Step times come from unprofiled steps, the breakdown from {profiled} profiled "
                "ones."
            )
        case Unprofiled(profiled, None, with_stalls_ns):
            return (
                f"{_sentence(Unprofiled(profiled))} Some steps also compile, save, begin an "
                "epoch, start workers or collect garbage. The step time is that of the other "
                f"steps, plus the mean cost of this work: {format_ns(with_stalls_ns or 0)}."
            )
        case Unprofiled(profiled, mean_ns):
            return (
                f"{_sentence(Unprofiled(profiled))} Only some steps wait, for the device or for "
                f"batches, so the mean is used as the step time: {format_ns(mean_ns or 0)}."
            )
        case RanAhead():
            return _ran_ahead(note)


def _ran_ahead(note: RanAhead) -> str:
    """How the step time follows from a host that runs ahead of the device."""
    step = format_ns(note.mean_ns)
    breakdown = f"The breakdown comes from {note.profiled} profiled steps."
    if note.at_least:
        return (
            f"{breakdown} The host runs ahead of the device, which was still at work when the last "
            f"step was launched: a step takes at least {step}, and maybe longer."
        )
    including = "profiled ones included, " if note.with_profiled else ""
    return (
        f"{breakdown} The host runs ahead of the device, so the step time is the mean over all "
        f"steps, {including}from one time at which the device had caught up to the next: {step}."
    )


# Share of the runnable time; the wait for cores of a quiet machine varies by a third of it.
_CALMER = 0.15


def change_note(stretches: Sequence[Stretch]) -> str:
    """Sentences on the lasting changes of the step time; '' if there was none.

    Args:
        stretches: The stretches of a run between such changes, in order.
    """
    return f"{_change(stretches)}{_less_contended(stretches)}"


def _less_contended(stretches: Sequence[Stretch]) -> str:
    """That other programs slowed the described stretch down less, if they did; else ''."""
    calm = next((s.contention for s in stretches if s.described), None)
    busy = max((s.contention or 0.0 for s in stretches), default=0.0)
    if calm is None or busy - calm < _CALMER:
        return ""
    return (
        " Other programs slowed these steps down least: the process waited for a CPU core for "
        f"{format_fraction(calm)} of its runnable time, and for up to {format_fraction(busy)} in "
        "the other steps."
    )


def _traced(before: Stretch, after: Stretch) -> str:
    """How many steps were traced on both sides of a change; '' if none were on one of them."""
    if not (before.traced_steps and after.traced_steps):
        return ""
    counts = format_count(before.traced_steps), format_count(after.traced_steps)
    return f" {counts[0]} steps before the change and {counts[1]} after it were traced."


def _change(stretches: Sequence[Stretch]) -> str:
    """When the step time changed, and which steps are described."""
    timed = [s for s in stretches if s.median_ns is not None]
    if len(timed) < 2:
        return ""
    times = [format_ns(s.median_ns or 0) for s in timed]
    changes = [format_count(s.first_step - 1) for s in timed[1:]]
    described = next(s for s in stretches if s.described)
    if len(timed) == 2:
        before, after = timed
        went = "rose" if (after.median_ns or 0) > (before.median_ns or 0) else "fell"
        side = "before" if described is before else "after"
        return (
            f"After step {changes[0]} the step time {went} from {times[0]} to {times[1]}; this "
            f"report covers the steps {side} it.{_traced(before, after)}"
        )
    first, last = format_count(described.first_step), format_count(described.last_step)
    return (
        f"The step time changed for good after steps {', '.join(changes)} ({', '.join(times)}); "
        f"this report covers steps {first} to {last}."
    )
