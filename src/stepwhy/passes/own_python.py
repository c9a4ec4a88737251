"""Time that the driving thread spends in lines of the program, by its stack samples.

A thread that computes in Python leaves no record between two calls of a framework, and the clock of
its CPU time cannot tell Python from kernels. Stack samples can: they show how often it was in a
line of the program, outside the framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.passes.cores import CONTENDED, run_delay_share
from stepwhy.passes.sampled_lines import driver_lines

if TYPE_CHECKING:
    from collections import Counter

    from stepwhy.trace import Trace

# Where other programs want the cores, a thread waits for one wherever it is: only if it is in lines
# of the program most of the time, time without evidence is theirs.
_LEAST_IF_CONTENDED = 0.5
# Share of the time on a core, of the time that a thread wants one; less was measured too roughly.
_LEAST_ON_CORE = 0.1


def own_share(lines: Counter[tuple[str, bool]]) -> float:
    """Share of the driving thread's samples in lines of the program outside the framework, 0..1.

    Lines that an input pipeline has called do not count. Operations that a line calls directly do,
    as they have no Python frame of their own: the share is an upper bound.

    Args:
        lines: Samples from `driver_lines`.
    """
    own = sum(n for (line, in_framework), n in lines.items() if line and not in_framework)
    return own / lines.total()


def as_python(breakdown: dict[str, int], trace: Trace, cpu_ns: int | None) -> dict[str, int]:
    """The breakdown with time without evidence counted as Python, as far as the samples show it.

    A thread that sleeps or waits is in a line of the program, too: it is no longer in Python than
    it used a core, or wanted one.

    Args:
        breakdown: ns per category of the mean step.
        trace: The trace, with the samples of the stretch that is described.
        cpu_ns: CPU time of the driving thread in the step; None if unknown.
    """
    lines = driver_lines(trace)
    if lines is None or not cpu_ns or not breakdown["unexplained"]:
        return breakdown
    share = own_share(lines)
    delayed = run_delay_share(trace) or 0.0
    if delayed >= CONTENDED and share < _LEAST_IF_CONTENDED:
        return breakdown
    runnable_ns = cpu_ns / max(1.0 - delayed, _LEAST_ON_CORE)
    longest = round(min(share * sum(breakdown.values()), runnable_ns))
    moved = min(max(longest - breakdown["python"], 0), breakdown["unexplained"])
    return {
        **breakdown,
        "python": breakdown["python"] + moved,
        "unexplained": breakdown["unexplained"] - moved,
    }
