"""The corrections of the recorded breakdown, in the order in which they are applied.

The record divides the mean profiled step among the categories (`closed`). Each correction turns
that breakdown into the next one, for a reason that reports name:

1. `TO_UNPROFILED` brings it to the time scale of unprofiled steps, if any were observed. What was
   measured without the profiler replaces what was recorded; the rest is scaled to the time left.
2. `BY_OTHER_EVIDENCE` moves time between categories where stack samples, CPU times and the log of
   the run show what the record cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from stepwhy.analyse.breakdown import rescaling
from stepwhy.analyse.breakdown.lock_wait import as_input_wait, lock_wait
from stepwhy.analyse.breakdown.logging_time import as_storage, with_saves
from stepwhy.analyse.breakdown.own_python import as_generated, as_python
from stepwhy.result.reasons import Corrected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from stepwhy.analyse.breakdown.rescaling import Scale
    from stepwhy.analyse.steps.observed import Observed
    from stepwhy.analyse.steps.stalls import Rows
    from stepwhy.trace import Trace

T = TypeVar("T")


class Correction(NamedTuple, Generic[T]):
    """One correction.

    Attributes:
        why: Its reason, which is its name as well.
        correct: The breakdown after it, from the one before it and what else is known; both are ns
            per category of the mean step.
    """

    why: Corrected
    correct: Callable[[dict[str, int], T], dict[str, int]]


class Known(msgspec.Struct, frozen=True):
    """What is known of the steps beside their record.

    Args:
        trace: The trace, with the stack samples of the described stretch.
        steps: Rows of its `marks` of the steady unprofiled steps, ascending; (steps,).
        observed: The same steps; None if none were observed.
        callback_ns: Python time of the mean step that is in callbacks while nothing computes.
    """

    trace: Trace
    steps: Rows
    observed: Observed | None
    callback_ns: int = 0

    @property
    def has_gaps(self) -> bool:
        """Whether the driving thread may do anything between two calls of the framework.

        In a session, all that is outside its runs is known to be Python.
        """
        return self.observed is not None and self.observed.driver.outside_ns is None


TO_UNPROFILED: tuple[Correction[Scale], ...] = (
    Correction(Corrected.DISK_WAITS_APART, lambda b, scale: scale.syncs.apart(b)),
    Correction(Corrected.RARE_TIME_APART, rescaling.rare_time_apart),
    Correction(Corrected.INPUT_MEASURED, rescaling.input_measured),
    Correction(Corrected.SCALED, rescaling.scaled),
    Correction(Corrected.BEYOND_THE_RECORD, rescaling.filled_up),
    Correction(Corrected.RUNNABLE, rescaling.runnable),
    Correction(Corrected.OUTSIDE_RUNS, rescaling.outside_runs),
    Correction(Corrected.COMPILING, rescaling.compiling),
    Correction(Corrected.RARE_TIME, rescaling.rare_time_added),
    Correction(Corrected.DISK_WAITS, lambda b, scale: scale.syncs.added(b)),
)

BY_OTHER_EVIDENCE: tuple[Correction[Known], ...] = (
    Correction(
        Corrected.LOCK_WAIT,
        lambda b, known: as_input_wait(b, lock_wait(known.trace, known.observed, b)),
    ),
    Correction(
        Corrected.SAVES,
        lambda b, known: b if len(known.trace.slices) else with_saves(b, known.trace, known.steps),
    ),
    Correction(
        Corrected.GENERATORS,
        lambda b, known: as_generated(b, known.trace) if known.has_gaps else b,
    ),
    Correction(
        Corrected.OWN_LINES,
        lambda b, known: (
            as_python(b, known.trace, known.observed, known.callback_ns)
            if known.observed and known.has_gaps
            else b
        ),
    ),
    Correction(
        Corrected.LOGGING,
        lambda b, known: as_storage(b, known.trace) if known.observed else b,
    ),
)


class Applied(NamedTuple):
    """A correction that was applied.

    Attributes:
        why: Its reason.
        before, after: ns per category of the mean step.
    """

    why: Corrected
    before: dict[str, int]
    after: dict[str, int]

    @property
    def changes(self) -> dict[str, int]:
        """Time that each category gained, negative for lost, ns; only those that changed."""
        changes = {c: ns - self.before[c] for c, ns in self.after.items()}
        return {c: ns for c, ns in changes.items() if ns}


def apply(
    breakdown: dict[str, int], corrections: Iterable[Correction[T]], known: T
) -> tuple[Applied, ...]:
    """Apply corrections in order.

    Args:
        breakdown: ns per category of the mean step.
        corrections: The corrections.
        known: What else is known.
    """
    applied: list[Applied] = []
    for why, correct in corrections:
        before = applied[-1].after if applied else breakdown
        applied.append(Applied(why, before, correct(before, known)))
    return tuple(applied)
