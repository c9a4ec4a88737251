"""The steps of a result: their times, how they were found, and lasting changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.run.single_run import is_single
from stepwhy.analyse.steps.cores import sampling_cores
from stepwhy.analyse.steps.overhead import added_share, is_untypical
from stepwhy.result import Steps, Stretch, Traced
from stepwhy.result.reasons import Cut, LongSteps, Perturbed, RanAhead, Unprofiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.result.reasons import StepNote
    from stepwhy.trace import Trace

# Share of the time of the steady steps; below it, the described step represents them well.
_MUCH_HIDDEN = 0.2


def summarise_steps(facts: Facts) -> Steps:
    """Summary of the unprofiled steps if observed, else of the steps of the trace; no note."""
    table, observed = facts.steps, facts.observed
    if observed is not None:
        return _observed_steps(facts, observed)
    durations = table.durations_ns
    p10, median, p90 = _deciles(durations[table.steady])
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
        durations_ns=tuple(durations.tolist()),
    )


def _deciles(durations_ns: NDArray[np.int64]) -> list[int]:
    """First, fifth and ninth decile, interpolated, ns.

    Like `np.percentile`, whose first call imports NumPy's masked arrays (0.02 s of CPU time).

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
    """Summary of all logged steps; percentiles are those of the described stretch."""
    marks, cost = facts.trace.marks, observed.observer_cost
    durations = marks.dur_ns[marks.profiled == 0]
    known_ns = None if cost is None else cost.cost_ns
    share = (
        None
        if known_ns is None
        else added_share(marks.dur_ns, marks.profiled, marks.light, known_ns)
    )
    p10, median, p90 = _deciles(observed.durations_ns[observed.warm_up :])
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
        durations_ns=tuple(durations.tolist()),
        profiler_cost=observed.profiler_cost,
        profiler_cost_interval=observed.profiler_cost_interval,
        observer_cost_ns=None if cost is None else cost.cost_ns,
        observer_cost_interval_ns=None if cost is None else cost.interval_ns,
        observer_cost_missing_steps=None if cost is None else cost.missing_steps,
        observer_share=share,
        sampling_cores=sampling_cores(facts.trace),
        stretches=stretches(facts),
        traced=_traced(facts.trace),
    )


def step_notes(facts: Facts) -> tuple[StepNote, ...]:
    """What the reader should know about how the steps were found, cut, timed and traced."""
    return (*_timing(facts), *_perturbed(facts.observed))


def _perturbed(observed: Observed | None) -> tuple[Perturbed, ...]:
    """That tracing made the traced steps much longer, if it did."""
    if observed is None or not is_untypical(
        observed.profiler_cost, observed.profiler_cost_interval
    ):
        return ()
    return (Perturbed(1 + (observed.profiler_cost or 0.0)),)


def _timing(facts: Facts) -> tuple[StepNote, ...]:
    """How the steps were found, cut and timed."""
    observed = facts.observed
    if observed is None:
        return facts.steps.notes
    if not len(facts.trace.slices):
        return (Cut.NOT_TRACED,)
    if is_single(facts):
        return (Cut.ONE_RUN,)
    if observed.ahead is not None:
        ahead = RanAhead(
            facts.steady_count,
            observed.wall_ns,
            with_profiled=observed.ahead.with_profiled,
            at_least=observed.ahead.at_least,
        )
        return (ahead, *_long_steps(observed))
    if observed.stalls_ns:
        return (
            Unprofiled(facts.steady_count, with_stalls_ns=observed.wall_ns),
            *_long_steps(observed),
        )
    uneven_ns = observed.wall_ns if observed.uneven else None
    return (Unprofiled(facts.steady_count, uneven_ns), *_long_steps(observed))


def _long_steps(observed: Observed) -> tuple[LongSteps, ...]:
    """The time of long steps that the described step does not show, if that is much."""
    each_ns, ahead = observed.durations_ns[observed.warm_up :], observed.ahead
    steps_ns = each_ns if ahead is None else ahead.rounds_ns
    mean_ns = float(steps_ns.mean())
    share = 1 - observed.wall_ns / mean_ns if mean_ns else 0.0
    return (LongSteps(round(mean_ns), share),) if share >= _MUCH_HIDDEN else ()


def stretches(facts: Facts) -> tuple[Stretch, ...]:
    """The stretches of a run between lasting changes of the step time, in order."""
    regimes = facts.regimes
    return tuple(
        Stretch(
            first_step=regime.first + 1,
            last_step=regime.end,
            median_ns=regime.median_ns,
            total_ns=regime.total_ns,
            traced_steps=regime.traced,
            described=index == regimes.described,
            contention=regime.contention,
        )
        for index, regime in enumerate(regimes.all)
    )


def _traced(trace: Trace) -> tuple[Traced, ...]:
    """The groups of consecutive profiled steps of the log."""
    profiled = trace.marks.profiled == 1
    before = np.cumsum(~profiled)[profiled]
    places, counts = np.unique(before, return_counts=True)
    return tuple(Traced(b, n) for b, n in zip(places.tolist(), counts.tolist(), strict=True))


def steady_span(facts: Facts) -> tuple[int, int] | None:
    """Start of the first observed steady step and end of the last one, ns; None without any."""
    return None if facts.observed is None else facts.observed.steady_span_ns
