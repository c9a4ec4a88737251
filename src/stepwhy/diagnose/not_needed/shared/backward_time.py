"""What a part of the backward pass costs the step: host time, and the device work it launches."""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.intervals import Intervals, Measure
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.shared.measure import idle, on_scale, time_of
from stepwhy.trace import Phase


def launched_within(facts: Facts, host: Intervals) -> AnyRows:
    """Device slices that the backward pass launches in some time; (slices,)."""
    work, calls = facts.launches.joined
    starts = facts.trace.slices.start_ns[calls]
    inside = Measure(host).within(starts, starts + 1) > 0
    found: AnyRows = work[inside & (facts.phases[calls] == Phase.BACKWARD)]
    return found


def cost_per_step_ns(facts: Facts, host: Intervals, work: AnyRows, steps: int) -> int:
    """Time of the mean step that some work of backward passes takes, ns.

    On an accelerator, that is the time of its device work, and of the host where devices wait for
    it; on a CPU, the time of the host.

    Args:
        facts: Facts of the run.
        host: When the host runs it, in the steps that count.
        work: Device slices that it launches, in these steps; (slices,).
        steps: Number of these steps.
    """
    if not facts.has_accelerator:
        return on_scale(facts, round(host.total_ns / max(steps, 1)))
    sets = facts.partition.sets
    waiting = host & (sets["dispatch"] | sets["python"]) & idle(facts)
    launching, computing = (
        round(time.total_ns / max(steps, 1)) for time in (waiting, time_of(facts, work))
    )
    cost = on_scale(facts, launching, "dispatch", "python") + on_scale(facts, computing, "compute")
    return min(cost, facts.wall_ns)
