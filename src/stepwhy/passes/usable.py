"""Whether a record can show where the time of a step goes at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.units import format_count

if TYPE_CHECKING:
    from stepwhy.passes.facts import Facts

# Start-up that takes more than this share of what was recorded is what the record is about.
MOSTLY_START_UP = 0.5
# So many steady steps are what the record is about, even if the first ones took longer than all.
ENOUGH_STEADY = 20


def unusable(facts: Facts) -> str:
    """Why the record cannot show where a step's time goes, whatever it contains; else ''."""
    checks = (_nothing, _limited, _no_device_activity, _partly_recorded, _mixed_up, _two_clocks)
    return next((reason for reason in (check(facts) for check in checks) if reason), "")


def _nothing(facts: Facts) -> str:
    if facts.observed is not None and not len(facts.trace.slices):
        if "summaries" in facts.trace.meta.signals:
            return "Cannot tell: the file holds how long steps took, but not what they do."
        if not facts.trace.meta.framework:
            return (
                "Cannot tell: the steps were timed, but no framework computed in them that could "
                "be traced. Begin with the line where your code is most often."
            )
        if facts.share("compile") > MOSTLY_START_UP:
            return ""  # the framework itself told so, in every step
        return _untraced(facts)
    if len(facts.trace.levels) and not len(facts.trace.slices):
        return "Cannot tell: the file holds fill levels of queues, but not what the steps do."
    if len(facts.trace.allocations) and not len(facts.trace.slices):
        return "Cannot tell: the file holds how much memory was held, but not what the steps do."
    return "" if len(facts.trace.slices) and facts.wall_ns else "The file records no timed event."


def _untraced(facts: Facts) -> str:
    meta = facts.trace.meta
    if not meta.untraced:
        return (
            "Cannot tell: the steps were timed, but the run ended before one could be traced. Let "
            "it train for 20 steps or more."
        )
    count = len(facts.trace.marks)
    timed = "1 step was" if count == 1 else f"{format_count(count)} steps were"
    return (
        f"Cannot tell: {timed} timed, but none was traced: {meta.untraced}. {meta.untraced_advice}."
    )


def _limited(facts: Facts) -> str:
    limit = facts.trace.meta.limit
    return f"Cannot tell: {limit}." if limit else ""


def _no_device_activity(facts: Facts) -> str:
    if facts.trace.meta.device_expected and not facts.has_accelerator:
        return (
            "Cannot tell: the run used an accelerator, but this file has no record of what the "
            "device did. Record again with device activity on."
        )
    return ""


def _mixed_up(facts: Facts) -> str:
    if facts.has_accelerator and not facts.leading:
        count = facts.merged_processes if facts.merged_processes > 1 else "several"
        return (
            f"Cannot tell: {count} processes were merged into this file, and its "
            "rows do not say which process used which device. Give the files of the single ranks."
        )
    return ""


def _two_clocks(facts: Facts) -> str:
    if facts.clocks_disagree:
        return (
            "Cannot tell: host and device were recorded by two clocks that disagree; device work "
            "lies before its launch, or outside the steps that launched it. Record again."
        )
    return ""


def _partly_recorded(facts: Facts) -> str:
    if facts.trace.health.has("device-without-kernels"):
        return (
            "Cannot tell: the run launched work on accelerators of which this file has no kernel; "
            "the capture is partial. Record again, with every device of the process."
        )
    return ""
