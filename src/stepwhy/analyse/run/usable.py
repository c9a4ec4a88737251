"""Decide whether a record can show where the time of a step goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.run.single_run import lone_runs
from stepwhy.result.reasons import Gap, Lack, Limited, NotTraced
from stepwhy.trace.health import CUT_OFF, KERNELS_MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.analyse.facts import Facts
    from stepwhy.result.reasons import Unknown

# If start-up takes more than this share of the record, the record shows start-up.
MOSTLY_START_UP = 0.5
# With this many steady steps, the record shows training, even if start-up took longer. Marked steps
# are certain, so fewer of them suffice than of those that are inferred from what repeats.
ENOUGH_STEADY = 20
ENOUGH_MARKED = 3
# Share of the device work that may be missing. Idle time of the device is overstated by at most
# about as much, which is no more than the smallest cause that a verdict names. From there on, what
# seems to be idle time may be the work that is missing. Intact recorded traces lack 0.5 % at most.
MOST_MISSING_WORK = 0.1


def unusable(facts: Facts) -> Unknown | None:
    """Why the record cannot show where the time of a step goes, or None if it can."""
    return next(_reasons(facts), None)


def shows_steady_steps(facts: Facts) -> bool:
    """Whether the record shows enough steady steps, even if start-up took longer."""
    enough = ENOUGH_MARKED if facts.steps.source == "marker" else ENOUGH_STEADY
    return facts.steady_count >= enough


def _reasons(facts: Facts) -> Iterator[Unknown]:
    """All reasons, the one to report first."""
    trace, meta = facts.trace, facts.trace.meta
    if meta.limit and not len(trace.slices) and len(trace.collective_calls):
        yield Limited(meta.limit)
    if (lack := _empty(facts)) is not None:
        yield lack
    if meta.limit:
        yield Limited(meta.limit)
    if meta.device_expected and not facts.has_accelerator:
        if trace.health.has(KERNELS_MISSING):
            yield Gap(Lack.KERNELS)
        is_cut = any(map(trace.health.has, CUT_OFF))
        unused = Lack.DEVICE_USE if meta.idle_accelerator else Lack.DEVICE_ACTIVITY
        yield Gap(Lack.DEVICE_ACTIVITY_CUT_OFF if is_cut else unused)
    if trace.health.has("device-without-kernels"):
        yield Gap(Lack.KERNELS_OF_A_DEVICE)
    if facts.has_accelerator and facts.missing_work.share >= MOST_MISSING_WORK:
        yield Gap(Lack.DEVICE_WORK, facts.missing_work.share)
    if facts.has_accelerator and not facts.leading:
        count = facts.merged_processes
        yield Gap(Lack.DEVICE_OWNERS, count if count > 1 else None)
    if facts.clocks_disagree:
        yield Gap(Lack.COMMON_CLOCK)


def _empty(facts: Facts) -> Unknown | None:
    """The gap to report if nothing was recorded that takes time, else None."""
    trace = facts.trace
    if len(trace.slices):
        return None if facts.wall_ns else Gap(Lack.EVENTS)
    if facts.observed is not None:
        return _untraced(facts)
    if len(trace.levels):
        return Gap(Lack.CONTENT_BESIDE_QUEUES)
    return Gap(Lack.CONTENT_BESIDE_MEMORY if len(trace.allocations) else Lack.EVENTS)


def _untraced(facts: Facts) -> Unknown | None:
    """The gap to report if steps were timed, but not traced; None if the log explains them."""
    meta = facts.trace.meta
    if "summaries" in meta.signals:
        return Gap(Lack.STEP_CONTENT)
    if not meta.framework:
        return Gap(Lack.FRAMEWORK)
    if max(facts.share("compile"), facts.share("storage")) > MOSTLY_START_UP:
        return None  # the log shows it, with the events in each step
    if meta.untraced:
        return NotTraced(
            int((facts.trace.marks.profiled == 0).sum()),  # as many as the steps that are shown
            meta.untraced,
            meta.untraced_advice,
            "run" if lone_runs(facts) else "step",
        )
    return Gap(Lack.TRACED_STEPS)
