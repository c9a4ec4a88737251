"""The training thread waits for a disk from which its data is read.

## What it means
The training loop reads files that are not in the page cache: the data is larger than the memory, or
each sample is read once. While a read is under way, the thread sleeps.

## Why it costs
A disk needs a tenth of a millisecond (SSD, network volume) to ten (hard disk) for a read, however
small. Hundreds of small reads per batch add up, and each waits for the one before it.

## How it is measured
From the kernel's accounting, stepwhy knows how long the main thread was blocked: neither running
nor waiting for a core. `stepwhy run` also samples what the thread waits for. The cost is the
blocked time multiplied by the share of these samples in which it waited for a disk. The pattern is
found only if the process read at least 64 KiB per step from disks, and more than it wrote or
swapped. The saving is the part of the cost that reading ahead can overlap with the rest of the
step. Beside operations on CPUs, worker processes may save nothing, because they compete for the
cores and hand batches over through shared memory: the saving then starts at zero.

## Fix
Read ahead of the step, with several reads at a time: workers, parallel reads, prefetching. Store
what is read together side by side, so that few large reads replace many small ones. Keep files in
memory if they fit, and copy those of a network volume to a local disk.

## Fix risk
Batches that are read ahead take memory.

## When it abstains
Without the state of the main thread, which `stepwhy run` records on Linux. `incomplete` if the
thread was blocked for long while the process read from disks, but was seen waiting too few times to
tell what for, as in a short run. It does not look at worker processes and threads of an input
pipeline.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.input.overlap import overlapped_ns
from stepwhy.analyse.steps.sampled_lines import FRAMEWORKS, role_lines
from stepwhy.base.units import format_fraction
from stepwhy.diagnose.input.shared.loaders import without_repeats
from stepwhy.diagnose.shared.program import uses_loader
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.sampled import during_steps
from stepwhy.trace import SampleRole

RULE = Rule(
    __name__,
    name="Waiting for a disk",
    found="Read ahead of the step: it waits for a disk",
    clear="The step does not wait for a disk",
    needs=(("step-log",), ("steps",)),
    refines="input-bound",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
FEWEST_WAITS = 5  # samples in which the thread waited; fewer give no reliable share
FEWEST_BYTES = 65_536  # per step; what a step logs or imports late is less than that
FAST_BYTES_PER_S = 1e9  # while waiting; disks read small pieces more slowly than this
LEAST_SAVED = 0.5  # of what can be hidden; reading ahead competes for cores
WORKERS = 2  # of a DataLoader, as advised

_SHOWN = 2


class _Waits(msgspec.Struct, frozen=True):
    """Waits of the main thread during the steps.

    Args:
        blocked: Share of the time in which it was blocked.
        of_disk: Share of its waits that were for a disk.
        seen: Number of waits that were seen.
        read_bytes: Bytes read from disks, per step.
        other_bytes: Bytes written, or read from swap, per step.
    """

    blocked: float
    of_disk: float
    seen: int
    read_bytes: float
    other_bytes: float

    @property
    def share(self) -> float:
        """Share of the time in which it waited for a disk."""
        return self.blocked * self.of_disk


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which the main thread waits for a disk."""
    waits = _waits(facts)
    if waits is None:
        return RULE.no_data("thread-states", "The state of the main thread was not recorded.")
    working_ns = facts.breakdown["compute"] + facts.breakdown["communication"]
    idle_ns = max(facts.wall_ns - working_ns, 0)
    cost = min(round(waits.share * facts.wall_ns), idle_ns)
    evidence = _evidence(facts, waits)
    is_read = waits.read_bytes >= max(FEWEST_BYTES, waits.other_bytes)
    blocked_ns = min(waits.blocked * facts.wall_ns, idle_ns)
    if waits.seen < FEWEST_WAITS and is_read and blocked_ns >= SHARE * facts.wall_ns:
        reason = _TOO_FEW.format(format_fraction(waits.blocked), waits.seen)
        return RULE.incomplete("thread-states", reason, evidence[2:3])
    if cost < SHARE * facts.wall_ns or not is_read:
        return RULE.nothing(evidence[:1])
    readers = WORKERS if uses_loader(facts) else 1
    hidden = facts.wall_ns - overlapped_ns(facts.wall_ns, cost, cost, readers)
    gain = saving("read ahead", LEAST_SAVED * hidden, cost)
    edit = Edit("input", "workers", count=readers) if readers > 1 else Edit("input", "prefetch")
    return RULE.finding(cost, evidence, _fix(facts, waits), gain, edit)


def _waits(facts: Facts) -> _Waits | None:
    """The waits during the steps; None if they were not recorded."""
    ran = during_steps(facts, "main_ran_ns").share_of_time
    disk, other = (during_steps(facts, n).growth for n in ("disk_waits", "other_waits"))
    if ran is None or disk is None or other is None:
        return None
    read, *others = (
        (during_steps(facts, name).per_second or 0.0) * facts.wall_ns / 1e9
        for name in ("disk_read_bytes", "disk_written_bytes", "machine_swapped_in_bytes")
    )
    return _Waits(1 - ran, disk / max(disk + other, 1), disk + other, read, max(others))


def _evidence(facts: Facts, waits: _Waits) -> tuple[Evidence, ...]:
    lines = role_lines(facts.sampled, SampleRole.DRIVER, FRAMEWORKS)[:_SHOWN]
    rate = waits.read_bytes / max(waits.share * facts.wall_ns, 1) * 1e9
    seen = f"of {waits.seen} waits that were seen"
    return (
        Evidence("share of the time in which the thread waits for a disk", waits.share, "fraction"),
        Evidence("share of its waits that are for a disk", waits.of_disk, "fraction", seen),
        Evidence("read from disks per step", round(waits.read_bytes), "bytes"),
        Evidence("read per second of waiting", round(rate), "bytes"),
        *(Evidence("samples of the thread at", part, "fraction", line) for line, part in lines),
    )


def _fix(facts: Facts, waits: _Waits) -> Fix:
    is_slow = waits.read_bytes * 1e9 < FAST_BYTES_PER_S * waits.share * facts.wall_ns
    fix = RULE.fix("any")
    if uses_loader(facts):
        fix = without_repeats(RULE.fix("torch"), facts)
    elif facts.trace.meta.framework == "tensorflow":
        fix = RULE.fix("tf")
    return replace(fix, text=f"{fix.text} {_SMALL if is_slow else _LARGE}")


_TOO_FEW = (
    "The main thread was blocked for {} of the time, and the process read from disks, but too few "
    "of its waits were seen ({}) to tell what it waits for."
)
_SMALL = (
    "Fewer, larger reads take less time than many small ones: store what is read together side by "
    "side, and shuffle whole chunks."
)
_LARGE = (
    "The disk may be near its limit: if that does not help, read fewer bytes, or keep the data in "
    "memory if it fits."
)
