"""Copies run while nothing computes.

## What it means
Data is copied between host and device, or between devices, while no kernel runs.

## Why it costs
Copy engines work in parallel with the compute units. A copy that does not overlap with computation
adds its whole time to the step. From pageable memory it is also slower, because it passes through a
staging buffer.

## How it is measured
Time of the steady steps in which a copy is the only device activity, with bytes and bandwidth for
each direction. Copies within one device do not count: in the breakdown they belong to computation.
JAX first copies an array of NumPy into memory that the GPU can read. While it does, and no kernel
runs until it is done, that time counts as well.
On CPUs, JAX copies arrays of NumPy in threads of its own. Where stepwhy observed a JAX program, it
names the line that copies most, and whether the array is the same in each step.

## Fix
Pin host memory and copy without blocking; copy the next batch on a stream of its own while this one
is computed; send smaller types (bytes instead of floats, normalised on the device); keep constant
data on the device.

## Fix risk
None for the result. Pinned memory cannot be swapped out, so too much of it leaves too little for
other programs.

## When it abstains
When device activity was not recorded, and on a run without copies.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from stepwhy.analyse.activity.devices import known_bytes
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.sums import total_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.units import NS_PER_S
from stepwhy.diagnose.shared.measure import mean_within, on_scale
from stepwhy.diagnose.shared.program import on_gpu, uses_loader
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import Copy, Kind

RULE = Rule(
    __name__,
    name="Exposed copies",
    found="Overlap copies with computation",
    clear="Copies overlap with computation, or are short",
    needs=(("device-activity",), ("device-time",), ("steps",)),
    least_share=0.05,  # of the step; copies are easy to overlap, so a small one is worth reporting
    # Of the exposed time; the copy before the first kernel of a step cannot be hidden.
    least_saved=0.5,
    change="remove transfer",
    edit=Edit("copies", "overlapped"),
)


MOSTLY = 0.8  # of the copies are unchanged; the first one of several arrays is not
LEAST_UNCHANGED = 0.8  # of the cost; smaller arrays may still be copied

# Bytes per second. A thousand times the speed of any link: such a size or time is damaged.
_TOO_FAST = 10**15
_DIRECTIONS = {
    Copy.H2D: "host to device",
    Copy.D2H: "device to host",
    Copy.PEER: "between devices",
    Copy.H2H: "within the host",
    Copy.NONE: "in an unknown direction",
}


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which only copies run."""
    rows = facts.slices(Kind.MEMCPY, steady=True)
    rows = rows[facts.trace.slices.copy[rows] != Copy.D2D]  # counts as computation
    if not len(rows):
        if not facts.has_accelerator:
            return RULE.not_applicable("No copies between devices were timed.")
        return RULE.nothing()
    cost = facts.breakdown["transfer"]
    evidence = _evidence(facts, rows)
    if facts.share("transfer") < RULE.least_share:
        return RULE.nothing(evidence[:1])
    copied = host_copies(facts)
    if copied is not None and _longest(facts) == Copy.H2D:
        return _of_arrays(cost, evidence, copied)
    return RULE.finding(cost, evidence, _fix(facts))


def _of_arrays(cost: int, evidence: tuple[Evidence, ...], copied: HostCopies) -> Finding:
    """The finding for arrays of NumPy that a JAX program copies."""
    evidence = (
        *evidence,
        Evidence("copied from NumPy arrays per step", copied.bytes_per_step, "bytes", copied.line),
        Evidence("share of these copies that repeat the one before", copied.unchanged, "fraction"),
    )
    if copied.unchanged < MOSTLY:
        return RULE.finding(cost, evidence, RULE.fix("jax-ahead"))
    gain = saving("copy once", LEAST_UNCHANGED * cost, cost)
    edit, title = Edit("copies", "gone", "h2d"), "Copy to the device once what does not change"
    return RULE.finding(cost, evidence, RULE.fix("jax-once"), gain, edit, title=title)


