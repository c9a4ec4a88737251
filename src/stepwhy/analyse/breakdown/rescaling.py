"""The breakdown of profiled steps on the time scale of unprofiled ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.breakdown.closed import counted_as
from stepwhy.analyse.steps.observed import MOST_STRETCHED

if TYPE_CHECKING:
    from stepwhy.analyse.steps.observed import Observed

# Host-side categories: a tracer costs time on the host, where it records every call.
_WATCHED = ("dispatch", "python", "unexplained")


def rescale(
    breakdown: dict[str, int], observed: Observed, *, on_accelerator: bool
) -> dict[str, int]:
    """The breakdown of profiled steps on the time scale of unprofiled ones; sums to their wall.

    The time that profiling added is subtracted: on an accelerator from the host categories if they
    are large enough, otherwise from all categories in proportion. Profiled steps that are shorter
    than the others are stretched by a quarter at most, and on CPUs as well by the share of their
    time in which threads waited for a core; the rest is unexplained.

    Some times were measured without a profiler:

    - Time outside the framework's run call is Python, up to the time in which the driving thread
      ran or waited for a core; the rest of it is unexplained.
    - On a CPU, where no device computes meanwhile, time in a loader is waiting for input.
    - Unexplained time counts as compiling, up to the measured time of compilation, and as Python
      if the driving thread must have used a core in it, or waited for one.
    - Waits for the device that no profiled step includes are unexplained.
    - The time that compilations and checkpoints add to some steps is added at the end; the profiled
      steps show how the rest of a step divides.

    Args:
        breakdown: ns per category of the mean profiled step.
        observed: The unprofiled steps.
        on_accelerator: Whether an accelerator decides the breakdown.
    """
    stalls = observed.stalls_ns
    # Profiled steps show the usual wait for input, but no usual compilation or checkpoint.
    rare = stalls.keys() - {"input_wait", "python"}
    usual = {c: 0 if c in rare else ns for c, ns in breakdown.items()}
    usual["python"] = max(usual["python"] - observed.collecting_ns, 0)
    scaled = _with_compilation(_rescale(usual, observed, on_accelerator), observed)
    return {c: ns + stalls.get(c, 0) for c, ns in scaled.items()}


def _with_compilation(scaled: dict[str, int], observed: Observed) -> dict[str, int]:
    """Count unexplained time as compiling, up to the measured time of compilation."""
    missing = (observed.compile_ns or 0) - scaled["compile"]
    return counted_as(scaled, "compile", missing, "unexplained")


def _rescale(breakdown: dict[str, int], observed: Observed, on_accelerator: bool) -> dict[str, int]:
    if not observed.wait_traced:
        missing = max(observed.without_stalls_ns - sum(breakdown.values()), 0)
        known = _fit(breakdown, observed.without_stalls_ns - missing, observed, on_accelerator)
        return {**known, "unexplained": known["unexplained"] + missing}
    outside = observed.outside_ns or 0
    inside = max(observed.without_stalls_ns - outside, 0)
    waited = None if on_accelerator else observed.input_wait_ns
    if waited is None:
        scaled = _fit(breakdown, inside, observed, on_accelerator)
    else:
        waited = min(waited, inside)
        rest = {**breakdown, "input_wait": 0}
        scaled = _fit(rest, inside - waited, observed, on_accelerator)
        scaled["input_wait"] += waited
    running = _running(breakdown, scaled["unexplained"], observed)
    beyond = observed.without_stalls_ns - inside
    python = beyond if observed.runnable_ns is None else min(beyond, observed.runnable_ns)
    scaled["unexplained"] += beyond - python - running
    scaled["python"] += python + running
    return scaled


def _running(breakdown: dict[str, int], unexplained_ns: int, observed: Observed) -> int:
    """The part of the unexplained time in which the driving thread must have been runnable.

    This is a lower bound: all time in which it was blocked is assumed to be unexplained.
    """
    nothing_known = sum(breakdown.values()) == breakdown["unexplained"]
    if observed.runnable_ns is None or nothing_known:
        return 0
    blocked = max(observed.without_stalls_ns - observed.runnable_ns, 0)
    return max(unexplained_ns - blocked, 0)


def _fit(
    breakdown: dict[str, int], wall_ns: int, observed: Observed, on_accelerator: bool
) -> dict[str, int]:
    """A breakdown stretched or shrunk to a wall time, as far as that is plausible."""
    recorded = sum(breakdown.values())
    if not recorded:
        return {**breakdown, "unexplained": wall_ns}
    most = MOST_STRETCHED if on_accelerator else observed.most_stretched
    known_ns = min(wall_ns, round(most * recorded))
    known = _shrink(breakdown, recorded, known_ns, on_accelerator=on_accelerator)
    return {**known, "unexplained": known["unexplained"] + wall_ns - known_ns}


def _shrink(
    breakdown: dict[str, int], recorded: int, wall_ns: int, *, on_accelerator: bool
) -> dict[str, int]:
    watched = sum(breakdown[c] for c in _WATCHED)
    excess = recorded - wall_ns
    if on_accelerator and 0 < excess < watched:
        parts = {
            c: v * (1 - excess / watched) if c in _WATCHED else v for c, v in breakdown.items()
        }
    else:
        parts = {c: v * wall_ns / recorded for c, v in breakdown.items()}
    whole = {c: round(v) for c, v in parts.items()}
    largest = max(whole, key=lambda c: whole[c])
    whole[largest] += wall_ns - sum(whole.values())
    return whole
