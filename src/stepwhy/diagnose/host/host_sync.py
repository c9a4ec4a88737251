"""The host waits for the device, and then the device waits for the host.

## What it means
The thread that runs the loop is in a call that returns only when the device has finished, while the
device has nothing left to do.

## Why it costs
Launches are queued, so the host can run ahead and the device never waits for it. A synchronisation
drains the queue: the host launches nothing until the call returns, and then the device has to wait.

## How it is measured
Time of the steady steps in which no device works and the driving thread is inside a synchronising
call, or inside a copy call that returned only after its copy had ended (pageable memory makes an
asynchronous copy wait). The report also shows the total time of these calls, most of which usually
overlaps with device work and costs nothing.

## Fix
Do not read device values in the loop (`.item()`, `.cpu()`, `print(loss)`, conditions on tensors),
or read them every n steps. Copy to and from pinned memory with `non_blocking=True`. In JAX, do not
call `block_until_ready()` in every step. The advice is for what blocks longest.

## Fix risk
None, provided that nothing uses a value before its copy has arrived.

## When it abstains
Without an accelerator or without recorded calls to the device API. `incomplete` without steps: in a
slice of a longer run, the host may wait for work that was launched before the trace began.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.base.columns.types import Ints
from stepwhy.base.patterns import regex
from stepwhy.base.units import format_bytes
from stepwhy.diagnose.shared.measure import (
    Group,
    by_name,
    grouped,
    has_known_steps,
    mean_within,
    name_of,
    nearest_of,
    time_of,
    times,
)
from stepwhy.diagnose.shared.program import is_pytorch, is_training, on_gpu
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.trace import NULL, Copy, Kind, among

RULE = Rule(
    __name__,
    name="The loop waits for the device",
    found="Avoid waiting for the device in the loop",
    clear="Waits for the device do not leave it idle",
    needs=(("device-activity",), ("runtime-calls", "sync-calls"), ("steps",)),
    accelerator_only=True,
    least_saved=0.0,  # the loop may have to wait for the same work elsewhere
    change="remove sync",
    edit=Edit("syncs", "gone"),
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which the host waits for an idle device."""
    calls = facts.in_steady(_calls(facts))
    cost = facts.breakdown["sync"]
    evidence = _evidence(facts, calls)
    if facts.share("sync") < SHARE:
        return RULE.nothing(evidence[:2])
    if not has_known_steps(facts):
        return RULE.incomplete(
            "steps",
            "The host waits for the device, but without steps it is unclear whether it does "
            "so in every step, or once for work that was launched before the trace began.",
            evidence,
        )
    return RULE.finding(cost, evidence, _fix(facts, calls))


def _calls(facts: Facts) -> Ints:
    """Synchronising calls of the driving threads, ascending; (calls,)."""
    is_sync = facts.trace.is_kind(Kind.SYNC)
    is_sync[facts.launches.blocking_calls] = True
    rows = np.flatnonzero(is_sync)
    return rows[among(facts.trace.slices.track[rows], facts.threads.all)]


def _evidence(facts: Facts, calls: Ints) -> tuple[Evidence, ...]:
    whole = mean_within(facts, time_of(facts, calls))
    found = [
        Evidence(
            "share of the step blocked while the device is idle", facts.share("sync"), "fraction"
        ),
        Evidence("time in synchronising calls, overlapped or not", whole, "ns"),
    ]
    found.extend(
        Evidence(f"time in {group.name}", facts.mean_ns(group.total_ns), "ns", where)
        for group, where in _by_api(facts, calls)[:3]
    )
    found.append(
        Evidence("synchronising calls per step", len(calls) / max(facts.steady_count, 1), "count")
    )
    found.extend(times(facts, "time blocked in this place", _places(facts, calls)[:3]))
    return tuple(found)


def _by_api(facts: Facts, calls: Ints) -> list[tuple[Group, str]]:
    """Calls by name, each with the operation that made the longest call."""
    slices = facts.trace.slices
    falling = calls[np.argsort(-slices.dur_ns[calls], kind="stable")]
    longest_calls = falling[np.unique(slices.name[falling], return_index=True)[1]]
    ops = nearest_of(facts, longest_calls, Kind.OP)
    longest = {
        name_of(facts, call): name_of(facts, op)
        for call, op in zip(longest_calls.tolist(), ops.tolist(), strict=True)
    }
    return [(group, longest[group.name]) for group in by_name(facts, calls)]


def _places(facts: Facts, calls: Ints) -> list[Group]:
    """Source lines of the calls, or the annotations around them if no line is known."""
    lines = facts.derived(slice_lines)[calls]
    around = nearest_of(facts, calls, Kind.ANNOTATION)
    names = [
        facts.trace.string(line) or name_of(facts, range_)
        for line, range_ in zip(lines.tolist(), around.tolist(), strict=True)
    ]
    durations = facts.trace.slices.dur_ns[calls].tolist()
    return [g for g in grouped(zip(names, durations, strict=True)) if g.name]


def _fix(facts: Facts, calls: Ints) -> Fix:
    """Advice for what blocks longest: a copy, the reading of a value, or an explicit wait."""
    if not len(calls):
        return RULE.fix("inference" if is_pytorch(facts) else "any")
    blocking = _longest(facts, calls)
    if _JAX_WAIT.search(name_of(facts, blocking)):
        return RULE.fix("jax")
    if _JAX_READS.search(name_of(facts, blocking)):
        return RULE.fix("jax-read")
    if not is_pytorch(facts):
        return RULE.fix("any")
    around = name_of(facts, int(nearest_of(facts, np.array([blocking]), Kind.OP)[0]))
    if _COPY.fullmatch(around) and on_gpu(facts):
        return _of_copy(facts, blocking)
    reads = not around or _READ.fullmatch(around)
    return RULE.fix("pytorch" if reads and is_training(facts) else "inference")


def _longest(facts: Facts, calls: Ints) -> int:
    """A call of the operation, or of the name without one, in which the host blocks longest."""
    ops = nearest_of(facts, calls, Kind.OP)
    names, durations = facts.trace.slices.name, facts.trace.slices.dur_ns[calls]
    keys = np.where(ops == NULL, -1 - names[calls].astype(np.int64), names[ops])
    _, place = np.unique(keys, return_inverse=True)
    most = int(np.argmax(np.bincount(place, weights=durations)))
    return int(calls[place == most][np.argmax(durations[place == most])])


def _of_copy(facts: Facts, call: int) -> Fix:
    """Advice for a copy that blocks, by its direction."""
    launches, slices = facts.launches, facts.trace.slices
    work = launches.device_rows[launches.call_row == call]
    if len(work) and slices.copy[work[0]] == Copy.H2D:
        return RULE.fix("to-device")
    size = int(slices.bytes[work[0]]) if len(work) else NULL
    of_bytes = f" ({format_bytes(size)})" if size > 0 else ""
    return RULE.fix("to-host", of_bytes=of_bytes)


# Source: operations of PyTorch that read one value, or copy a tensor between devices.
_READ = regex(r"aten::(item|_local_scalar_dense|is_nonzero|equal)")
_COPY = regex(r"aten::(copy_|_to_copy|to|cpu)")
_JAX_WAIT = regex(r"block_until_ready")
_JAX_READS = regex(r"asarray\(jax\.Array\)")  # by float() as well
