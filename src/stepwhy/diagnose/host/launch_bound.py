"""The device is idle because the host cannot launch work fast enough.

## What it means
Between two kernels the device is idle while the host prepares the next launch: Python, the
framework's dispatch and the launch call take longer than the previous kernel.

## Why it costs
Each operation takes the host some microseconds, whatever its size. If kernels are shorter than
that, the host determines the time of the step, and a faster device gains nothing.

## How it is measured
The sum of the gaps between consecutive device activities in the steady steps, as far as the driving
thread executes framework code, launch calls or Python in them (waiting for input, synchronisation
and compilation do not count). A gap before work that was launched before the gap began does not
count: the device had it, and needs some microseconds between two kernels. Each gap is capped at
`ONE_LAUNCH_NS`: a longer one is not the cost of launching one operation but other host work, and
appears only in the evidence. The time of an optimizer that updates each parameter by itself does
not count where `unfused-optimizer` finds it.

## Fix
Launch less: record the step once and replay it (CUDA graphs), let a compiler fuse operations, use
a fused optimizer, or give each launch more work with a larger batch.

## Fix risk
Graphs need static shapes and addresses; a compiler may round differently; a larger batch needs
memory and changes the training.

## When it abstains
Without an accelerator, without host activity, or with fewer than `FEWEST_LAUNCHES` launches, which
are too few for a rate.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from stepwhy.base.columns.groups import count_distinct
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.columns.types import Ints, Mask
from stepwhy.diagnose.shared.ddp import without_copies
from stepwhy.diagnose.shared.measure import on_scale, steady
from stepwhy.diagnose.shared.optimizer_loop import costly_loop_time
from stepwhy.diagnose.shared.precision import faster_type
from stepwhy.diagnose.shared.program import (
    is_compiled,
    is_pytorch,
    is_training,
    on_gpu,
    replays_graphs,
    uses_sessions,
)
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Kernels are shorter than their launches",
    found="Launch fewer or larger kernels",
    clear="The host launches work fast enough",
    needs=(("device-activity",), ("host-ops", "runtime-calls"), ("steps",)),
    accelerator_only=True,
    least_saved=0.3,  # of the gaps; graphs and fusion rarely capture all of a step
    change="remove dispatch",
    edit=Edit("dispatch", "gone"),
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
ONE_LAUNCH_NS = 200_000  # ns; an eager operation takes the host 10 to 100 us, profiled up to twice
FEWEST_LAUNCHES = 10  # device slices in all steady steps; fewer show no rate


def diagnose(facts: Facts) -> Finding:
    """Judge the gaps between device slices in which the host is busy launching."""
    rows = steady_work(facts)
    gaps = _host_gaps(facts, rows)
    if len(rows) < FEWEST_LAUNCHES:
        return RULE.incomplete(
            "enough-operations", "Too little device work is recorded to measure a launch rate."
        )
    # A longer gap counts only as much as one launch.
    launching = facts.mean_ns(float(np.minimum(gaps, ONE_LAUNCH_NS).sum()))
    cost = on_scale(facts, launching, "dispatch", "python")
    evidence = _evidence(facts, rows, gaps, cost)
    if cost < SHARE * facts.wall_ns:
        clear = RULE.nothing(evidence[:2])
        if facts.share("dispatch") < _MUCH:
            return clear
        is_of_optimizer = len(costly_loop_time(facts)) > 0
        return replace(clear, title=_OF_OPTIMIZER if is_of_optimizer else _LONG_GAPS)
    return RULE.finding(cost, evidence, _fix(facts))


def _host_gaps(facts: Facts, rows: NDArray[np.int32]) -> Ints:
    """Time that the host works in each gap that the device waits for a launch in, ns; (gaps,)."""
    busy = Intervals.empty()
    for activity in facts.leading:
        busy = busy | activity.busy
    sets = facts.partition.sets
    working = ((sets["dispatch"] | sets["python"]) & steady(facts)) - costly_loop_time(facts)
    gaps = working.within(busy.ends[:-1], busy.starts[1:])
    return gaps[(gaps > 0) & ~_is_queued(facts, rows, busy)]


def _is_queued(facts: Facts, rows: NDArray[np.int32], busy: Intervals) -> Mask:
    """Whether the work after each gap was launched before the gap began; (gaps,).

    Where the launch is not known, it was not.
    """
    slices = facts.trace.slices
    rows = rows[np.argsort(slices.start_ns[rows], kind="stable")]
    if not len(rows):
        return np.zeros(max(len(busy.starts) - 1, 0), dtype=bool)
    starts, after = slices.start_ns[rows], busy.starts[1:]
    first = np.minimum(np.searchsorted(starts, after), len(rows) - 1)
    calls = facts.launches.calls_of(rows)[first]
    is_known = (starts[first] == after) & (calls != NULL)
    launched = slices.start_ns[calls] + slices.dur_ns[calls]
    is_queued: Mask = is_known & (launched <= busy.ends[:-1])
    return is_queued


def _evidence(facts: Facts, rows: NDArray[np.int32], gaps: Ints, cost: int) -> tuple[Evidence, ...]:
    idle = facts.breakdown["dispatch"] + facts.breakdown["python"]
    steps, launched = max(facts.steady_count, 1), _launched(facts, rows)
    found = [
        Evidence(
            "share of the step the device waits for launches", cost / facts.wall_ns, "fraction"
        ),
        Evidence("launches per step", launched / steps, "count"),
    ]
    if launched < len(rows):
        found.append(Evidence("kernels and copies per step", len(rows) / steps, "count"))
    kernels = rows[facts.trace.slices.kind[rows] == Kind.KERNEL]
    if len(kernels):
        median = int(np.median(facts.trace.slices.dur_ns[kernels], overwrite_input=True))
        found.append(Evidence("median duration of a kernel", median, "ns"))
    if len(gaps):
        found.append(Evidence("median gap before a launch", int(np.median(gaps)), "ns"))
    found.append(Evidence("time of the step in host work while the device is idle", idle, "ns"))
    return tuple(found)


def _launched(facts: Facts, rows: NDArray[np.int32]) -> int:
    """How many calls launched some device slices: that of a graph launches many."""
    calls = facts.launches.calls_of(rows)
    unknown = int(np.count_nonzero(calls == NULL))
    return count_distinct(calls) - (unknown > 0) + unknown


def _fix(facts: Facts) -> Fix:
    """What launches less, by framework, device, and whether the program trains."""
    if facts.trace.meta.framework == "tensorflow":
        return RULE.fix("sessions" if uses_sessions(facts) else "tensorflow")
    if not is_pytorch(facts) or not on_gpu(facts):
        return RULE.fix("jax" if facts.trace.meta.framework == "jax" else "any")
    if is_compiled(facts):
        return RULE.fix("rest")
    if replays_graphs(facts):
        return RULE.fix("graphs")
    if faster_type(facts) == "none":
        return RULE.fix("old")  # the compiler needs compute capability 7.0, as matrix units do
    if is_training(facts) is False:
        return RULE.fix("inference")
    return without_copies(RULE.fix("training"), facts)


_MUCH = 2 * SHARE
_LONG_GAPS = "Launching takes little of the step; the device idles in longer gaps"
_OF_OPTIMIZER = "Launching takes little of the step outside of the optimizer"
