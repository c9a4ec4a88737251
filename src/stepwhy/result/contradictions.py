"""Statements of one result that contradict each other.

A report is made of parts that are computed apart from each other: the breakdown, the step times,
events, findings. Each may be right by its own measure and still contradict another: a check that is
clear beside a table that shows the opposite, or a fix that saves more than its problem costs. The
tests look for such pairs in the results of recorded traces and of random run directories, and
`stepwhy lab grade` in those of the lab.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_fraction, format_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from stepwhy.result.breakdown import Breakdown
    from stepwhy.result.lines import LineBreakdown
    from stepwhy.result.result import Evidence, Finding, Result

# Of the step. A diagnosis does not report less than 0.1, and may leave out a part that others
# report; a fifth of the step is more than that.
_LARGE = 0.2
# Times the shortest usual step. The check calls 1.5 times slow, of slightly other steps.
_ALIKE = 2.0
# Of a step, which profiling adds: more is not little. Two runs of a program may differ by so much.
_LITTLE = 0.2
_WITHOUT_EVIDENCE = "share of the step without evidence"
_UNEQUAL = 0.01  # of the step; rounding stays below
# Of a time; rounding to two digits makes so much.
_ROUNDING = 1.05
# Of the time in which a queue is nearly empty; the check looks at steady steps only.
_STARVED = 0.5
_ENOUGH_SAMPLES = 10
# What remains where one time is subtracted from another, and the difference may not be zero.
_NOTHING_NS = 1
# Words of evidence whose fraction is a change, not a share of something.
_CHANGES = ("relative", "slowdown", "variation")
# Threads that want to run per core, over the whole run; other programs let some wait.
_CROWDED = 3.0

# What a diagnosis says if it finds nothing -> the category of the step that it speaks of.
_CATEGORY_OF = {
    "Batches are ready when the step asks for them": "input_wait",
    "Communication overlaps with computation, or is short": "communication",
    "Copies overlap with computation, or are short": "transfer",
    "Waits for the device do not leave it idle": "sync",
    "The host launches work fast enough": "dispatch",
    "Python of the program takes little of the step": "python",
    "The record accounts for the wall time of the step": "unexplained",
    "No function is compiled again and again": "compile",
}
_STORAGE = ("Saving checkpoints takes little time", "Writing summaries and logs takes little time")


def contradictions(result: Result) -> list[str]:
    """Sentences on the statements of a result that contradict each other; empty for none.

    Args:
        result: The result of one run.
    """
    return [
        *_in_times(result),
        *(text for finding in result.findings for text in _in_finding(finding, result)),
        *(
            f"{finding.id} says '{finding.title}', but {other}."
            for finding in result.findings
            if finding.verdict == "clear"
            for other in _against(finding.title, result)
        ),
        *_together_clear(result),
    ]


def _in_times(result: Result) -> Iterator[str]:
    """Times of the step that do not fit each other."""
    breakdown, steps = result.breakdown, result.steps
    if sum(breakdown.categories.values()) != breakdown.wall_ns:
        yield "The categories do not sum to the step."
    if any(ns < 0 for ns in breakdown.categories.values()):
        yield "A category of the step is negative."
    if result.lines is not None:
        yield from _in_lines(result.lines, breakdown)
    clock = result.wall_clock
    if clock is not None and clock.busy_ns is not None:
        parts_ns = clock.busy_ns + sum(part.ns for part in clock.gap)
        if parts_ns != clock.wall_ns:
            yield f"The wall clock shows {format_ns(clock.wall_ns)}, its parts sum to another time."
    if (breakdown.core_wait_ns or 0) > breakdown.wall_ns:
        yield "The step waits for a core for longer than it takes."
    if not steps.p10_ns <= steps.median_ns <= steps.p90_ns:
        yield "The percentiles of the step time are not in order."
    for device in result.devices:
        if not 0 <= device.busy_fraction <= 1:
            yield f"{device.name} is busy for {device.busy_fraction:.0%} of the step."
        if not device.compute_ns <= device.busy_ns:
            yield f"{device.name} computes for longer than it is busy."
    use = result.parallel
    if use is not None and max(use.efficiency, use.communication_efficiency) > 1:
        yield "Devices together compute for longer than the step takes."
    for one in result.inputs:
        dropped = sum(entry.count for entry in one.health if entry.dropped)
        if one.events_read != one.events_kept + dropped:
            yield f"{one.path}: the records that were read are not those kept and dropped."


def _in_lines(lines: LineBreakdown, breakdown: Breakdown) -> Iterator[str]:
    """Times of lines that do not fit the breakdown by category."""
    for category, time_ns in breakdown.categories.items():
        if sum(line.categories.get(category, 0) for line in lines.lines) != time_ns:
            yield f"The lines do not sum to the {category} of the step."
    if any(sum(line.categories.values()) != line.time_ns for line in lines.lines):
        yield "The categories of a line do not sum to its time."
    if any(sum(line.phases.values()) > line.time_ns for line in lines.lines):
        yield "A line computes for longer than it takes."
    for line in lines.lines:
        if line.modules and sum(one.time_ns for one in line.modules) != line.time_ns:
            yield "The modules of a line do not sum to its time."


def _in_finding(finding: Finding, result: Result) -> Iterator[str]:
    """What contradicts itself, or the step, within one finding."""
    wall_ns, cost_ns, saving = result.breakdown.wall_ns, finding.cost_ns_per_step, finding.saving
    if cost_ns is not None and cost_ns > wall_ns:
        yield f"{finding.id} costs {format_ns(cost_ns)} of a step of {format_ns(wall_ns)}."
    if saving is not None and not 0 <= saving.low_ns <= saving.high_ns:
        yield f"{finding.id} saves {saving.low_ns} to {saving.high_ns} ns."
    if saving is not None and cost_ns is not None:
        if saving.low_ns > cost_ns:
            yield f"{finding.id} saves at least {format_ns(saving.low_ns)}, but costs less."
        if saving.high_ns > _ROUNDING * cost_ns and not saving.note:
            yield f"{finding.id} can save more than it costs, and does not say why."
        if saving.high_ns > _ROUNDING * wall_ns:
            yield f"{finding.id} can save more than the whole step."
    known = {other.id for other in result.findings if other.verdict == "found"}
    if finding.explained_by and finding.explained_by not in known:
        yield f"{finding.id} is explained by {finding.explained_by}, which was not found."
    yield from _in_evidence(finding.id, finding.evidence, result)


def _in_evidence(name: str, evidence: Iterable[Evidence], result: Result) -> Iterator[str]:
    for fact in evidence:
        is_share = fact.unit == "fraction" and not any(word in fact.what for word in _CHANGES)
        if is_share and not isinstance(fact.value, str) and not 0 <= fact.value <= 1:
            yield f"{name}: {fact.what} is {format_fraction(fact.value)}."
        if fact.unit == "ns" and not isinstance(fact.value, str) and 0 < fact.value <= _NOTHING_NS:
            yield f"{name}: {fact.what} is {format_ns(round(fact.value))}."
        if fact.what == _WITHOUT_EVIDENCE and not isinstance(fact.value, str):
            unexplained_ns = result.breakdown.categories.get("unexplained", 0)
            share = unexplained_ns / max(result.breakdown.wall_ns, 1)
            if abs(fact.value - share) > _UNEQUAL:
                yield (
                    f"{name}: {fact.what} is {format_fraction(fact.value)}, but the breakdown "
                    f"leaves {format_fraction(share)} unexplained."
                )
        if fact.value == "unknown from the trace of one rank" and result.run.ranks > 1:
            yield f"{name}: {fact.what} is {fact.value}, but {result.run.ranks} ranks were read."


def _against(title: str, result: Result) -> Iterator[str]:
    """What contradicts the title of a check that found nothing, as clauses."""
    wall_ns = max(result.breakdown.wall_ns, 1)
    category = _CATEGORY_OF.get(title)
    if category is not None:
        share = result.breakdown.categories.get(category, 0) / wall_ns
        if share >= _LARGE:
            yield f"{category} is {format_fraction(share)} of the step"
    if title in _OTHERS:
        yield from _OTHERS[title](result)


def _unequal_steps(result: Result) -> Iterator[str]:
    steps = result.steps
    if steps.source != "whole-trace" and steps.p90_ns > _ALIKE * max(steps.p10_ns, 1):
        yield f"a tenth is below {format_ns(steps.p10_ns)}, a tenth above {format_ns(steps.p90_ns)}"


def _perturbed(result: Result) -> Iterator[str]:
    cost, interval = result.steps.profiler_cost, result.steps.profiler_cost_interval
    if cost is not None and cost > _LITTLE:
        yield f"it adds {format_fraction(cost)}"
    elif interval is not None and interval[0] <= 0 and interval[1] > _LITTLE:
        yield f"it may add up to {format_fraction(interval[1])}"


def _starved(result: Result) -> Iterator[str]:
    for one in result.pipelines:
        if one.kind != "tf1-queue" or one.samples < _ENOUGH_SAMPLES:
            continue
        if one.empty_share is not None and one.empty_share >= _STARVED:
            yield f"{one.name} is empty in {format_fraction(one.empty_share)} of the time"


def _collecting(result: Result) -> Iterator[str]:
    # Before the first step, and in a few steps, collections do not count.
    often = [e for e in result.events if e.steps_affected >= _LARGE * max(result.steps.count, 1)]
    spent = sum(event.total_ns for event in often if event.kind == "gc")
    if spent >= _LARGE * max(sum(result.steps.durations_ns), 1):
        yield f"collections take {format_ns(spent)} of the steps"


def _crowded(result: Result) -> Iterator[str]:
    host = result.host
    if host is None or host.runnable_threads is None or not host.cores:
        return
    if host.runnable_threads > _CROWDED * host.cores:
        yield f"{host.runnable_threads:.1f} threads want to run on {host.cores} cores"


def _moved(result: Result) -> Iterator[str]:
    operations = result.placement.ops if result.placement is not None else ()
    moved = sum(op.placed in {"moved", "overruled"} for op in operations)
    if moved:
        yield f"the placement lists {moved} operations that run elsewhere"


_OTHERS: dict[str, Callable[[Result], Iterator[str]]] = {
    "The steps are of similar length": _unequal_steps,
    "Profiling changes the steps little": _perturbed,
    "The queues have elements when the step asks for them": _starved,
    "Garbage collection takes little time": _collecting,
    "The program does not use more threads than there are cores": _crowded,
    "Operations run on the requested devices": _moved,
}


def _together_clear(result: Result) -> Iterator[str]:
    """Checks that are clear one by one, although the category that all are about is large."""
    clear = {finding.title for finding in result.findings if finding.verdict == "clear"}
    share = result.breakdown.categories.get("storage", 0) / max(result.breakdown.wall_ns, 1)
    if share >= _LARGE and clear.issuperset(_STORAGE):
        yield f"Neither saving nor logging takes long, but storage is {format_fraction(share)}."
