"""The first steps are slower, so a mean over all steps is misleading.

## What it means
The trace contains the start of the run: loading of libraries, first allocations, compilation,
autotuning, start of input workers.

## Why it costs
It costs the training little, because it happens once, but it ruins measurements: averages over such
a trace are too high, and comparisons are noise.

## How it is measured
Leading steps are warm-up while each takes over 1.8 times the median of all later ones. stepwhy
leaves them out of all means, so that they cost the described step nothing. The finding comes first
if they make up most of the recorded time and few steady steps follow (fewer than 3 marked or 20
inferred ones). If no steps are found, the time of first-use work (context creation, library and
module loading, compilation) is the cost.

## Fix
Start the profiler later, after some steps. Report only steady steps.

## Fix risk
None.

## When it abstains
`incomplete` with fewer than three steps, because it is unknown which one is steady. Does not apply
to a run observed by `stepwhy run`, which neither traces nor counts the first steps.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.activity.launches import FIRST_USE_NS
from stepwhy.analyse.run.usable import shows_steady_steps
from stepwhy.analyse.steps.step_search import count_warm_up
from stepwhy.diagnose.shared.measure import by_name, times
from stepwhy.diagnose.shared.recording import record_later
from stepwhy.diagnose.shared.rule import SHARE_OF_RUN, Evidence, Facts, Finding, Rule
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Warm-up in the trace",
    found="Measure after the warm-up",
    clear="The recorded steps include no warm-up",
    needs=(("device-time",), ("steps",)),
)

FEWEST_STEPS = 3  # with fewer, it is unknown which one is typical
MOSTLY = 0.5  # of the recorded time; beyond it the trace mainly shows the start


def diagnose(facts: Facts) -> Finding:
    """Judge whether the trace contains the start of the run."""
    if facts.observed is not None:
        return RULE.not_applicable("The first steps of the observed run are left out.")
    if facts.share("compile") >= MOSTLY:
        return RULE.finding(
            facts.breakdown["compile"], _first_use(facts), record_later(facts, RULE.fix("pytorch"))
        )
    steps = facts.steps
    if len(steps.starts) < FEWEST_STEPS:
        return RULE.incomplete(
            "enough-steps", "There are fewer than three steps, too few to recognise a steady one."
        )
    # Steps may also be left out for other reasons, although they are as long as the rest.
    if not count_warm_up(steps.durations_ns):
        return RULE.nothing()
    return RULE.finding(None, _evidence(facts), record_later(facts, RULE.fix("pytorch")))


def _evidence(facts: Facts) -> tuple[Evidence, ...]:
    durations = facts.steps.durations_ns
    warm = durations[: facts.steps.warm_up]
    share = float(warm.sum() / durations.sum())
    is_most = share >= MOSTLY and not shows_steady_steps(facts)
    return (
        Evidence("steps left out as warm-up", len(warm), "count"),
        Evidence("mean duration of the warm-up steps", round(float(warm.mean())), "ns"),
        Evidence("mean duration of the steady steps", facts.wall_ns, "ns"),
        Evidence(SHARE_OF_RUN if is_most else "share of the recorded time", share, "fraction"),
    )


def _first_use(facts: Facts) -> tuple[Evidence, ...]:
    durations = facts.trace.slices.dur_ns
    calls = facts.slices(Kind.RUNTIME, Kind.LAUNCH, Kind.COMPILE, Kind.OP, steady=True)
    long = calls[durations[calls] >= FIRST_USE_NS]
    # Only the innermost calls: an operation around a long call is not a second cause.
    around = facts.nesting.parent[long]
    contains = np.zeros(len(facts.trace.slices), dtype=bool)
    contains[around[around != NULL]] = True
    return (
        Evidence("share of first-use work", facts.share("compile"), "fraction"),
        *times(facts, "time in first-use calls", by_name(facts, long[~contains[long]])[:4]),
    )
