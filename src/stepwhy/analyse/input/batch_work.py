"""Work that prepares batches one after another, on the thread that waits for it or behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.breakdown.own_python import generator_share
from stepwhy.analyse.breakdown.preparation import find_preparation
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.sums import sums_of
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Kind, SampleRole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.result import Edit

    Rows = NDArray[np.int64]

_LOADERS = ("DataLoader", "PyDataset")  # prepare batches in the training loop, or in processes

WORKING_SHARE = 0.5
"""Share of the time in fetches; above it, the thread that asks for a batch also prepares it."""

# Source: names of the iterators in torch/utils/data/dataloader.py, which PyTorch records.
_SINGLE, _WORKERS = "_SingleProcess", "_MultiProcess"
# Stages of tf.data with threads of their own; what a thread does in them is waiting.
# Source: names of TraceMe events, `dataset_utils` and the kernels in tensorflow/core/kernels/data.
_ASYNCHRONOUS = regex(r"Prefetch|Parallel|MapAndBatch|Snapshot|Service")
_STAGE = regex(r"Iterator::(?:.*::)?(\w+)")
# Stages of tf.data that call a function for each element, and accept `num_parallel_calls`.
_CALLING = regex(r"(?:Parallel)?(?:Map|MapAndBatch|Interleave)(?:V\d)?\[\d+\]")
_SINGLE_CALLS = regex(r"(?:Map|Interleave)(?:V\d)?\[\d+\]")


class BatchWork(msgspec.Struct, frozen=True):
    """Work that prepares batches one at a time.

    Args:
        source: 'DataLoader', 'PyDataset', 'generator' or 'tf.data'.
        where: Its hottest line or its stage; '' if unknown.
        work_ns: Time that it takes per step.
        exposed_ns: Part of it in which nothing computes.
        is_ahead: Whether a thread of its own works ahead of the step, but alone.
    """

    source: str
    where: str
    work_ns: int
    exposed_ns: int
    is_ahead: bool = False


def find_batch_work(facts: Facts) -> BatchWork | None:
    """The serial work that the step waits for; None if there is none, or other threads do it."""
    exposed_ns = facts.usual_input_wait_ns
    if not exposed_ns:
        return None
    prepared = find_preparation(facts.sampled)
    line, entry = "", ""
    if prepared is not None:
        if prepared.role is not SampleRole.DRIVER:
            return None  # Python in other threads or processes: more of it at once, or less of it
        line, entry = prepared.line, prepared.entry
    if entry == "generator":
        work_ns = round(generator_share(facts.sampled) * facts.wall_ns)
        return BatchWork(entry, line, max(work_ns, exposed_ns), exposed_ns)
    return _of_loader(facts, line, entry, exposed_ns) or _of_stages(facts, exposed_ns)


def starts_processes(facts: Facts, edit: Edit) -> bool:
    """Whether a fix starts processes that prepare batches beside operations on CPUs.

    How long the step then takes cannot be told from a run without them. In the lab, on two cores,
    they left steps of 86 and 130 % where 58 and 76 % were predicted; threads left steps about as
    long as predicted.
    """
    if facts.has_accelerator or edit.what != "input" or edit.change not in {"workers", "prefetch"}:
        return False
    several, work = edit.change == "workers", find_batch_work(facts)
    if work is None:
        return several and facts.trace.meta.framework != "tensorflow"
    # One thread can read ahead in a generator. Only one thread at a time runs Python, so that
    # several workers have to be processes.
    return work.source in _LOADERS or (several and work.source == "generator")


def _of_loader(facts: Facts, line: str, entry: str, exposed_ns: int) -> BatchWork | None:
    """Work of a DataLoader without workers, or of a PyDataset, in the training loop."""
    fetches = facts.slices(Kind.INPUT, steady=True)
    own_ns = _fetched_ns(facts, _SINGLE)
    if len(fetches):
        # Time of the fetches that are no part of another, such as the frame around them.
        around = np.append(facts.nearest((Kind.INPUT,)), np.int32(NULL))
        outer = fetches[around[facts.nesting.parent[fetches]] == NULL]
        outer_ns = int(facts.trace.slices.dur_ns[outer].sum())
        is_serial = own_ns > WORKING_SHARE * outer_ns or entry == "PyDataset"
    else:
        is_serial = bool(entry) or _without_workers(facts)
    if not is_serial:
        return None
    work_ns = max(facts.mean_ns(own_ns) if facts.has_accelerator else 0, exposed_ns)
    return BatchWork(entry or "DataLoader", line, work_ns, exposed_ns)


def fetches_from_workers(facts: Facts) -> bool | None:
    """Whether the `DataLoader` that takes most of the time has workers; None if unknown.

    Python frames do not show it: a thread that waits for workers runs code of the loader, too.
    """
    own_ns, workers_ns = _fetched_ns(facts, _SINGLE), _fetched_ns(facts, _WORKERS)
    return workers_ns > own_ns if own_ns or workers_ns else None


def _fetched_ns(facts: Facts, iterator: str) -> int:
    """Time of all fetches of the steady steps by a kind of iterator, ns."""
    trace, fetches = facts.trace, facts.slices(Kind.INPUT, steady=True)
    chosen = trace.matches(trace.slices.name[fetches], lambda name: iterator in name)
    return int(trace.slices.dur_ns[fetches[chosen]].sum())


def _without_workers(facts: Facts) -> bool:
    """Whether there are DataLoaders, all without workers."""
    stages = facts.trace.stages
    loaders = np.isin(stages.kind, facts.trace.strings_where({"dataloader"}))
    return bool(loaders.any() and not stages.parallelism[loaders].any())


def _of_stages(facts: Facts, exposed_ns: int) -> BatchWork | None:
    """Work of `tf.data` in the fetch of a batch, or of one stage that works alone."""
    if facts.trace.meta.framework != "tensorflow":
        return None
    stage = _synchronous_stage(facts)
    if stage:
        return BatchWork("tf.data", stage, exposed_ns, exposed_ns)
    stage = _lone_stage(facts)
    if stage:
        return BatchWork("tf.data", stage, facts.wall_ns, exposed_ns, is_ahead=True)
    return None


def _synchronous_stage(facts: Facts) -> str:
    """The stage in which fetches spend most time, if they work themselves; '' if they wait."""
    rows = np.flatnonzero(facts.in_input & facts.is_steady)
    stages = facts.nearest((Kind.INPUT,))[rows]
    self_ns = facts.nesting.self_ns(rows)
    names, place = numbered(facts.trace.slices.name[stages])
    sums = sums_of(self_ns, place, len(names))
    found: dict[str, int] = {}
    for name, total_ns in zip(names.tolist(), sums.tolist(), strict=True):
        match = _STAGE.fullmatch(facts.trace.string(name))
        if match is not None and not _ASYNCHRONOUS.search(match[1]):
            found[match[1]] = found.get(match[1], 0) + total_ns
    if sum(found.values()) <= WORKING_SHARE * self_ns.sum():
        return ""
    return max(found, key=lambda stage: found[stage])


def _lone_stage(facts: Facts) -> str:
    """The stage that calls a function for one element at a time, and does most of the work."""
    trace, stages = facts.trace, facts.trace.stages
    is_data = np.isin(stages.kind, trace.strings_where({"tf.data"}))
    known = is_data & (stages.elements > 0) & (stages.processing_ns > 0)
    work_ns = np.where(known, stages.elements * stages.processing_ns, 0)
    if not work_ns.any():
        return ""
    top = int(np.argmax(work_ns))
    name = trace.string(int(stages.name[top]))
    threads, tuned = int(stages.parallelism[top]), int(stages.tuned[top])
    alone = threads == NULL if _SINGLE_CALLS.fullmatch(name) else (threads, tuned) == (1, 0)
    is_most = work_ns[top] > WORKING_SHARE * work_ns.sum()
    return name.partition("[")[0] if alone and is_most and _CALLING.fullmatch(name) else ""
