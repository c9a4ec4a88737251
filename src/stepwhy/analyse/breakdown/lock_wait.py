"""Waiting for the interpreter's lock while other threads of the program prepare batches.

Only one thread of a process runs Python at a time. Threads that prepare batches in Python, for a
queue or a `tf.data` pipeline, therefore block the driving thread whenever it runs Python, also on
entry to and exit from the framework. The breakdown counts such waits as dispatch, although they use
no CPU time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.analyse.breakdown.closed import counted_as
from stepwhy.analyse.breakdown.preparation import find_preparation
from stepwhy.trace import SampleRole

if TYPE_CHECKING:
    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.trace import Trace

# Categories in which the driving thread would use a core if it were not blocked.
_ON_A_CORE = ("dispatch", "python", "unexplained")
_SHORTEST = 0.1  # of the step


def lock_wait(trace: Trace, observed: Observed | None, breakdown: dict[str, int]) -> int:
    """Time that the driving thread waits for the lock or a core in the mean steady step, ns.

    It is the time in Python, in the framework and without evidence, minus the CPU time of the
    thread; at most the time in which other threads ran Python.

    Args:
        trace: The trace, with the stack samples of the described stretch.
        observed: Its unprofiled steps.
        breakdown: ns per category of the mean step.

    Returns:
        0 if no other thread prepares batches in Python, the CPU time is unknown, or the wait is too
        short to be distinguished from noise.
    """
    cpu_ns = observed.driver.cpu_ns if observed else None
    work = find_preparation(trace)
    if cpu_ns is None or work is None or work.role is not SampleRole.THREAD:
        return 0
    wall_ns = sum(breakdown.values())
    waited = sum(breakdown[c] for c in _ON_A_CORE) - cpu_ns
    waited = min(waited, round(min(work.at_once, 1.0) * wall_ns))
    return waited if waited >= _SHORTEST * wall_ns else 0


def as_input_wait(breakdown: dict[str, int], waited_ns: int) -> dict[str, int]:
    """Count waits for the lock as `input_wait`, because preparing batches causes them.

    Args:
        breakdown: ns per category of the mean step.
        waited_ns: Result of `lock_wait` for it.
    """
    return counted_as(breakdown, "input_wait", waited_ns, *reversed(_ON_A_CORE))
