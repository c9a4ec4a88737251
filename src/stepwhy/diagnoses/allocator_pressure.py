"""Memory is allocated and freed inside the steps, instead of being used again.

## What it means
On an accelerator: the framework keeps freed device memory for reuse. When it still calls the
device's own allocator in steady steps, its cache does not fit: memory is short, fragmented, or
sizes change all the time. On a CPU: what is freed goes back to the kernel, and the next step is
given other pages for the same tensors. The C library does so with every block of 32 MiB or more,
and with smaller ones at the end of its heap.

## Why it costs
Allocating device memory takes the driver up to milliseconds, freeing waits for the device to become
idle, and a full cache is emptied and rebuilt again and again. The kernel clears each page that it
gives, at its first use, one by one: up to microseconds for 4 KiB.

## How it is measured
On an accelerator, calls that allocate or free device memory in the steady steps, and the part of
their time in which no device works. Samples of the allocator's totals, where recorded, stand beside
it.

On a CPU, the kernel's counts of the pages that it gave to the process (minor faults), and of its
own CPU time for the process, of which no more counts than giving that many pages can take. Its
share of the CPU time is its share of the step, as far as the process runs then or wants a core,
and no part of waiting for input. A process that keeps what it is given grows, which is another
matter.

## Fix
On an accelerator, reduce what is alive (batch size, activation checkpointing, references kept by
accident), keep sizes constant (pad, drop the last batch), or let segments grow. On a CPU, tell the
allocator to keep what is freed, use one that does, or allocate less: operations in place.

## Fix risk
Other batch sizes change the training; checkpointing trades time for memory. An allocator that keeps
memory takes more of it, for as long as the process lives.

## When it abstains
Without recorded calls to the device API; on a CPU without the kernel's counts, which `stepwhy run`
samples every half second. It is incomplete without steps, where first allocations cannot be told
from repeated ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.columns.growing import collected
from stepwhy.diagnoses._look import (
    by_name,
    idle,
    mean_within,
    on_scale,
    steady,
    tells_steps,
    time_of,
)
from stepwhy.diagnoses._page_faults import find_page_faults
from stepwhy.diagnoses._rule import Rule, missing, saving
from stepwhy.diagnoses._steady import steady_pieces, strings_of
from stepwhy.findings import Evidence, Fix
from stepwhy.patterns import regex
from stepwhy.trace import Kind, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.diagnoses._page_faults import PageFaults
    from stepwhy.diagnoses._steady import Rows
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="allocator-pressure",
    family="memory",
    name="Memory allocated anew in the loop",
    found="Keep memory from step to step, instead of allocating it anew",
    clear="Steady steps use their memory again",
    needs=(("steps",),),
)

SHARE = 0.02  # of the step; a warm cache costs nothing at all, so that little is already telling
OFTEN = 0.5  # of the steady steps must contain such calls; a single one is late warm-up
LEAST_SAVED = 0.5  # of the exposed time; part of what is freed may be needed again at once
SHARE_OF_CPU = 0.10  # of the step; below it the cure gains less than what steps vary by
KEPT = 0.5  # of what is given; a process that keeps more than it gives back is one that grows

# Host memory (cudaMallocHost, cudaHostAlloc) is another matter.
_CALL = regex(r"^(cuda|hip|cuMem)(Malloc|Free|Alloc)(?!Host)(Async|Managed|Pitch)?(_v2|_ptsz)*$")


def diagnose(facts: Facts) -> Finding:
    """Judge device memory calls inside the steady steps, or pages that the kernel gives in them."""
    if not facts.has_accelerator:
        is_unknown = facts.trace.meta.device_expected
        return RULE.no_data(missing("device-activity")) if is_unknown else _on_cpu(facts)
    if "runtime-calls" not in facts.trace.meta.signals:
        return RULE.no_data(missing("runtime-calls"))
    if not tells_steps(facts):
        return RULE.incomplete("Without steps, first allocations and repeated ones look the same.")
    calls = _calls(facts)
    cost = on_scale(facts, mean_within(facts, time_of(facts, calls) & idle(facts)))
    evidence = _evidence(facts, calls)
    if cost < SHARE * facts.wall_ns or _steps_with(facts, calls) < OFTEN * facts.steady_count:
        return RULE.nothing(evidence[:1])
    gain = saving("remove device memory calls", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, _FIX, gain)


def _on_cpu(facts: Facts) -> Finding:
    faults = find_page_faults(facts)
    if faults is None:
        return RULE.no_data("The trace does not record page faults, as `stepwhy run` does.")
    working = facts.wall_ns - sum(facts.breakdown[c] for c in _WAITING)
    cost = min(faults.per_step_ns, working)
    evidence = _told(faults)
    if cost < SHARE_OF_CPU * facts.wall_ns or faults.kept_bytes > KEPT * faults.mapped_bytes:
        return RULE.nothing(evidence[:1])
    gain = saving("reuse host memory", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, _HOST, gain)


_WAITING = ("communication", "input_wait", "sync", "storage")


def _told(faults: PageFaults) -> tuple[Evidence, ...]:
    return (
        Evidence(
            "memory that the kernel gives anew per step, at least", faults.mapped_bytes, "bytes"
        ),
        Evidence("page faults per step", round(faults.per_step), "count"),
        Evidence("share of the CPU time in the kernel", faults.kernel_share, "fraction"),
    )


def _calls(facts: Facts) -> NDArray[np.int32]:
    kinds, names = (Kind.RUNTIME, Kind.SYNC), facts.trace.slices.name
    ours = [n for n in strings_of(facts, names, *kinds) if _CALL.match(facts.trace.string(n))]
    pieces = steady_pieces(facts, *kinds) if ours else ()
    return collected(rows[among(names[rows], ours)] for rows in pieces)


def _steps_with(facts: Facts, calls: Rows) -> int:
    steps = facts.steps
    at = facts.trace.slices.start_ns[calls]
    return len(np.unique(np.searchsorted(steps.starts, at, side="right")))


def _evidence(facts: Facts, calls: Rows) -> tuple[Evidence, ...]:
    count = len(calls) / max(facts.steady_count, 1)
    found = [Evidence("allocator calls per step", count, "count")]
    found.extend(
        Evidence("time in the call", facts.mean_ns(g.total_ns), "ns", g.name)
        for g in by_name(facts, calls)[:3]
    )
    for what in ("memory allocated", "memory reserved"):
        found.extend(_growth(facts, what))
    return tuple(found)


def _growth(facts: Facts, what: str) -> list[Evidence]:
    """Peak and growth of a counter over the steady steps, where it was sampled."""
    trace, window = facts.trace, steady(facts)
    at = trace.counters.time_ns
    inside = slice(*np.searchsorted(at, [window.starts[0], window.ends[-1]]).tolist())
    ours = among(trace.counters.name[inside], trace.strings_where([what]).tolist())
    values = trace.counters.value[inside][ours]
    if not len(values):
        return []
    return [
        Evidence(f"peak of {what}", int(values.max()), "bytes"),
        Evidence(f"growth of {what} over the steady steps", int(values[-1] - values[0]), "bytes"),
    ]


_FIX = Fix(
    "Reduce peak memory or keep tensor sizes constant, and let the allocator's segments grow "
    "instead of being replaced.",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py\n"
    "# and: a smaller batch, torch.utils.checkpoint,\n"
    "# DataLoader(..., drop_last=True)",
    "changes-memory",
)
_HOST = Fix(
    "Let the C library keep what is freed: large tensors in its heap, and a heap that is not "
    "trimmed. jemalloc and tcmalloc keep more, too. It is set before the program starts, or in its "
    "first lines.",
    "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=17179869184 python train.py\n"
    "# or, in Python with glibc, before anything large is allocated:\n"
    'libc = ctypes.CDLL("libc.so.6")\n'
    "libc.mallopt(-4, 0)          # M_MMAP_MAX: malloc maps no blocks\n"
    "libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: the heap stays",
    "changes-memory",
)
