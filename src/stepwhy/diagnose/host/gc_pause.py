"""Python's garbage collector pauses the training.

## What it means
CPython frees most objects when their last reference is gone. To find cycles of references, it
searches all lists, dictionaries and other containers from time to time. The more of them a program
keeps and creates, the longer and the more often it searches.

## Why it costs
The collector holds the interpreter's lock: meanwhile, no thread runs Python, and no new work is
launched. In a distributed run, all ranks wait for the one that pauses.

## How it is measured
stepwhy logs collections of the older generations that take half a millisecond or more
(`gc.callbacks`), and the line that was running when each began, and whether it calls
`gc.collect()`. The cost is their time in steady steps, averaged over all of these steps.

## Fix
If the program calls `gc.collect()` in its steps, leave that out, or call it rarely. Otherwise turn
automatic collection off, and collect at a fixed interval, on all ranks in the same step. Exclude
what was created before the loop (`gc.freeze`). Keep values in arrays instead of millions of Python
objects.

## Fix risk
Objects in cycles stay in memory until the next collection.

## When it abstains
If the steps were not observed by `stepwhy run`. Does not apply to loops that read single elements
of tensors, because the reads create the garbage: `python-overhead` judges them.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.shared.eager_calls import element_loop
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule
from stepwhy.diagnose.shared.steady_events import SHOWN, cost_per_step, steady_events, summary
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Pauses of the garbage collector",
    found="Collect garbage less often: it pauses the training",
    clear="Garbage collection takes little time",
    least_saved=0.8,  # of the cost; collections that remain still take time
    change="collect garbage rarely",
    edit=Edit("python", "gone"),
)


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which garbage is collected."""
    if "step-log" not in facts.trace.meta.signals:
        return RULE.no_data("garbage", "Only 'stepwhy run' logs when garbage is collected.")
    if element_loop(facts) is not None:
        return RULE.not_applicable("The loop reads single elements: see python-overhead.")
    inside = steady_events(facts, rows_of_kinds(facts.trace, "gc"))
    if not inside.recur:  # `StepEvents.recur` has the thresholds, as for other logged events
        return RULE.nothing(summary(inside, "collect", "collecting") if len(inside.rows) else ())
    cost = cost_per_step(facts, inside)
    evidence = (
        *summary(inside, "collect", "collecting"),
        *_freed(facts, inside.rows),
        *_lines(facts, inside.rows),
    )
    events = facts.trace.events
    called = inside.rows[events.reason[inside.rows] != NULL]
    if 2 * events.dur_ns[called].sum() <= events.dur_ns[inside.rows].sum():
        return RULE.finding(cost, evidence, RULE.fix())
    return RULE.finding(cost, evidence, RULE.fix("called"), title=_CALLED)


_CALLED = "Do not collect garbage in the loop: the program itself asks for it"


def _freed(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """Objects that a collection frees, in the median."""
    freed = facts.trace.events.count[rows]
    known = freed[freed != NULL]
    if not len(known):
        return ()
    return (Evidence("objects that a collection frees", int(np.median(known)), "count"),)


def _lines(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """Share of the collections by the line whose allocation has started them."""
    lines, counts = np.unique(facts.trace.events.source[rows], return_counts=True)
    order = np.argsort(-counts, kind="stable")[:SHOWN]
    return tuple(
        Evidence(
            "collections that start at",
            int(counts[place]) / len(rows),
            "fraction",
            facts.trace.string(int(lines[place])),
        )
        for place in order.tolist()
        if lines[place] != NULL
    )
