"""What a step takes when its batches are prepared beside it, on the cores that exist."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepwhy.diagnoses.shared.rule import saving
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.cores import usable_cores
from stepwhy.passes.counters import series

if TYPE_CHECKING:
    from stepwhy.findings import Saving
    from stepwhy.passes.batch_work import BatchWork
    from stepwhy.passes.facts import Facts

# Measured steps against those predicted: 0.95 to 1.2 times on 27 pairs of programs on CPUs, 1.0 to
# 1.1 times on five pairs on GPUs. What survives is slower beside other work.
_LEAST, _MOST = 0.95, 1.2
_MOST_ON_ACCELERATORS = 1.1
_RESERVE = 1.3  # workers per worker that just keeps up, for batches that take longer than others
_MOST_WORKERS = 8  # advised where the number of cores is unknown


def cores_of(facts: Facts) -> int | None:
    """Number of cores that the process may use; None if unknown."""
    return usable_cores(facts.trace)


def rest_ns(facts: Facts, work: BatchWork) -> int:
    """The step without the wait for its batch."""
    return max(facts.wall_ns - work.exposed_ns, 1)


def workers_for(facts: Facts, work: BatchWork) -> int:
    """Number of workers that keep up with the rest of the step, if so many cores exist."""
    needed = max(math.ceil(_RESERVE * work.work_ns / rest_ns(facts, work)), 1)
    cores = cores_of(facts)
    # The training loop needs a core of its own; threads of tf.data take turns with its operations.
    free = _MOST_WORKERS if cores is None else cores if work.is_ahead else max(cores - 1, 1)
    return min(needed, free)


def overlapped_ns(facts: Facts, work: BatchWork) -> int:
    """Predicted time of the step with its batches prepared beside it.

    That is the rest of the step, but at least the work divided among the workers, and all CPU time
    of the step divided among the cores.
    """
    least = max(rest_ns(facts, work), work.work_ns / workers_for(facts, work))
    cores, used = cores_of(facts), series(facts.trace, "job_cpu_ns")
    if facts.observed and facts.observed.steady_span_ns:
        used = used.between(*facts.observed.steady_span_ns)
    if cores is not None and used.per_second is not None:
        least = max(least, used.per_second / 1e9 * facts.wall_ns / cores)
    return min(round(least), facts.wall_ns)


def gain_of(facts: Facts, work: BatchWork, edit: str) -> Saving:
    """The predicted saving.

    Args:
        facts: Facts of the run.
        work: What to prepare beside the step.
        edit: The edit as data.
    """
    most = _MOST_ON_ACCELERATORS if facts.has_accelerator else _MOST
    predicted = overlapped_ns(facts, work)
    low, high = (facts.wall_ns - factor * predicted for factor in (most, _LEAST))
    return saving(edit, max(low, 0), min(max(high, 0), work.exposed_ns))


def overlap_evidence(facts: Facts, work: BatchWork) -> tuple[Evidence, ...]:
    """The work, the rest of the step, and the cores."""
    found = [
        Evidence("share of the step", work.exposed_ns / max(facts.wall_ns, 1), "fraction"),
        Evidence("batches are prepared by", _by(work), "", work.where),
        Evidence("step without the wait for it", rest_ns(facts, work), "ns"),
    ]
    cores = cores_of(facts)
    if cores is not None:
        found.append(Evidence("cores of the machine", cores, "count"))
    return tuple(found)


def _by(work: BatchWork) -> str:
    if work.is_ahead:
        return "one thread, an element at a time"
    return f"the training loop itself, in {_NAMES.get(work.source, work.source)}"


def with_workers(fix: Fix, count: int) -> Fix:
    """A fix whose code starts two workers, with another number of them."""
    code = fix.code.replace("workers=2", f"workers={count}").replace("Pool(2)", f"Pool({count})")
    return Fix(fix.text, code, fix.risk)


_NAMES = {"DataLoader": "a DataLoader without workers", "generator": "a generator"}
