"""Most of the device memory is free while the step consists of tiny kernels.

## What it means
Kernels are so short that the host cannot launch them as fast as they run, and most of the device's
memory, which a larger batch could use, is free.

## Why it costs
Free memory costs nothing by itself. But a launch takes the same time whatever the size of its
kernel, so a larger batch has fewer launches per example.

## How it is measured
The peak memory of the process on the device, as recorded by the allocator or the driver, relative
to its total memory. And the time that the steady steps spend in kernels shorter than `SMALL_NS`,
including gaps between kernels (up to `ONE_LAUNCH_NS` each) in which the host prepares the next
launch.

## Fix
If gradients are accumulated over small batches, use fewer and larger ones. Otherwise raise the
batch size only if the training tolerates it, or let several trainings share the device. Without a
backward pass: batch requests that may wait.

## Fix risk
A larger batch means fewer and different steps per epoch: learning rate and schedule have to be
adapted, and the result may generalise worse. Fewer and larger batches under the same accumulated
gradient change results only by rounding, unless something depends on the batch (batch
normalisation).

## When it abstains
When used or total memory is unknown. It predicts no saving: the gain of a larger batch depends on
how long its kernels take.
"""

from __future__ import annotations

import numpy as np

from stepwhy.base.columns.types import Ints
from stepwhy.diagnose.shared.measure import steady
from stepwhy.diagnose.shared.memory_room import MemoryRoom, memory_room
from stepwhy.diagnose.shared.program import is_training
from stepwhy.diagnose.shared.rule import Evidence, Facts, Finding, Fix, Rule
from stepwhy.trace import Kind

RULE = Rule(
    __name__,
    name="Small kernels and free memory",
    found="Give each kernel more work: most of the memory is free",
    clear="Memory is in use, or kernels are large enough",
    needs=(("device-activity",), ("steps",)),
    accelerator_only=True,
)

FREE = 0.6  # of the memory; with less, a batch twice as large may not fit
SMALL_NS = 20_000  # ns; about what launching it takes the host
ONE_LAUNCH_NS = 200_000  # ns; an eager operation takes the host 10 to 100 us, profiled up to twice
SHARE = 0.5  # of the step; with less, most of it is work that grows with the batch anyway
FEWEST = 20  # kernels per step; fewer are not worth making larger


def diagnose(facts: Facts) -> Finding:
    """Judge small kernels beside free memory."""
    room = memory_room(facts)
    if room is None:
        return RULE.no_data("memory", "The trace does not record both used and total memory.")
    durations = _durations(facts)
    share = _small_share(facts, durations)
    evidence = _evidence(facts, room, durations, share)
    if room.free < FREE or share < SHARE or len(durations) < FEWEST * facts.steady_count:
        return RULE.nothing(evidence[:2])
    return RULE.finding(None, evidence, _fix(facts))


def _durations(facts: Facts) -> Ints:
    """Duration of each kernel in the steady steps on the first device, ns; (kernels,)."""
    rows = facts.in_steady(facts.leading[0].rows)
    kernels = rows[facts.trace.slices.kind[rows] == Kind.KERNEL]
    durations: Ints = facts.trace.slices.dur_ns[kernels]
    return durations


def _small_share(facts: Facts, durations: Ints) -> float:
    """Share of the steady steps in small kernels and in short gaps before launches."""
    time = steady(facts)
    gaps = time - facts.leading[0].busy
    between = np.minimum(gaps.ends - gaps.starts, ONE_LAUNCH_NS).sum()
    host = facts.share("dispatch") + facts.share("python")
    small = int(durations[durations <= SMALL_NS].sum())
    total = max(time.total_ns, 1)
    return min(small / total + min(float(between) / total, host), 1.0)


def _evidence(
    facts: Facts, room: MemoryRoom, durations: Ints, share: float
) -> tuple[Evidence, ...]:
    found = [
        Evidence("share of the memory that stays free", room.free, "fraction", room.name),
        Evidence("share of the step in small kernels and their launches", share, "fraction"),
    ]
    if len(durations):
        found.append(Evidence("kernels per step", facts.mean_ns(len(durations)), "count"))
        found.append(Evidence("median kernel", int(np.median(durations)), "ns"))
    found.append(Evidence("peak memory", room.held_bytes, "bytes", room.name))
    found.append(Evidence("total memory", room.capacity_bytes, "bytes", room.name))
    return tuple(found)


def _fix(facts: Facts) -> Fix:
    framework = facts.trace.meta.framework
    if not is_training(facts):
        return RULE.fix("inference" if framework == "pytorch" else "requests")
    return RULE.fix({"tensorflow": "tensorflow", "pytorch": "pytorch"}.get(framework, "any"))
