"""Memory of the training is swapped out, and steps wait until it is read back.

## What it means
The machine has too little memory for the programs on it. The kernel has written pages of the
training to disk, and the steps access them again: each such page is read back while a thread waits.

## Why it costs
Reading a page takes 0.1 ms from a fast disk and 10 ms from a slow one, and there may be thousands.
Pages that are never accessed again cost nothing: swap in use is not a problem by itself.

## How it is measured
The kernel counts the pages that the process had to wait for (major faults), what the machine read
back from swap, how long the process's main thread was blocked on a disk, and how long all runnable
work waited for memory (`/proc/pressure/memory`). The cost is the smaller of the two times, if both
are known.

## Fix
Use less memory: smaller shuffle and prefetch buffers, fewer worker processes (each has its own
memory), data that is read in chunks or memory-mapped. Or add memory.

## Fix risk
A smaller shuffle buffer mixes less; fewer workers may be too slow for the training.

## When it abstains
Without the kernel's counters, which `stepwhy run` samples. If the process waits for swapped-out
pages but the kernel reports no time, the finding has no cost.
"""

from __future__ import annotations

import msgspec

from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.sampled import during_steps

RULE = Rule(
    __name__,
    name="Steps wait for swapped-out memory",
    found="Use less memory: steps wait for swapped-out pages",
    clear="Steps do not wait for swapped-out memory",
    needs=(("steps",),),
    least_share=0.05,  # of the step; below it the wait is less than the variation between steps
    least_saved=0.5,  # of the wait; data read from files instead takes time, too
    change="hold less",
    edit=Edit("memory", "gone"),
)

FAULT_NS = 100_000  # ns; minimum time to read a page, from a fast disk
PAGE_BYTES = (
    4096  # bytes; the smallest page, so that the bytes read by faults are not overestimated
)
# Of what major faults read: the rest may be files that are mapped, such as libraries or data.
FROM_SWAP = 0.5


class _Swap(msgspec.Struct, frozen=True):
    """Counters of the kernel during the steps; None where it does not report them.

    Args:
        out_bytes: Most bytes of the process that were swapped out.
        faults: Pages that the process had to wait for, per second.
        in_bytes: Bytes that the machine read back from swap, per second.
        wait: Share of the time that was lost, the smaller of the two that the kernel reports.
    """

    out_bytes: int
    faults: float
    in_bytes: float | None
    wait: float | None

    @property
    def is_cause(self) -> bool:
        """Whether faults of this process read from swap."""
        read = self.in_bytes is None or self.in_bytes >= FROM_SWAP * self.faults * PAGE_BYTES
        return self.out_bytes > 0 and self.faults > 0 and read


def diagnose(facts: Facts) -> Finding:
    """Judge the time lost in reading swapped pages back."""
    swap = _swap(facts)
    if swap is None:
        return RULE.no_data(
            "swapping", "The trace does not record swapping, as `stepwhy run` does."
        )
    evidence = _evidence(facts, swap)
    share = swap.faults * FAULT_NS / 1e9 if swap.wait is None else swap.wait
    if not swap.is_cause or share < RULE.least_share:
        return RULE.nothing(evidence[:2])
    if swap.wait is None:
        return RULE.finding(None, evidence, _fix(facts))
    return RULE.finding(round(min(swap.wait, 1.0) * facts.wall_ns), evidence, _fix(facts))


def _swap(facts: Facts) -> _Swap | None:
    """Counters between the first and the last sample within the steps."""
    out, faults = during_steps(facts, "swap_bytes"), during_steps(facts, "major_faults")
    per_second = faults.per_second
    if out.largest is None or per_second is None:
        return None
    waits = [during_steps(facts, f"{name}_ns") for name in ("disk_wait", "machine_memory_stall")]
    known = [w.share_of_time for w in waits if w.share_of_time is not None]
    back = during_steps(facts, "machine_swapped_in_bytes").per_second
    return _Swap(out.largest, per_second, back, min(known, default=None))


def _evidence(facts: Facts, swap: _Swap) -> tuple[Evidence, ...]:
    resident = during_steps(facts, "resident_bytes").largest
    memory = during_steps(facts, "machine_memory_bytes").largest
    rows = (
        ("swapped out of the process", swap.out_bytes, "bytes"),
        ("pages waited for per step", swap.faults * facts.wall_ns / 1e9, "count"),
        ("share of the time spent waiting for them", swap.wait, "fraction"),
        ("read back from swap per second, whole machine", swap.in_bytes, "bytes"),
        ("resident memory of the process", resident, "bytes"),
        ("memory of the machine", memory, "bytes"),
    )
    return tuple(Evidence(what, value, unit) for what, value, unit in rows if value is not None)


def _fix(facts: Facts) -> Fix:
    return RULE.fix({"tensorflow": "tf", "pytorch": "torch"}.get(facts.trace.meta.framework, "any"))
