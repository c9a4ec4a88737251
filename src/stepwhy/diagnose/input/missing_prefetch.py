"""The next batch could be prepared while the step computes, but is not.

## What it means
The thread that runs the training loop prepares a batch, computes with it, then prepares the next
one. Preparing a batch takes less time than the rest of the step.

## Why it costs
At any time, either the preparation or the computation waits. If another thread or process worked
ahead, the next batch would be there when the step asks for it.

## How it is measured
The cost is the time in which nothing computes because the step waits for its batch. The thread that
asks for the batch prepares it itself: the fetch is that of a `DataLoader` without workers, more
than half of it is spent in stages of `tf.data` that have no threads of their own, or stack samples
are in a generator of the program. If preparing takes longer than the rest of the step, one thread
that works ahead is not enough: then `serial-input` reports it instead.

The saving assumes that the rest of the step takes as long as before, or as long as the CPU time of
the step divided among all cores if that is longer. Its low end adds a fifth to this time (a tenth
on accelerators). Beside operations on CPUs, a worker process may save nothing, because it competes
for the cores and hands batches over through shared memory: the saving then starts at zero.

## Fix
Prepare the next batch ahead: `prefetch`, one worker process, or a thread.

## Fix risk
None for the result. One or two batches more are in memory.

## When it abstains
When neither a fetch of batches nor stack samples are recorded. `incomplete` if the steps wait for
batches, but the record does not show what prepares them. Does not apply to a machine with one core.
"""

from __future__ import annotations

from stepwhy.analyse.input.batch_work import BatchWork, find_batch_work
from stepwhy.analyse.input.overlap import rest_ns, workers_for
from stepwhy.diagnose.input.shared.overlap import (
    UNSEEN_WORK,
    cautioned,
    cores_of,
    gain_of,
    is_prepared_aside,
    overlap_evidence,
    with_workers,
)
from stepwhy.diagnose.shared.rule import Edit, Facts, Finding, Fix, Rule
from stepwhy.trace import Kind

RULE = Rule(
    __name__,
    name="Batches prepared between steps",
    found="Prepare the next batch while the step computes",
    clear="The training loop does not stop to prepare batches",
    needs=(("steps",),),
    refines="input-bound",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps


def diagnose(facts: Facts) -> Finding:
    """Judge work on the input that is shorter than the rest of the step."""
    work = find_batch_work(facts)
    if work is None:
        if facts.share("input_wait") >= SHARE and not is_prepared_aside(facts):
            return RULE.incomplete("input", UNSEEN_WORK)
        if facts.breakdown["input_wait"] or len(facts.slices(Kind.INPUT, steady=True)):
            return RULE.nothing()
        return RULE.no_data(
            "input", "Neither fetches of batches nor stack samples of the work on them."
        )
    if cores_of(facts) == 1:
        return RULE.not_applicable("The machine has only one core.")
    evidence = overlap_evidence(facts, work)
    is_longer = work.is_ahead or work.work_ns > rest_ns(facts, work)
    if work.exposed_ns < SHARE * facts.wall_ns or is_longer:
        return RULE.nothing(evidence[:1])
    gain = gain_of(facts, work, "prepare batches ahead")
    return RULE.finding(
        work.exposed_ns,
        evidence,
        cautioned(_fix(facts, work), facts),
        gain,
        Edit("input", "prefetch"),
    )


def _fix(facts: Facts, work: BatchWork) -> Fix:
    if work.source == "generator":
        return RULE.fix("jax" if facts.trace.meta.framework == "jax" else "thread")
    fix = RULE.fix({"DataLoader": "torch", "PyDataset": "keras"}.get(work.source, "tf"))
    return with_workers(fix, workers_for(facts, work))
