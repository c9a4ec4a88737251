"""What the result says about the steps: how long, how observed, and how they changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.findings import Steps, Stretch, Traced
from stepwhy.units import format_count, format_ns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts
    from stepwhy.passes.observed import Observed
    from stepwhy.trace import Trace


def summarise_steps(facts: Facts) -> Steps:
    """Unprofiled steps where they were observed, else the steps of the trace."""
    table, observed = facts.steps, facts.observed
    if observed is not None:
        return _observed_steps(facts, observed)
    durations = table.durations_ns
    p10, median, p90 = _deciles(durations)
    return Steps(
        count=len(durations),
        source=table.source,
        confidence=round(table.confidence, 2),
        median_ns=median,
        p10_ns=p10,
        p90_ns=p90,
        steady=len(durations) - table.warm_up,
        warm_up=table.warm_up,
        device_side=table.device_side,
        note=table.note,
        durations_ns=tuple(durations.tolist()),
    )


def _deciles(durations_ns: NDArray[np.int64]) -> list[int]:
    """First, fifth and ninth decile, interpolated, ns.

    As `np.percentile`, whose first call imports NumPy's masked arrays (0.02 s of CPU time).

    Args:
        durations_ns: At least one duration; (steps,).
    """
    ordered = np.sort(durations_ns).tolist()
    found = []
    for share in (0.1, 0.5, 0.9):
        place = share * (len(ordered) - 1)
        low = int(place)
        part, start = place - low, ordered[low]
        rise = ordered[min(low + 1, len(ordered) - 1)] - start
        found.append(round(start + rise * part if part < 0.5 else start + rise - rise * (1 - part)))
    return found


def _observed_steps(facts: Facts, observed: Observed) -> Steps:
    """All steps of the log; their usual length is that of the described stretch."""
    marks, cost = facts.trace.marks, observed.observer_cost
    durations = marks.dur_ns[marks.profiled == 0]
    p10, median, p90 = _deciles(observed.durations_ns)
    return Steps(
        count=len(durations),
        source="hook",
        confidence=1.0,
        median_ns=median,
        p10_ns=p10,
        p90_ns=p90,
        steady=len(observed.durations_ns) - observed.warm_up,
        warm_up=observed.warm_up,
        device_side=facts.steps.device_side,
        note=_observed_note(facts),
        durations_ns=tuple(durations.tolist()),
        profiler_cost=observed.profiler_cost,
        profiler_cost_interval=observed.profiler_cost_interval,
        observer_cost_ns=None if cost is None else cost.cost_ns,
        observer_cost_interval_ns=None if cost is None else cost.interval_ns,
        observer_cost_missing_steps=None if cost is None else cost.missing_steps,
        stretches=_stretches(facts),
        traced=_traced(facts.trace),
    )


def _observed_note(facts: Facts) -> str:
    if not len(facts.trace.slices):
        return "Steps were timed, but none was traced, so there is no breakdown."
    return (
        f"Step times come from unprofiled steps, the breakdown from {facts.steady_count} profiled "
        f"ones.{_uneven_note(facts)}"
    )


def _uneven_note(facts: Facts) -> str:
    """Which time stands for the step where it is not the median."""
    observed = facts.observed
    if observed is None or not observed.uneven:
        return ""
    mean = format_ns(observed.wall_ns)
    return (
        " The host runs ahead and waits for the device only in some steps, so the mean is used "
        f"as the step time: {mean}."
    )


def _stretches(facts: Facts) -> tuple[Stretch, ...]:
    regimes = facts.regimes
    return tuple(
        Stretch(
            first_step=regime.first + 1,
            last_step=regime.end,
            median_ns=regime.median_ns,
            total_ns=regime.total_ns,
            traced_steps=regime.traced,
            described=index == regimes.described,
        )
        for index, regime in enumerate(regimes.all)
    )


def _traced(trace: Trace) -> tuple[Traced, ...]:
    """Consecutive profiled steps of the log."""
    profiled = trace.marks.profiled == 1
    before = np.cumsum(~profiled)[profiled]
    places, counts = np.unique(before, return_counts=True)
    return tuple(Traced(b, n) for b, n in zip(places.tolist(), counts.tolist(), strict=True))


def steady_span(facts: Facts) -> tuple[int, int] | None:
    """From the start of the first steady step that was observed to the end of the last one."""
    return None if facts.observed is None else facts.observed.steady_span_ns


def note_of_changes(facts: Facts) -> tuple[str, ...]:
    """One sentence about lasting changes of the step time, none where there was none."""
    parts = [(r, r.median_ns) for r in facts.regimes.all if r.median_ns is not None]
    if len(parts) < 2:
        return ()
    described = facts.regimes.current
    if len(parts) == 2:
        (before, old), (after, new) = parts
        went = "rose" if new > old else "fell"
        side = "before" if described is before else "after"
        change = f"After step {format_count(after.first)} the step time {went}"
        span = f"from {format_ns(old)} to {format_ns(new)}; this report covers the steps {side} it"
        return (f"{change} {span}.",)
    times = ", ".join(format_ns(median) for _, median in parts)
    steps = ", ".join(format_count(r.first) for r, _ in parts[1:])
    span = f"{format_count(described.first + 1)} to {format_count(described.end)}"
    change = f"The step time changed for good after steps {steps} ({times})"
    return (f"{change}; this report covers steps {span}.",)