def _evidence(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    found = [Evidence("share of the step spent copying alone", facts.share("transfer"), "fraction")]
    if staging_ns := _staging_ns(facts):
        found.append(Evidence("time in which the host prepares copies", staging_ns, "ns"))
    slices = facts.trace.slices
    directions = sorted(
        {int(c) for c in slices.copy[rows]},
        key=lambda c: -total_of(slices.dur_ns[rows[slices.copy[rows] == c]]),
    )
    for direction in directions:
        found.extend(_direction(facts, rows[slices.copy[rows] == direction], Copy(direction)))
    return (*found, *times_at_lines(facts, rows))


def _staging_ns(facts: Facts) -> int:
    """Time of the mean step in which nothing but the host prepares copies, ns."""
    staging = facts.partition.sets["transfer"] & facts.evidence["transfer"]
    for activity in facts.leading:
        staging = staging - activity.transfer
    return on_scale(facts, mean_within(facts, staging), "transfer")


def _direction(facts: Facts, rows: AnyRows, direction: Copy) -> list[Evidence]:
    slices, words = facts.trace.slices, _DIRECTIONS[direction]
    total_ns = total_of(slices.dur_ns[rows])
    found = [Evidence(f"time of copies {words}", facts.mean_ns(total_ns), "ns")]
    size = known_bytes(facts.trace, rows)
    if size is not None:
        found.append(Evidence(f"copied {words}", facts.mean_ns(size), "bytes"))
        if total_ns and (rate := round(size * NS_PER_S / total_ns)) < _TOO_FAST:
            found.append(Evidence(f"copied per second {words}", rate, "bytes"))
    known = rows[slices.pageable[rows] >= 0]
    if len(known):
        share = total_of(slices.dur_ns[known[slices.pageable[known] == 1]]) / max(total_ns, 1)
        found.append(
            Evidence(f"share of it from or to pageable memory, {words}", share, "fraction")
        )
    return found


def _fix(facts: Facts) -> Fix:
    if facts.trace.meta.framework == "tensorflow":
        return RULE.fix("tensorflow" if facts.has_accelerator else "tasks")
    longest = _longest(facts)
    if longest == Copy.H2D and uses_loader(facts) and on_gpu(facts):
        return RULE.fix("loader")
    return RULE.fix({Copy.H2D: "h2d", Copy.D2H: "d2h", Copy.PEER: "peer"}.get(longest, "any"))


def _longest(facts: Facts) -> Copy:
    """The direction in which most time is spent."""
    slices, rows = facts.trace.slices, facts.slices(Kind.MEMCPY, steady=True)
    rows = rows[slices.copy[rows] != Copy.D2D]
    times = np.bincount(slices.copy[rows], slices.dur_ns[rows])
    return Copy(int(times.argmax()))


# Large NumPy arrays that a JAX program copies to the device.
class HostCopies(msgspec.Struct, frozen=True):
    """Copies of NumPy arrays in the steps.

    Args:
        line: Line of the program that copies most.
        bytes_per_step: What it copies in a step.
        unchanged: Share of its copies that repeat the one before, 0..1.
    """

    line: str
    bytes_per_step: int
    unchanged: float


def host_copies(facts: Facts) -> HostCopies | None:
    """The copies of the line that copies most in the observed steps; None if there are none."""
    events, marks = facts.trace.events, facts.trace.marks
    rows = rows_of_kinds(facts.trace, "copy")
    step = np.searchsorted(marks.start_ns, events.start_ns[rows], side="right") - 1
    rows, step = rows[step > 0], step[step > 0]
    if not len(rows):
        return None
    sizes: Counter[int] = Counter()
    for line, size in zip(events.source[rows].tolist(), events.count[rows].tolist(), strict=True):
        sizes[line] += size
    line, size = sizes.most_common(1)[0]
    of_line = rows[events.source[rows] == line]
    unchanged = np.isin(events.reason[of_line], facts.trace.strings_where({"unchanged"}))
    # The log ends after so many copies, so not all steps of a long run are in it.
    steps = int(step[-1] - step[0]) + 1
    return HostCopies(facts.trace.string(line), round(size / steps), float(unchanged.mean()))
