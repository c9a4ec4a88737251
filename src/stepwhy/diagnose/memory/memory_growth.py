"""Memory grows from step to step, until none is left.

## What it means
Something keeps data from each step: a list of losses that still hold their graph, a history of
outputs, a cache without a limit. The memory of the process, or its memory on a GPU, grows all the
time.

## Why it costs
It costs little time at first. But the run ends with an out-of-memory error after hours, and steps
become slow when memory is nearly full.

## How it is measured
`stepwhy run` samples the resident memory of the process and the memory that it uses on each GPU.
The first half of the run is ignored, because data and libraries are loaded in it. The second half
is divided into `BLOCKS` equal parts. Memory grows if the median rises from each part to the next,
by at least 32 MiB in total, and does not level off: the last rise is at least `LEVELLING` of the
first. The step at which memory is full assumes that growth continues at the same rate.

## Fix
Keep values without their graph (`loss.detach()`, `.item()`, `.numpy()`), and limit histories and
caches (`collections.deque(maxlen=...)`).

## Fix risk
None for the result. A limited history loses its oldest entries.

## When it abstains
Without samples of memory, which only `stepwhy run` takes. `incomplete` with fewer than
`FEWEST_SAMPLES` in the second half of the run: train for longer. A cache of the data set that fills
in the first epoch grows as well, and a run of a single epoch cannot show that it stops growing.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from stepwhy.analyse.program.gpus import sampled_gpus
from stepwhy.analyse.steps.counters import Series
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.sampled import during_steps

RULE = Rule(
    __name__,
    name="Memory that grows from step to step",
    found="Release what each step allocates: memory grows until none is left",
    clear="Memory does not grow from step to step",
    needs=(("step-log",),),
)

BLOCKS = 4  # parts of the second half of the run; four random medians ascend in 1 of 24 runs
FEWEST_SAMPLES = 8  # in the second half: two per part, so that no median is a single sample
LEAST_BYTES = 32 << 20  # what allocators and lazily loaded libraries add without a leak
LEVELLING = 0.5  # of the first rise; a pool or cache that fills up grows less and less


class _Growth(msgspec.Struct, frozen=True):
    """Growth of one memory.

    Args:
        where: 'resident memory', or the GPU.
        per_step: Bytes per step.
        last: Bytes at the end of the run.
        capacity: Bytes in all; None if unknown.
    """

    where: str
    per_step: float
    last: int
    capacity: int | None


def diagnose(facts: Facts) -> Finding:
    """Judge whether memory grows from step to step."""
    memories = [m for m in _memories(facts) if len(m[1].values)]
    if not memories:
        return RULE.no_data("memory", "No memory was sampled. 'stepwhy run' samples it on Linux.")
    halves = [(where, _second_half(levels), capacity) for where, levels, capacity in memories]
    if all(len(levels.values) < FEWEST_SAMPLES for _, levels, _ in halves):
        return RULE.incomplete(
            "enough-steps", "The run is too short to tell growth from start-up. Train for longer."
        )
    growing = [
        _Growth(where, _per_step(facts, levels), levels.values[-1].item(), capacity)
        for where, levels, capacity in halves
        if _grows(levels)
    ]
    if not growing:
        return RULE.nothing()
    fix = RULE.fix({"pytorch": "torch", "tensorflow": "tf"}.get(facts.trace.meta.framework, "any"))
    return RULE.finding(None, tuple(_evidence(facts, growing)), fix)


def _memories(facts: Facts) -> Iterator[tuple[str, Series, int | None]]:
    """Name, levels and size of every memory that was sampled."""
    yield (
        "resident memory",
        during_steps(facts, "resident_bytes"),
        during_steps(facts, "machine_memory_bytes").largest,
    )
    for device, name in sampled_gpus(facts.trace):
        levels = during_steps(facts, "gpu process_bytes", device)
        yield name, levels, during_steps(facts, "gpu total_bytes", device).largest


def _second_half(levels: Series) -> Series:
    first, last = int(levels.times_ns[0]), int(levels.times_ns[-1])
    return levels.between((first + last) // 2, last)


def _grows(levels: Series) -> bool:
    """Whether the level rises all the time, and does not level off."""
    if len(levels.values) < FEWEST_SAMPLES:
        return False
    medians = [float(np.median(part)) for part in np.array_split(levels.values, BLOCKS)]
    rises = np.diff(medians)
    is_steady = bool((rises > 0).all()) and rises[-1] >= LEVELLING * rises[0]
    return is_steady and medians[-1] - medians[0] >= LEAST_BYTES


def _per_step(facts: Facts, levels: Series) -> float:
    """Growth per step, bytes."""
    marks = facts.trace.marks
    at = np.searchsorted(marks.start_ns, levels.times_ns[[0, -1]])
    steps = max(int(at[1] - at[0]), 1)
    return (levels.growth or 0) / steps


def _evidence(facts: Facts, growing: list[_Growth]) -> Iterator[Evidence]:
    for memory in growing:
        yield Evidence("growth per step", round(memory.per_step), "bytes", memory.where)
        yield Evidence("at the end of the run", memory.last, "bytes", memory.where)
        if memory.capacity:
            left = max(memory.capacity - memory.last, 0) / memory.per_step
            full = len(facts.trace.marks) + left
            yield Evidence("step at which memory is full, at the latest", round(full), "count",
                           memory.where)  # fmt: skip
