"""Batches are copied to the device from pageable memory.

## What it means
The GPU cannot read pageable memory directly. The driver copies the data through a small pinned
buffer, and the call returns only when the last of the data is in that buffer.

## Why it costs
The copy is slower than the link allows, and keeps the host from launching work. It cannot overlap
with computation, not even on a CUDA stream of its own.

## How it is measured
The cost is the time of the steady steps in which a copy from pageable host memory to the device is
the only device activity. The profiler records the kind of memory of each copy.

## Fix
Let the loader pin its batches, and copy them without blocking. A copy overlaps with computation
only if it runs on a stream of its own.

## Fix risk
None for the result. Pinned memory cannot be swapped out, so too much of it leaves too little for
other programs.

## When it abstains
When device activity or the kind of host memory was not recorded, and on a run without copies from
the host.
"""

from __future__ import annotations

from stepwhy.analyse.activity.devices import known_bytes
from stepwhy.base.columns.sums import total_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.units import NS_PER_S
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import on_gpu, uses_loader
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.work_lines import times_at_lines
from stepwhy.trace import NULL, Copy, Kind

RULE = Rule(
    __name__,
    name="Copies from pageable memory",
    found="Copy batches from pinned memory",
    clear="Copies from pageable memory take little time",
    needs=(("device-activity",), ("device-time",), ("steps",)),
    accelerator_only=True,
    refines="exposed-transfer",
    least_share=0.05,  # of the step; below it the gain is less than the variation between steps
    least_saved=0.5,  # of the exposed time; copies from pinned memory are about twice as fast
    change="pin batches",
    edit=Edit("copies", "pinned", "h2d"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which only copies from pageable host memory run."""
    slices, rows = facts.trace.slices, facts.slices(Kind.MEMCPY, steady=True)
    rows = rows[slices.copy[rows] == Copy.H2D]
    if not len(rows):
        return RULE.not_applicable("No copies from the host to the device are recorded.")
    if (slices.pageable[rows] == NULL).all():
        return RULE.no_data(
            "copy-memory", "The trace does not record the kind of host memory of copies."
        )
    rows = rows[slices.pageable[rows] == 1]
    exposed = mean_within(facts, facts.partition.sets["transfer"] & time_of(facts, rows))
    cost = on_scale(facts, exposed, "transfer")
    evidence = _evidence(facts, rows, cost)
    # Weights that are offloaded do not come from a DataLoader, which could pin them.
    fix = RULE.fix("pytorch" if uses_loader(facts) and on_gpu(facts) else "any")
    return RULE.judge(facts, cost, evidence, fix, shown=2)


def _evidence(facts: Facts, rows: AnyRows, cost: int) -> tuple[Evidence, ...]:
    durations, share = facts.trace.slices.dur_ns, cost / max(facts.wall_ns, 1)
    calls = facts.launches.calls_of(rows)
    calls = calls[calls != NULL]
    found = [
        Evidence("share of the step copying from pageable memory alone", share, "fraction"),
        Evidence("copies per step", len(rows) / max(facts.steady_count, 1), "count"),
    ]
    if len(calls):
        blocked = facts.mean_ns(total_of(durations[calls]))
        found.append(Evidence("time in the calls that copy", blocked, "ns"))
    size, total_ns = known_bytes(facts.trace, rows), total_of(durations[rows])
    if size is not None and total_ns:
        found.append(Evidence("copied", facts.mean_ns(size), "bytes"))
        found.append(Evidence("copied per second", round(size * NS_PER_S / total_ns), "bytes"))
    return (*found, *times_at_lines(facts, rows))
