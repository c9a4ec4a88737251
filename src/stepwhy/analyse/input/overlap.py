"""What a step takes if some of its work runs beside it, on the cores that exist."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepwhy.analyse.steps.cores import usable_cores
from stepwhy.analyse.steps.counters import series

if TYPE_CHECKING:
    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.input.batch_work import BatchWork

_RESERVE = 1.3  # workers per worker that just keeps up, for batches that take longer than others
_MOST_WORKERS = 8  # advised where the number of cores is unknown


def overlapped_ns(
    step_ns: int,
    cost_ns: int,
    work_ns: int,
    workers: int,
    *,
    cpu_ns: int | None = None,
    cores: int | None = None,
) -> int:
    """Predicted step with some of its work beside it.

    That is the rest of the step, but at least the work divided among the workers, and all CPU time
    of the step divided among the cores; and no longer than it is.

    Args:
        step_ns: The step as it is.
        cost_ns: The part of it that waits for the work.
        work_ns: Time of one worker in the work.
        workers: Processes or threads that share it.
        cpu_ns: CPU time of the step; None if unknown.
        cores: Cores; None if unknown.
    """
    least = max(step_ns - cost_ns, work_ns / max(workers, 1))
    if cpu_ns is not None and cores:
        least = max(least, cpu_ns / cores)
    return max(min(round(least), step_ns), 0)


def displaced_ns(
    step_ns: int,
    cost_ns: int,
    work_ns: int,
    workers: int,
    *,
    cpu_ns: int | None = None,
    cores: int | None = None,
) -> int:
    """Predicted step if the work beside it has a core whenever it needs one.

    An operation that is split evenly among all cores ends with its last part. So while the work has
    one of the cores, the operation is delayed by as much, not by its share of it. The rest of the
    step is assumed to run on one core or on all of them.

    Args:
        step_ns: The step as it is.
        cost_ns: The part of it that waits for the work.
        work_ns: Time of one worker in the work.
        workers: Processes or threads that share it.
        cpu_ns: CPU time of the step; None if unknown, or if an accelerator runs the operations.
        cores: Cores; None if unknown.
    """
    least = overlapped_ns(step_ns, cost_ns, work_ns, workers, cpu_ns=cpu_ns, cores=cores)
    if cpu_ns is None or not cores:
        return least
    rest = step_ns - cost_ns
    cores_used = max(cpu_ns - work_ns, 0) / max(rest, 1)
    on_all = min(max(cores_used - 1, 0.0) / max(cores - 1, 1), 1.0)
    delay = on_all * min(work_ns / max(workers, 1), rest)
    return min(max(least, round(rest + delay)), step_ns)


def job_cpu_ns(facts: Facts) -> int | None:
    """CPU time per steady step of all processes of the job; None if not sampled."""
    used = series(facts.trace, "job_cpu_ns")
    if facts.observed and facts.observed.steady_span_ns:
        used = used.between(*facts.observed.steady_span_ns)
    if used.per_second is None:
        return None
    return round(used.per_second / 1e9 * facts.wall_ns)


def rest_ns(facts: Facts, work: BatchWork) -> int:
    """The step without the wait for its batch."""
    return max(facts.wall_ns - work.exposed_ns, 1)


def workers_for(facts: Facts, work: BatchWork) -> int:
    """Number of workers that keep up with the rest of the step, if so many cores exist."""
    needed = max(math.ceil(_RESERVE * work.work_ns / rest_ns(facts, work)), 1)
    cores = usable_cores(facts.trace)
    # The training loop needs a core of its own; threads of tf.data take turns with its operations.
    free = _MOST_WORKERS if cores is None else cores if work.is_ahead else max(cores - 1, 1)
    return min(needed, free)
