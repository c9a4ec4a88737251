"""A DataLoader starts its worker processes again in every epoch.

## What it means
A `DataLoader` ends its worker processes after each epoch, and starts new ones for the next. Epochs
are so short that this takes a large part of the time.

## Why it costs
The loop waits until the workers run and the first batch has arrived. A forked worker starts within
some milliseconds. A spawned one imports PyTorch and the program, and unpickles the data set, which
takes seconds.

## How it is measured
stepwhy logs when a `DataLoader` starts workers, and when the first batch of each epoch arrives. The
cost is the time from the request to that batch in epochs that start workers, averaged over the
steady steps. The low end of the saving is the time to start the processes alone: the first batch of
an epoch also takes time with workers that are still running.

## Fix
Set `persistent_workers=True`, and create one `DataLoader` for all epochs.

## Fix risk
The workers and their copies of the data set stay in memory between epochs. If the loop changes the
data set from epoch to epoch, for example for curriculum learning, persistent workers do not see the
change.

## When it abstains
If `stepwhy run` did not observe the steps, or no loader with workers was seen.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.steps.stalls import restarts, rows_of_kinds
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.steady_events import cost_per_step, steady_events, summary

RULE = Rule(
    __name__,
    name="Workers started in every epoch",
    found="Keep the workers of the DataLoader between epochs",
    clear="Workers are kept between epochs, or start quickly",
    needs=(("step-log",),),
    refines="input-bound",
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which epochs start with new workers."""
    started = rows_of_kinds(facts.trace, "workers")
    if not len(started):
        return RULE.no_data("workers", "No DataLoader with workers was seen.")
    inside = steady_events(facts, restarts(facts.trace))
    evidence = summary(inside, "start workers", "wait for the first batch")
    if not inside.recur:
        return RULE.nothing(evidence)
    starting = steady_events(facts, started)
    cost = cost_per_step(facts, inside)
    least = min(cost_per_step(facts, starting), cost)
    events = facts.trace.events
    loader = events.name[inside.rows[-1]]
    per_epoch = round(float(np.median(np.diff(np.flatnonzero(inside.affected)))))
    found = (
        *evidence,
        Evidence("starting the processes in such a step", starting.per_affected_ns, "ns"),
        Evidence("workers per start", int(np.median(events.count[starting.rows])), "count"),
        Evidence("steps per epoch", per_epoch, "count", facts.trace.string(int(loader))),
    )
    gain = saving("keep workers between epochs", least, cost)
    # Where the loader keeps its workers, another one is created for each epoch.
    stages = facts.trace.stages
    is_kept = (stages.persistent[stages.name == loader] == 1).any()
    return RULE.finding(
        cost, found, RULE.fix("new" if is_kept else "persistent"), gain, Edit("input", "gone")
    )
