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
or read them every n steps; copy from pinned memory with `non_blocking=True`.

## Fix risk
None, provided that nothing uses a value before its copy has arrived.

## When it abstains
Without an accelerator or without recorded calls to the device API. `incomplete` without steps: in a
slice of a longer run, the host may wait for work that was launched before the trace began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.diagnoses.shared.measure import (
    Group,
    by_name,
    grouped,
    has_known_steps,
    mean_within,
    name_of,
    nearest_of,
    source_lines,
    time_of,
    times,
)
from stepwhy.diagnoses.shared.program import is_pytorch, is_training
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Edit, Evidence, Fix
from stepwhy.trace import Kind, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="host-sync",
    family="host",
    name="The loop waits for the device",
    found="Avoid waiting for the device in the loop",
    clear="Waits for the device do not leave it idle",
    needs=(("device-activity",), ("runtime-calls", "sync-calls"), ("steps",)),
    accelerator_only=True,
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
LEAST_SAVED = 0.0  # the loop may have to wait for the same work elsewhere


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
    gain = saving("remove sync", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, _fix(facts), gain, Edit("syncs", "gone"))


def _calls(facts: Facts) -> NDArray[np.int64]:
    """Synchronising calls of the driving threads, ascending; (calls,)."""
    is_sync = facts.trace.is_kind(Kind.SYNC)
    is_sync[facts.launches.blocking_calls] = True
    rows = np.flatnonzero(is_sync)
    return rows[among(facts.trace.slices.track[rows], facts.threads.all)]


def _evidence(facts: Facts, calls: NDArray[np.int64]) -> tuple[Evidence, ...]:
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


def _by_api(facts: Facts, calls: NDArray[np.int64]) -> list[tuple[Group, str]]:
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


def _places(facts: Facts, calls: NDArray[np.int64]) -> list[Group]:
    """Source lines of the calls, or the annotations around them if no line is known."""
    lines, around = source_lines(facts, calls), nearest_of(facts, calls, Kind.ANNOTATION)
    names = [
        facts.trace.string(line) or name_of(facts, range_)
        for line, range_ in zip(lines.tolist(), around.tolist(), strict=True)
    ]
    durations = facts.trace.slices.dur_ns[calls].tolist()
    return [g for g in grouped(zip(names, durations, strict=True)) if g.name]


def _fix(facts: Facts) -> Fix:
    if not is_pytorch(facts):
        return _ANY
    return _PYTORCH if is_training(facts) else _INFERENCE


_ANY = Fix(
    (
        "Do not read values from the device inside the loop: fetch them every few steps, in a "
        "single call."
    ),
    "",
    "none",
)
_INFERENCE = Fix(
    "Do not read values from the device inside the loop: collect results there, and read them at "
    "once. Copy to and from pinned memory without blocking.",
    "",
    "none",
)
_PYTORCH = Fix(
    "Do not read values from the device inside the loop: accumulate them on the device and "
    "read them every few steps. Copy to and from pinned memory without blocking.",
    "running_loss += loss.detach()          # stays on the device\n"
    "if step % 100 == 0:\n"
    "    print(running_loss.item())         # waits once",
    "none",
)
