"""The DataLoader that the steps wait for, and whether its workers keep up."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.pipelines import find_pipelines
from stepwhy.analyse.steps.sampled_lines import role_lines
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.groups import distinct
from stepwhy.result import Evidence, Fix, Pipeline
from stepwhy.trace import SampleRole

FEWEST_SAMPLES = 10  # fewer give no reliable share of time
BUSY = 0.8  # of the workers' samples are in the program; workers that keep up mostly wait
STARVED = 0.25  # of the time without a batch; a queue that smooths out bursts is empty for moments


def awaited_loader(facts: Facts) -> Pipeline | None:
    """The queue of the DataLoader that the steps wait for; None if too few levels were sampled.

    A validation loader is iterated within few of the steps, between two of the training, so it is
    the one that was sampled in most steps.
    """
    steady_ns = facts.observed.steady_span_ns if facts.observed else None
    queues = [p for p in find_pipelines(facts.trace, steady_ns) if p.kind == "dataloader"]
    awaited = max(queues, key=lambda queue: _steps_sampled(facts, queue.name), default=None)
    if awaited is None or _steps_sampled(facts, awaited.name) < FEWEST_SAMPLES:
        return None
    return awaited


def _steps_sampled(facts: Facts, name: str) -> int:
    """Number of steps in which the level of a queue was sampled."""
    levels, marks = facts.trace.levels, facts.trace.marks
    times_ns = levels.time_ns[np.isin(levels.queue, facts.trace.strings_where({name}))]
    return len(distinct(np.searchsorted(marks.start_ns, times_ns, side="right")))


def batches_ready(facts: Facts) -> Evidence | None:
    """How often a batch is ready when the loop asks for it, if workers keep up; else None."""
    queue = awaited_loader(facts)
    if queue is None or queue.empty_share is None or queue.empty_share >= STARVED:
        return None
    # Whether stack samples show that the workers prepare batches most of the time.
    lines = role_lines(facts.sampled, SampleRole.WORKER)
    are_busy = sum(share for _, share in lines) >= BUSY
    if (queue.full_share or 0.0) < STARVED and are_busy:
        return None
    return Evidence(_READY, round(1 - queue.empty_share, 4), "fraction", queue.name)


def without_repeats(fix: Fix, facts: Facts) -> Fix:
    """A fix that starts workers, with what an `IterableDataset` needs for that."""
    if not len(rows_of_kinds(facts.trace, "iterable")):
        return fix
    return replace(fix, text=f"{fix.text} {_REPEATS}", risk="changes-numerics")


def most_epochs(facts: Facts) -> int:
    """How often the DataLoader that was started most often was started; 0 without one."""
    events = facts.trace.events
    rows = np.flatnonzero(np.isin(events.kind, facts.trace.strings_where({"epoch"})))
    return int(np.unique(events.name[rows], return_counts=True)[1].max(initial=0))


_REPEATS = (
    "The data set is an IterableDataset, all of which each worker reads: let its __iter__ take a "
    "part by torch.utils.data.get_worker_info(), or several workers repeat each sample."
)
_READY = "share of the time with a batch ready"
