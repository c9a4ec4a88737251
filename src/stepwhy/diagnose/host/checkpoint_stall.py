"""Training stops while a checkpoint is saved.

## What it means
The loop saves the model, and often the state of the optimizer, so often that writing takes a large
part of the time. Asynchronous saves block, too: while they copy the state, and while the one before
is still being written. So do saves by a child process that the loop waits for.

## Why it costs
The state is copied to the memory of the host, serialised and written, usually on the thread that
drives the loop. Meanwhile the device has nothing to do.

## How it is measured
stepwhy logs how long each saving call blocks the main thread, and the line that called it: calls of
`torch.save`, `torch.distributed.checkpoint`, safetensors, Keras, `tf.train` (`Saver`, `Checkpoint`,
`CheckpointManager`), SavedModel, Orbax, Flax, pickle and NumPy. Where a callback or hook of a
framework saves (`ModelCheckpoint`, `BackupAndRestore`, `CheckpointSaverHook`), the line is that
which made it. If a fork makes such a call, a wait
for its end counts like the call itself. The cost is their time in steady steps, as a mean over all
of these steps. In the trace of another profiler, the cost is the time of the mean step in which the
host saves and the device is idle.

## Fix
Save every few hundred steps, or after a time, not in every step. Write in the background.

## Fix risk
None. After a crash, the steps since the last checkpoint are repeated.

## When it abstains
If the steps were not observed by `stepwhy run` and the trace shows no calls of libraries: it has no
Python frames, and no operations of TensorFlow. `incomplete` if child processes save that the loop
polls: whether it waits between two polls is not recorded.
"""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.steps.stalls import StepEvents, rows_of_kinds
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.base.units import quantise
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import CALLS_UNSEEN, shows_calls, uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, untimed
from stepwhy.diagnose.shared.steady_events import (
    SHOWN,
    SUMMARY,
    cost_per_step,
    recorded_calls,
    steady_events,
    summary,
)
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Waiting for checkpoints",
    found="Save checkpoints less often",
    clear="Saving checkpoints takes little time",
    without_steps=True,  # the log alone shows what stalls the loop
    least_saved=0.9,  # of the cost; checkpoints that remain still take time
    change="save less often: remove storage",
    edit=Edit("storage", "gone"),
)

SHARE = 0.05  # of a recorded step; in a log, `StepEvents.recur` decides
AFTER = 0.01  # of the time, which the interval that is advised leaves to saving
_ASYNCHRONOUS = regex(r"[Aa]sync|wait_until_finished")
_IN_CHILD = regex(r" in a child process$")


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which the loop saves."""
    is_logged = "step-log" in facts.trace.meta.signals
    inside = steady_events(facts, rows_of_kinds(facts.trace, "save"))
    if is_logged and inside.recur:
        return _from_log(facts, inside)
    if (abstained := untimed(RULE, facts)) is not None:
        return abstained
    rows = facts.slices(Kind.STORAGE, steady=True)
    # Summaries are logs: see logging-stall.
    rows = rows[~facts.trace.matches(facts.trace.slices.name[rows], SUMMARY.search)]
    alone = time_of(facts, rows) & facts.partition.sets["storage"]
    cost = on_scale(facts, mean_within(facts, alone))
    if cost >= SHARE * facts.wall_ns and len(rows):
        return _from_trace(facts, rows, cost)
    if not is_logged and not len(rows) and not shows_calls(facts):
        return RULE.no_data("stacks", CALLS_UNSEEN)
    polled = steady_events(facts, rows_of_kinds(facts.trace, "polled-save"))
    if is_logged and polled.recur:
        return RULE.incomplete("thread-states", _POLLED, _calls(facts, polled.rows))
    return RULE.nothing(summary(inside, "save", "saving") if len(inside.rows) else ())


def _from_log(facts: Facts, inside: StepEvents) -> Finding:
    cost = cost_per_step(facts, inside)
    usual = max(facts.wall_ns - cost, 1)
    enough = quantise(math.ceil(inside.per_affected_ns / (AFTER * usual)))
    evidence = (
        *summary(inside, "save", "saving"),
        Evidence("steps between checkpoints that would cost 1 %", enough, "count"),
        *_calls(facts, inside.rows),
    )
    name = facts.trace.string(int(facts.trace.events.name[inside.rows[-1]]))
    fix = _fix(facts, name)
    for interval in ("% ", "save_freq="):
        fix = replace(fix, code=fix.code.replace(f"{interval}500", f"{interval}{enough}"))
    return RULE.finding(cost, evidence, fix)


_POLLED = "The loop polls child processes that save. Whether it waits for them was not recorded."


def _calls(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """What saves, with its line, the longest first."""
    events, text = facts.trace.events, facts.trace.string
    pairs = list(zip(events.name[rows].tolist(), events.source[rows].tolist(), strict=True))
    times = dict.fromkeys(pairs, 0)
    for pair, duration in zip(pairs, events.dur_ns[rows].tolist(), strict=True):
        times[pair] += duration
    longest = sorted(times, key=lambda pair: -times[pair])[:SHOWN]
    return tuple(
        Evidence(
            f"mean time of {text(name)}",
            round(times[name, source] / pairs.count((name, source))),
            "ns",
            text(source) if source != NULL else "",
        )
        for name, source in longest
    )


def _from_trace(facts: Facts, rows: AnyRows, cost: int) -> Finding:
    share = Evidence("share of the step that saves", cost / max(facts.wall_ns, 1), "fraction")
    evidence = (share, *recorded_calls(facts, rows))
    longest = by_name(facts, rows)[0].name
    return RULE.finding(cost, evidence, _fix(facts, longest))


def _fix(facts: Facts, name: str) -> Fix:
    """What to do, by framework and by what saves."""
    if _IN_CHILD.search(name):
        return RULE.fix("child")
    if _ASYNCHRONOUS.search(name):
        return RULE.fix("async")
    made = facts.trace.events.name[rows_of_kinds(facts.trace, "made")]
    for keeper, fix in _OF_KEEPERS.items():
        if np.isin(made, facts.trace.strings_where({keeper})).any():
            return RULE.fix(fix)
    if name.startswith("Model."):
        return RULE.fix("keras")
    if uses_sessions(facts):
        return RULE.fix("tf1")
    return RULE.fix(_FIXES.get(facts.trace.meta.framework, "any"))


_OF_KEEPERS = {"CheckpointSaverHook": "tf1-hook", "BackupAndRestore": "keras-backup"}
_FIXES = {"pytorch": "torch", "tensorflow": "tf", "jax": "jax"}
