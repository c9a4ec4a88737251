"""How much of the time that a thread prepares batches it is blocked, without using a core."""

from __future__ import annotations

from stepwhy.analyse.breakdown.preparation import Preparation
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.cores import runnable_threads
from stepwhy.analyse.steps.counters import series
from stepwhy.trace import SampleRole


def blocked_share(facts: Facts, work: Preparation) -> float | None:
    """Share of the preparation in which no thread of it can have used a core, at least; 0..1.

    All threads of the process together ran, or waited for a core, for a known time. The main thread
    and the operations took part of that; the rest is at most what the preparation used. Threads
    that wait for the interpreter's lock do not count as blocked, because another one runs.

    Args:
        facts: Facts of the run.
        work: The preparation.

    Returns:
        None if it is not in threads of the process, or the time was not sampled.
    """
    if work.role is not SampleRole.THREAD or facts.observed is None:
        return None
    span_ns = facts.observed.steady_span_ns
    runnable = runnable_threads(facts.trace, span_ns)
    main = series(facts.trace, "main_ran_ns")
    ran = (main.between(*span_ns) if span_ns else main).share_of_time
    at_once = min(work.at_once, 1.0)
    if runnable is None or ran is None or not at_once:
        return None
    # Operations may run in the main thread, so that the two must not be added.
    others = max(ran, 0.0 if facts.has_accelerator else facts.share("compute"))
    return max(at_once - max(runnable - others, 0.0), 0.0) / at_once
