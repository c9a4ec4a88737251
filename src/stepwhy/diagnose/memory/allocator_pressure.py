"""The framework calls the device's allocator inside the steps, instead of reusing its memory.

## What it means
The framework keeps freed device memory for reuse. When it still calls the device's own allocator in
steady steps, its cache does not fit: memory is short, fragmented, or sizes change all the time.

## Why it costs
Allocating device memory takes the driver up to milliseconds, freeing waits for the device to become
idle, and a full cache is emptied and rebuilt again and again.

## How it is measured
Calls that allocate or free device memory in the steady steps, and the part of their time in which
no device works. The fix can save all of their time on the threads that launch work, up to the time
in which the device is idle: after a call, the host no longer runs ahead of the device. Samples of
the allocator's totals are listed beside it, where recorded.

## Fix
Reduce peak memory (batch size, activation checkpointing, references kept by accident), keep sizes
constant (pad, drop the last batch), or let segments grow.

## Fix risk
Other batch sizes change the training; checkpointing trades time for memory.

## When it abstains
Without recorded calls to the device API. It is incomplete without steps, where first allocations
cannot be distinguished from repeated ones. Runs on a CPU have `page-faults` instead.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows, Ints
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import (
    by_name,
    has_known_steps,
    idle,
    idle_ns,
    mean_within,
    on_scale,
    steady,
    time_of,
    times,
)
from stepwhy.diagnose.shared.program import is_pytorch, on_gpu
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import strings_of
from stepwhy.trace import Kind, among

RULE = Rule(
    __name__,
    name="Device memory allocated in every step",
    found="Reuse device memory from step to step, instead of allocating it again",
    clear="Steady steps reuse their device memory",
    needs=(("steps",),),
    accelerator_only=True,
    least_share=0.02,  # of the step; a warm cache costs nothing, so even this little is a sign
    edit=Edit("memory", "gone"),
)

OFTEN = 0.5  # of the steady steps must contain such calls; a single one is late warm-up
LEAST_SAVED = 0.5  # of the exposed time; part of what is freed may be needed again at once

# Calls for host memory (cudaMallocHost, cudaHostAlloc) do not count.
_CALL = regex(r"^(cuda|hip|cuMem)(Malloc|Free|Alloc)(?!Host)(Async|Managed|Pitch)?(_v2|_ptsz)*$")


def diagnose(facts: Facts) -> Finding:
    """Judge the calls to the device's allocator inside the steady steps."""
    if "runtime-calls" not in facts.trace.meta.signals:
        return RULE.lacks("runtime-calls")
    if not has_known_steps(facts):
        return RULE.incomplete(
            "enough-steps", "Without steps, first allocations and repeated ones look the same."
        )
    calls = _calls(facts)
    cost = on_scale(facts, mean_within(facts, time_of(facts, calls) & idle(facts)))
    evidence = _evidence(facts, calls)
    starts = facts.trace.slices.start_ns[calls]
    affected = len(distinct(np.searchsorted(facts.steps.starts, starts, side="right")))
    is_rare = affected < OFTEN * facts.steady_count
    most = max(cost, _most_saved_ns(facts, calls))
    gain = saving("remove device memory calls", LEAST_SAVED * cost, most)
    gain = replace(gain, note=_MORE) if most > cost else gain
    fix = RULE.fix("pytorch" if is_pytorch(facts) and on_gpu(facts) else "any")
    return RULE.judge(facts, cost, evidence, fix, shown=1, unless=is_rare, gain=gain)


def _most_saved_ns(facts: Facts, calls: AnyRows) -> int:
    """Time per step that the driving threads save without the calls, as far as the device idles.

    A call also delays what the host launches after it: the device idles then, until the host runs
    ahead again. A profiler hardly lengthens such calls.
    """
    driving = calls[np.isin(facts.trace.slices.track[calls], facts.threads.all)]
    return min(mean_within(facts, time_of(facts, driving)), idle_ns(facts))


def _calls(facts: Facts) -> Ints:
    kinds, names = (Kind.RUNTIME, Kind.SYNC), facts.trace.slices.name
    matching = [n for n in strings_of(facts, names, *kinds) if _CALL.match(facts.trace.string(n))]
    rows = facts.slices(*kinds, steady=True)
    calls: Ints = rows[among(names[rows], matching)]
    return calls


def _evidence(facts: Facts, calls: AnyRows) -> tuple[Evidence, ...]:
    count = len(calls) / max(facts.steady_count, 1)
    found = [Evidence("allocator calls per step", count, "count")]
    found.extend(times(facts, "time in the call", by_name(facts, calls)[:3]))
    for what in ("memory allocated", "memory reserved"):
        found.extend(_growth(facts, what))
    return tuple(found)


def _growth(facts: Facts, what: str) -> list[Evidence]:
    """Peak and growth of a counter over the steady steps; none if it was not sampled."""
    trace, window = facts.trace, steady(facts)
    if not len(window.starts):  # a damaged record may have no steady step
        return []
    at = trace.counters.time_ns
    inside = slice(*np.searchsorted(at, [window.starts[0], window.ends[-1]]).tolist())
    is_counter = among(trace.counters.name[inside], trace.strings_where([what]).tolist())
    values = trace.counters.value[inside][is_counter]
    if not len(values):
        return []
    return [
        Evidence(f"peak of {what}", int(values.max()), "bytes"),
        Evidence(f"growth of {what} over the steady steps", int(values[-1] - values[0]), "bytes"),
    ]


_MORE = "It can save more than its cost: the host runs ahead of the device again."
