"""Evaluations or predictions take a large part of the training time.

## What it means
Keras' `fit` evaluates its `validation_data` after each epoch, and epochs are short; or a callback,
or the loop itself, calls `evaluate` or `predict` in each step. Or a trainer of PyTorch evaluates
every few steps: the `Trainer` of transformers, or that of Lightning. Or a loop of the program does,
or computes metrics in calls of `Session.run` in each step, for other samples than it trains on, or
without dropout.

## Why it costs
The model learns nothing meanwhile. Each call of Keras' `predict` or `evaluate` also makes a data
set, traces its functions and makes an iterator, which takes longer than a small batch. A `Trainer`
of transformers that computes metrics keeps all outputs of the model until the last batch.

## How it is measured
stepwhy logs the calls of `evaluate` and `predict` of Keras and of transformers, and the validations
of Lightning's `fit`, with the line of the program. Of a program's own loops, it takes those whose
functions say so by their names, such as `evaluate`, `val_loss` or `test_step`: in TensorFlow 2 and
JAX, calls of compiled functions that compute no gradients; in PyTorch, the time from a model's
`eval()` to its `train()` without an optimizer step between.

If they are in at least every third step, the cost is their time within the step, all that they
compute included. Otherwise they are no part of the step that the report describes, and have no cost
per step: the finding says which share of the time from the first to the last call they take. It is
made from a quarter, with at least three calls after the first, which compiles.

A call of `Session.run` counts as an evaluation if it is fed with several samples, returns only
numbers, updates nothing, and mostly runs operations that the training runs too. If the training is
fed with the same values, `repeated-computation` reports the call instead.

## Fix
Evaluate less often, or fewer samples. In a step of Keras that needs the outputs of one batch, call
`predict_on_batch` or the model itself.

## Fix risk
None for the training, unless something in it depends on the results, such as early stopping or the
choice of the best checkpoint, which then react later. A model that is called may need
`training=False`.

## When it abstains
Does not apply if neither these libraries nor calls of `Session.run` were seen to evaluate or
predict during the training, or if the steps are batches of these calls and nothing is trained
between them, as in a program that mostly predicts. Loops of a program whose functions have other
names are not known, nor those in PyTorch that leave the model in its training mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.steps.stalls import StepEvents, rows_of_kinds, time_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.diagnose.shared.rule import (
    SHARE_OF_TRAINING,
    Evidence,
    Facts,
    Finding,
    Fix,
    Rule,
    saving,
)
from stepwhy.diagnose.shared.session_runs import (
    SessionRun,
    could_be_one,
    place_of,
    session_runs,
    settings_of,
    training_runs,
)
from stepwhy.diagnose.shared.steady_events import FEWEST_EVALUATIONS, steady_events
from stepwhy.trace import NULL, Phase, among

RULE = Rule(
    __name__,
    name="Much time for evaluations",
    found="Evaluate less often",
    clear="Evaluations take a small part of the training time",
    needs=(("step-log",),),
)

MOST = 1 / 3  # of the steps; a loop's iteration may count as two steps, or three
SHARE = 0.10  # of the step; below it, the gain is less than the variation between steps
SHARE_BETWEEN = 0.25  # of the training time; a thorough validation may be worth less than that
MOST_INSIDE = 0.1  # of the steps begin within a call; those of a training begin before or after it
FEW_BATCHES = 2  # of a call of predict: what one step needs, by its default of 32 samples a batch
LEAST_SAVED = 0.8  # of the cost; a call in every tenth step or less remains
MOSTLY = 0.5  # of what a call runs; a call that computes more of its own has its own purpose
LEAST_SAVED_OF_BATCH = 0.5  # of the cost; the outputs of the batch still have to be computed


def diagnose(facts: Facts) -> Finding:
    """Judge the time of evaluations and predictions."""
    rows = rows_of_kinds(facts.trace, "evaluation")
    if not len(rows):
        return _in_sessions(facts)
    if _begin_inside(facts, rows):
        if _trains_between(facts, rows):
            return _between(facts, rows)
        return RULE.not_applicable(
            "The steps of the run are batches that evaluate or predict computes."
        )
    called = steady_events(facts, rows)
    if called.recur and called.affected.mean() >= MOST:
        return _in_steps(facts, called)
    return _between(facts, rows)


def _in_sessions(facts: Facts) -> Finding:
    """Judge calls of `Session.run` that only measure, with other values than those trained on."""
    runs = list(session_runs(facts))
    calls = list(_measuring(facts, runs))
    if not runs:
        return RULE.not_applicable("No evaluations or predictions were seen during the training.")
    per_step = len(calls) / facts.steady_count
    cost = on_scale(facts, facts.mean_ns(sum(run.dur_ns for run in calls)))
    if per_step < MOST or cost < SHARE * facts.wall_ns:
        return RULE.nothing()
    longest = max(calls, key=lambda run: run.dur_ns)
    same = [run.dur_ns for run in calls if place_of(facts, run) == place_of(facts, longest)]
    evidence = (
        Evidence("calls per step", round(per_step, 2), "count"),
        Evidence(
            "median time of one call", _median(np.asarray(same)), "ns", place_of(facts, longest)
        ),
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
    )
    gain = saving("evaluate less often", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, evidence, RULE.fix("session"), gain)


def _measuring(facts: Facts, runs: Sequence[SessionRun]) -> Iterator[SessionRun]:
    """Calls that mostly run what the training runs, and that cannot be a part of its calls."""
    scope, settings = facts.trace.slices.scope, settings_of(runs)
    training = training_runs(facts, runs)
    rows = [run.rows for run in runs if run.updates]
    known = scope[np.concatenate([np.empty(0, np.int32), *rows])]
    for run in runs:
        if not run.only_measures() or NULL in run.fed.values():
            continue
        durations = facts.trace.slices.dur_ns[run.rows]
        is_again = np.isin(scope[run.rows], known)
        is_part = any(could_be_one(facts, run, t, settings) for t in training.get(run.step, ()))
        if not is_part and durations[is_again].sum() > MOSTLY * durations.sum():
            yield run


def _begin_inside(facts: Facts, rows: AnyRows) -> bool:
    """Whether steps are parts of the calls: then the run mostly predicts, or evaluates."""
    starts, time = facts.trace.marks.start_ns, time_of(facts.trace, rows)
    starts = starts[starts < time.ends[-1]]  # calls are logged up to a limit
    inside = time.within(starts, starts + 1)
    return len(starts) > 0 and float((inside > 0).mean()) > MOST_INSIDE


def _trains_between(facts: Facts, rows: AnyRows) -> bool:
    """Whether the program trains between calls, whose batches were taken for steps."""
    events, slices = facts.trace.events, facts.trace.slices
    first_ns, last_ns = int(events.start_ns[rows].min()), int(events.start_ns[rows].max())
    trained = among(facts.phases, (Phase.BACKWARD, Phase.OPTIMIZER))
    return bool((trained & (slices.start_ns > first_ns) & (slices.start_ns < last_ns)).any())


def _in_steps(facts: Facts, called: StepEvents) -> Finding:
    """Judge calls that are parts of the steps."""
    # Where iterations count as several steps of different length, a share holds for all of them.
    cost = round(_usual_share(called) * facts.wall_ns)
    evidence = (
        Evidence("calls per step", round(len(called.rows) / len(called.steps), 2), "count"),
        *_calls(facts, called.rows),
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
    )
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence)
    fix = _fix(facts, called.rows)
    sure = LEAST_SAVED_OF_BATCH if fix is RULE.fix("batch") else LEAST_SAVED
    gain = saving("evaluate less often", sure * cost, cost)
    return _titled(RULE.finding(cost, evidence, fix, gain))


def _usual_share(called: StepEvents) -> float:
    """Share of the calls in the time of the steps, 0..1, whatever makes a few steps long."""
    mask, durations = called.affected, called.durations_ns
    with_call, others = int(mask.sum()), durations[~mask]
    rest = len(others) * float(np.median(others)) if len(others) else 0.0
    whole = with_call * float(np.median(durations[mask])) + rest
    return min(with_call * float(np.median(called.inside_ns[mask])) / whole, 1.0)


def _between(facts: Facts, rows: AnyRows) -> Finding:
    """Judge calls between steps, or in a few of them."""
    marks, events = facts.trace.marks, facts.trace.events
    # What comes after the last step is no part of the training.
    rows = rows[events.start_ns[rows] < marks.start_ns.max(initial=0)]
    if len(rows) <= FEWEST_EVALUATIONS:
        return RULE.nothing()
    ends = events.start_ns[rows] + events.dur_ns[rows]
    # Whole periods: from the end of one call to the end of another.
    time = time_of(facts.trace, rows[1:])
    share = time.total_ns / max(int(ends[-1] - ends[0]), 1)
    inside = (marks.start_ns >= ends[0]) & (marks.start_ns < ends[-1])
    inside &= time.within(marks.start_ns, marks.start_ns + 1) == 0
    steps = round(int(inside.sum()) / (len(rows) - 1))
    evidence = (
        Evidence(SHARE_OF_TRAINING, share, "fraction"),
        *_calls(facts, rows[1:]),
        *([Evidence("steps from one to the next", steps, "count")] if steps else []),
    )
    if share < SHARE_BETWEEN:
        return RULE.nothing(evidence)
    return _titled(RULE.finding(None, evidence, _fix(facts, rows[1:])))


def _fix(facts: Facts, rows: AnyRows) -> Fix:
    same = _same(facts, rows)
    name = _name(facts, int(same[-1]))
    if name in _FIXES:
        return RULE.fix(_FIXES[name])
    few = FEW_BATCHES if name == "predict" else 1
    return RULE.fix("batch" if 1 <= _batches(facts, same) <= few else "often")


def _titled(found: Finding) -> Finding:
    return replace(found, title=_OF_BATCH) if found.fix is RULE.fix("batch") else found


def _calls(facts: Facts, rows: AnyRows) -> tuple[Evidence, ...]:
    """Where the calls are that take most of the time, and how long one takes."""
    events, same = facts.trace.events, _same(facts, rows)
    name, source = _name(facts, int(same[-1])), facts.trace.string(int(events.source[same[-1]]))
    batches = _batches(facts, same)
    return (
        Evidence(f"median time of one call ({name})", _median(events.dur_ns[same]), "ns", source),
        *([Evidence("batches of such a call", batches, "count")] if batches else []),
    )


def _same(facts: Facts, rows: AnyRows) -> AnyRows:
    """The calls of one method by the line that spends most time in calls."""
    events, row = facts.trace.events, _longest(facts, rows)
    is_same = (events.source == events.source[row]) & (events.name == events.name[row])
    return rows[np.flatnonzero(is_same[rows])]


def _longest(facts: Facts, rows: AnyRows) -> int:
    """The last of the calls by the line that spends most time in them."""
    events = facts.trace.events
    keys, place = np.unique(events.source[rows], return_inverse=True)
    times = np.bincount(place, weights=events.dur_ns[rows], minlength=len(keys))
    return int(rows[place == times.argmax()][-1])


def _name(facts: Facts, row: int) -> str:
    return facts.trace.string(int(facts.trace.events.name[row]))


def _batches(facts: Facts, rows: AnyRows) -> int:
    """Median number of batches of some calls; 0 if unknown."""
    counts = facts.trace.events.count[rows]
    return _median(counts[counts > 0]) if (counts > 0).any() else 0


def _median(values: AnyRows) -> int:
    return round(float(np.median(values.astype(np.float64))))


# Name of a call -> fix of the library that makes it; others are those of Keras by the program.
_FIXES = {
    "validation": "validation",
    "Trainer.evaluate": "transformers",
    "Trainer.predict": "transformers",
    "validation loop": "lightning",
    "evaluation loop": "loop",
}
_OF_BATCH = "Do not make a data set for each call of predict or evaluate"
