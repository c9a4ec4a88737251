"""What a step takes when its batches are prepared beside it, on the cores that exist."""

from __future__ import annotations

from msgspec.structs import replace

from stepwhy.analyse.breakdown.preparation import find_preparation
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.batch_work import BatchWork, fetches_from_workers
from stepwhy.analyse.input.overlap import (
    displaced_ns,
    job_cpu_ns,
    overlapped_ns,
    rest_ns,
    workers_for,
)
from stepwhy.analyse.steps.cores import usable_cores
from stepwhy.base.units import format_fraction
from stepwhy.diagnose.input.shared.loaders import most_epochs
from stepwhy.diagnose.shared.augmentation import is_new
from stepwhy.diagnose.shared.pipeline_stages import calls_in_parallel, with_line
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import saving
from stepwhy.result import Evidence, Fix, Saving

# Measured steps against those predicted: 0.95 to 1.2 times on 27 pairs of programs on CPUs, 1.0 to
# 1.1 times on five pairs on GPUs. What survives is slower beside other work.
_LEAST, _MOST = 0.95, 1.2
_MOST_ON_ACCELERATORS = 1.1
# Of the time of all cores. In two of the lab's pairs that use more, the fix saved 8 and 17 % of the
# step, and in a third it made the step longer; in one that uses 54 %, it saved 38 %.
_BUSY = 0.65
_MOST_OF_WORK = 0.5  # of the preparation in one function; without it, little is left
_REPEATS = 2  # epochs


def cores_of(facts: Facts) -> int | None:
    """Number of cores that the process may use; None if unknown."""
    return usable_cores(facts.trace)


def gain_of(facts: Facts, work: BatchWork, edit: str) -> Saving:
    """The predicted saving.

    Args:
        facts: Facts of the run.
        work: What to prepare beside the step.
        edit: The edit as data.
    """
    shortest, longest = _predicted(facts, work)
    high = facts.wall_ns - _LEAST * shortest
    return saving(edit, max(facts.wall_ns - longest, 0), min(max(high, 0), work.exposed_ns))


def _predicted(facts: Facts, work: BatchWork) -> tuple[int, float]:
    """The step if nothing is slower beside the work, and the longest that is expected, ns."""
    parts = facts.wall_ns, work.exposed_ns, work.work_ns, workers_for(facts, work)
    cpu_ns, cores = job_cpu_ns(facts), cores_of(facts)
    shortest = overlapped_ns(*parts, cpu_ns=cpu_ns, cores=cores)
    if facts.has_accelerator:
        return shortest, _MOST_ON_ACCELERATORS * shortest
    return shortest, _MOST * displaced_ns(*parts, cpu_ns=cpu_ns, cores=cores)


def overlap_evidence(facts: Facts, work: BatchWork) -> tuple[Evidence, ...]:
    """The work, the rest of the step, and the cores."""
    by = "one thread, an element at a time"
    if not work.is_ahead:
        by = f"the training loop itself, in {_NAMES.get(work.source, work.source)}"
    where = with_line(facts.trace, work.where) if work.source == "tf.data" else work.where
    found = [
        Evidence("share of the step", work.exposed_ns / max(facts.wall_ns, 1), "fraction"),
        Evidence("batches are prepared by", by, "", where),
    ]
    if work.exposed_ns < facts.wall_ns:
        found.append(Evidence("step without waiting for a batch", rest_ns(facts, work), "ns"))
    cores = cores_of(facts)
    if cores is not None:
        found.append(Evidence("cores of the machine", cores, "count"))
    return tuple(found)


def is_prepared_in_parallel(facts: Facts) -> bool:
    """Whether several threads or processes are known to prepare batches."""
    return bool(calls_in_parallel(facts.trace) or fetches_from_workers(facts))


def with_workers(fix: Fix, count: int) -> Fix:
    """A fix whose code starts two workers, with another number of them."""
    code = fix.code.replace("workers=2", f"workers={count}").replace("Pool(2)", f"Pool({count})")
    return replace(fix, code=code)


def cautioned(fix: Fix, facts: Facts) -> Fix:
    """A fix, with what else would do, and a caution if busy cores leave it little to gain."""
    fix = _shorter_first(fix, facts)
    cpu_ns, cores = job_cpu_ns(facts), cores_of(facts)
    if facts.has_accelerator or cpu_ns is None or not cores:
        return fix
    busy = cpu_ns / max(facts.wall_ns * cores, 1)
    if busy < _BUSY:
        return fix
    caution = _CAUTION.format(format_fraction(min(busy, 1.0)))
    threads = f" {_THREADS}" if is_pytorch(facts) else ""
    return replace(fix, text=f"{fix.text} {caution}{threads}")


def _shorter_first(fix: Fix, facts: Facts) -> Fix:
    """A fix, after the line that holds most of the preparation, and how to do without it."""
    work = find_preparation(facts.sampled)
    if work is None or work.function_share < _MOST_OF_WORK:
        return fix
    is_repeated = most_epochs(facts) >= _REPEATS and not is_new(facts, work.line)
    first = _FIRST.format(format_fraction(work.function_share), work.line)
    return replace(fix, text=f"{first} {_ONCE if is_repeated else _LESS} {fix.text}")


UNSEEN_WORK = "The steps wait for batches, but the record does not show what prepares them."
_CAUTION = (
    "But the job already uses {} of the cores' time, so what prepares batches beside the step can "
    "slow the rest down by as much as it saves: measure it with 'stepwhy try', or make the work "
    "itself less."
)
_FIRST = "{} of the preparation is in {}."
_ONCE = (
    "It runs again in every epoch: if it returns the same for an element each time, compute it "
    "once, before the training, and keep the result; otherwise prepare batches beside the step."
)
_LESS = (
    "If you can, make that shorter, for example by leaving out what the batch does not use of an "
    "element: preparing batches beside the step only hides it, and needs a core of its own."
)
# On two cores, the step of the lab's torch/cold_files is 24.8 ms with two workers, and 19.8 ms if
# operations also use one thread only; of torch/serial_loader, 23.2 and 20.0 ms with one worker.
_THREADS = (
    "Let torch.set_num_threads() leave a core to the workers: threads of operations that wait for "
    "the next one keep their cores busy."
)
_NAMES = {"DataLoader": "a DataLoader without workers", "generator": "a generator"}
