"""The breakdown of profiled steps on the time scale of unprofiled ones, one correction each.

`corrections` applies them in the order in which they stand here. Each takes a breakdown, as ns per
category of the mean step, and returns the next one.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from stepwhy.analyse.breakdown.closed import counted_as
from stepwhy.analyse.breakdown.disk_syncs import NO_SYNCS, ExposedSyncs
from stepwhy.analyse.steps.observed import MOST_STRETCHED

if TYPE_CHECKING:
    from stepwhy.analyse.steps.observed import Observed

# Host-side categories: a tracer costs time on the host, where it records every call.
_WATCHED = ("dispatch", "python", "unexplained")


class Scale(msgspec.Struct, frozen=True, dict=True):
    """What brings a breakdown of profiled steps to the time scale of unprofiled ones.

    Args:
        recorded: ns per category of the mean profiled step.
        observed: The unprofiled steps, without the waits of `syncs`.
        on_accelerator: Whether an accelerator decides the breakdown.
        syncs: Waits for the disk that are part of the usual step.
    """

    recorded: dict[str, int]
    observed: Observed
    on_accelerator: bool
    syncs: ExposedSyncs = NO_SYNCS

    @cached_property
    def wall_ns(self) -> int:
        """Wall time of the usual unprofiled step."""
        return self.observed.without_stalls_ns

    @property
    def inside_ns(self) -> int:
        """The part of it inside the framework's run call; all of it if steps have no such call."""
        outside_ns = self.observed.driver.outside_ns if self.observed.wait_traced else None
        return max(self.wall_ns - (outside_ns or 0), 0)

    @property
    def input_ns(self) -> int | None:
        """The measured wait for a batch; None if the record shows it, or if it is unknown.

        On an accelerator, the device may compute during it.
        """
        waited_ns = self.observed.driver.input_wait_ns
        if waited_ns is None or self.on_accelerator or not self.observed.wait_traced:
            return None
        return min(waited_ns, self.inside_ns)

    @cached_property
    def is_silent(self) -> bool:
        """Whether the record shows nothing of the usual step."""
        usual = rare_time_apart(self.syncs.apart(self.recorded), self)
        return sum(usual.values()) == usual["unexplained"]


def rare_time_apart(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """Leave out what only some steps do: profiled steps show no usual compilation or checkpoint.

    They do show the usual wait for input, and of Python all but the collection of garbage.
    """
    rare = scale.observed.stalls_ns.keys() - {"input_wait", "python"}
    usual = {c: 0 if c in rare else ns for c, ns in breakdown.items()}
    usual["python"] = max(usual["python"] - scale.observed.collecting_ns, 0)
    return usual


def input_measured(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """On a CPU, where no device computes meanwhile, time in a loader is waiting for input."""
    return breakdown if scale.input_ns is None else {**breakdown, "input_wait": scale.input_ns}


def scaled(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """Stretch or shrink what was not measured to the time that is left, as far as is plausible.

    The time that profiling added is subtracted: on an accelerator from the host categories if they
    are large enough, otherwise from all categories in proportion. Profiled steps that are shorter
    than the others are stretched by a quarter at most, and on CPUs as well by the share of their
    time in which threads waited for a core. If they lack waits for the device, not at all.
    """
    measured_ns = scale.input_ns or 0
    rest = {**breakdown, "input_wait": breakdown["input_wait"] - measured_ns}
    recorded_ns = sum(rest.values())
    if not recorded_ns:
        return breakdown
    left_ns = scale.inside_ns - measured_ns
    if not scale.observed.wait_traced:
        left_ns = min(left_ns, recorded_ns)
    most = MOST_STRETCHED if scale.on_accelerator else scale.observed.most_stretched
    known_ns = min(left_ns, round(most * recorded_ns))
    fitted = _shrink(rest, recorded_ns, known_ns, on_accelerator=scale.on_accelerator)
    return {**fitted, "input_wait": fitted["input_wait"] + measured_ns}


def filled_up(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """Time beyond what the profiled steps can show is unexplained."""
    missing_ns = scale.inside_ns - sum(breakdown.values())
    return {**breakdown, "unexplained": breakdown["unexplained"] + missing_ns}


def runnable(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """Count unexplained time as Python if the driving thread must have been runnable in it.

    This is a lower bound: all time in which it was blocked is assumed to be unexplained.
    """
    runnable_ns = scale.observed.driver.runnable_ns
    if runnable_ns is None or not scale.observed.wait_traced or scale.is_silent:
        return breakdown
    blocked_ns = max(scale.wall_ns - runnable_ns, 0)
    return counted_as(breakdown, "python", breakdown["unexplained"] - blocked_ns, "unexplained")


def outside_runs(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """Time outside the framework's run call is Python, as far as the driving thread was runnable.

    The rest of it is unexplained.
    """
    outside_ns, runnable_ns = scale.wall_ns - scale.inside_ns, scale.observed.driver.runnable_ns
    python_ns = outside_ns if runnable_ns is None else min(outside_ns, runnable_ns)
    more = {"python": python_ns, "unexplained": outside_ns - python_ns}
    return {c: ns + more.get(c, 0) for c, ns in breakdown.items()}


def compiling(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """Count unexplained time as compiling, up to the measured time of compilation."""
    missing_ns = (scale.observed.driver.compile_ns or 0) - breakdown["compile"]
    return counted_as(breakdown, "compile", missing_ns, "unexplained")


def rare_time_added(breakdown: dict[str, int], scale: Scale) -> dict[str, int]:
    """Add the mean time of what only some steps do."""
    return {c: ns + scale.observed.stalls_ns.get(c, 0) for c, ns in breakdown.items()}


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
