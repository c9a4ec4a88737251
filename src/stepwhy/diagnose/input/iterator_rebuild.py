"""Each step makes a new iterator over its data, and takes one batch of it.

## What it means
The loop calls Keras' `fit` for each batch, or gets its batch by `next(iter(loader))`,
`next(iter(dataset))` or `dataset.take(1)`, or runs the initializer of an iterator in each step. The
iterator is thrown away after one batch.

## Why it costs
A new iterator starts from the beginning: it shuffles the order of the samples, fills the shuffle
buffer and starts threads or worker processes. What they prepared beyond the first batch is lost.
It may also harm the training: a data set that is not shuffled always gives the same batch, and a
shuffle buffer only ever sees the first samples.

## How it is measured
stepwhy logs iterators over a `DataLoader` or a `tf.data.Dataset` that are made although the
previous one had batches left. The cost is the time from making the iterator until its first batch
is ready. For a `DataLoader` without workers it ends earlier, when the order of the samples has been
drawn. Where Keras' `fit` is called for each batch, what it makes lies between two steps: the
finding has no cost per step, and says which share of the training lies between steps whose next one
begins with a new data set, without evaluations. It is made from a quarter. For sessions of
TensorFlow 1, it is the time of the calls that run `MakeIterator`, and of the first batch after
them. Time in which the device computes does not count. The pattern is found only if more than half
of the steps make an iterator. The expected saving begins at half of the cost, because the time
usually includes the preparation of one batch, which is still needed.

## Fix
Make the iterator once, before the loop.

## Fix risk
The training sees other batches: all samples of an epoch, each once.

## When it abstains
If `stepwhy run` did not observe the steps.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.program.session_parts import RUN
from stepwhy.analyse.steps.sampled_lines import driver_lines
from stepwhy.analyse.steps.stalls import StepEvents, rows_of_kinds, time_of_kinds
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import (
    SHARE_OF_TRAINING,
    Edit,
    Evidence,
    Facts,
    Finding,
    Rule,
    saving,
)
from stepwhy.diagnose.shared.slices import strings_among
from stepwhy.diagnose.shared.steady_events import cost_per_step, steady_events
from stepwhy.trace import NULL, Kind, Role

RULE = Rule(
    __name__,
    name="Iterators made in every step",
    found="Make the iterator over the data once, not in every step",
    clear="Steps take their batches from an iterator that lasts",
    needs=(("step-log",),),
    refines="input-bound",
    least_share=0.05,  # of the step; the iterator of the step before could serve as well
    least_saved=0.5,  # of the cost; the batch itself still has to be made
    change="keep the iterator",
    edit=Edit("input", "gone"),
)

MOST = 0.5  # of the steps; fewer make an iterator for a validation, or for an epoch
SHARE_BETWEEN = 0.25  # of the training time, as in `frequent-evaluation`
FEWEST_CALLS = 10  # of `fit`; the first ones compile


def diagnose(facts: Facts) -> Finding:
    """Judge the time to make iterators over the data, until their first batch."""
    of_fit = _in_fit(facts)
    if of_fit is not None:
        return of_fit
    rows = rows_of_kinds(facts.trace, "iterator")
    is_other = ~_in_evaluations(facts, rows)
    made = steady_events(facts, rows[is_other])
    if not made.recur or made.affected.mean() < MOST:
        return _in_sessions(facts) if is_other.all() else RULE.nothing()
    computing_ns = facts.breakdown["compute"] + facts.breakdown["communication"]
    cost = min(cost_per_step(facts, made), max(facts.wall_ns - computing_ns, 0))
    line = _keras_line(facts, made)
    if line:
        return _in_callback(facts, made, line, cost)
    per_step = made.affected.mean()
    events, row = facts.trace.events, made.rows[-1]
    texts = (events.source[row], events.name[row])
    place = ", ".join(facts.trace.string(int(text)) for text in texts if text != NULL)
    evidence = (
        Evidence("iterators made per step", round(float(per_step), 2), "count", place),
        Evidence("time until it has its first batch", made.per_affected_ns, "ns"),
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
    )
    # JAX programs use a `DataLoader` as well as tf.data.
    loaders = events.name[rows_of_kinds(facts.trace, "epoch")]
    of_loader = is_pytorch(facts) or bool((loaders == events.name[row]).any())
    return RULE.judge(facts, cost, evidence, RULE.fix("torch" if of_loader else "tf"))


def _in_fit(facts: Facts) -> Finding | None:
    """Judge calls of Keras' `fit` for single batches; None if there are none, or they take little.

    Each call traces the functions of its data set before its first step.
    """
    trace, marks = facts.trace, facts.trace.marks
    ends = marks.start_ns[:-1] + marks.dur_ns[:-1]
    rows = rows_of_kinds(trace, "trace")
    rows = rows[np.isin(trace.events.name[rows], trace.strings_where(_ADAPTERS))]
    rows = rows[~_in_evaluations(facts, rows)]
    before = np.searchsorted(ends, trace.events.start_ns[rows], side="right") - 1
    known = (before >= 0) & (trace.events.start_ns[rows] < marks.start_ns[1:][before])
    gaps = distinct(before[known])
    if len(gaps) < max(MOST * len(ends), FEWEST_CALLS):
        return None
    between = ends[gaps], marks.start_ns[gaps + 1]
    evaluating_ns = time_of_kinds(trace, "evaluation").within(*between)
    times = between[1] - between[0] - evaluating_ns
    share = times.sum() / max(int(marks.start_ns[-1] + marks.dur_ns[-1] - marks.start_ns[0]), 1)
    if share < SHARE_BETWEEN:
        return None
    line = trace.string(int(trace.events.source[rows[-1]]))
    evidence = (
        Evidence(SHARE_OF_TRAINING, float(share), "fraction", line),
        Evidence("calls of fit per step", round(len(gaps) / len(ends), 2), "count", line),
        Evidence("median time between two steps", int(np.median(times)), "ns"),
    )
    return RULE.finding(None, evidence, RULE.fix("fit"), title=_FIT)


def _in_evaluations(facts: Facts, rows: Ints) -> Mask:
    """Whether each event begins in a logged evaluation, which `frequent-evaluation` judges."""
    starts = facts.trace.events.start_ns[rows]
    evaluating = time_of_kinds(facts.trace, "evaluation").within(starts, starts + 1)
    found: Mask = evaluating > 0
    return found


def _keras_line(facts: Facts, made: StepEvents) -> str:
    """The line of a Keras callback that makes the iterators; '' if another one does.

    Keras makes a data set of arrays by functions of its own.
    """
    events, row = facts.trace.events, made.rows[-1]
    line = facts.trace.string(int(events.source[row]))
    traced = rows_of_kinds(facts.trace, "trace")
    traced = traced[np.isin(events.name[traced], facts.trace.strings_where(_ADAPTERS))]
    adapts = bool((events.source[traced] == events.source[row]).any())
    return line if adapts or _CALLBACK.search(line) else ""


def _in_callback(facts: Facts, made: StepEvents, line: str, cost: int) -> Finding:
    """Judge a callback that calls `predict` or `evaluate`: all of the call counts."""
    lines = driver_lines(facts.sampled)
    share = 0.0
    if lines is not None:
        # Sampled lines name the class of a method, too.
        place = line.partition(": ")[0]
        at_line = (n for (one, _), n in lines.items() if one.partition(": ")[0] == place)
        share = sum(at_line) / lines.total()
    cost = max(cost, round(share * facts.wall_ns))
    evidence = (
        Evidence("samples of the driving thread at", share, "fraction", line),
        Evidence("iterators made per step", round(float(made.affected.mean()), 2), "count"),
        Evidence("time until one has its first batch", made.per_affected_ns, "ns"),
    )
    if cost < RULE.least_share * facts.wall_ns:
        return RULE.nothing(evidence)
    gain = saving("predict without a data set", RULE.least_saved * cost, cost)
    return RULE.finding(
        cost,
        evidence,
        RULE.fix("predict"),
        gain,
        Edit("python", "gone"),
        title="Do not make a data set for each call of predict or evaluate",
    )


def _in_sessions(facts: Facts) -> Finding:
    """Judge runs of a session that initialise an iterator in each step."""
    inputs = facts.slices(Kind.INPUT, steady=True)
    rows = inputs[strings_among(facts, {"MakeIterator"})[facts.trace.slices.name[inputs]]]
    starts = facts.trace.slices.start_ns[rows]
    steps = distinct(facts.steps.starts.searchsorted(starts, side="right"))
    if len(steps) < max(MOST * facts.steady_count, 1):
        return RULE.nothing()
    times = [on_scale(facts, mean_within(facts, time_of(facts, r))) for r in (rows, inputs)]
    cost = min(times[1], facts.breakdown["input_wait"])
    evidence = (
        Evidence("initializers run per step", len(rows) / facts.steady_count, "count"),
        Evidence("time of MakeIterator", times[0], "ns", _run_line(facts, rows)),
        Evidence("with the time until the batch is there", times[1], "ns"),
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
    )
    return RULE.judge(facts, cost, evidence, RULE.fix("tf1"))


def _run_line(facts: Facts, rows: AnyRows) -> str:
    """Line of the last call of `Session.run` that initialises an iterator."""
    trace, slices = facts.trace, facts.trace.slices
    runs = trace.rows(Kind.STEP, Kind.ANNOTATION, role=Role.HOST_THREAD)
    runs = runs[strings_among(facts, {RUN})[slices.name[runs]]]
    runs = runs[slices.start_ns[runs] <= slices.start_ns[rows[-1]]]
    source = slices.source[runs[slices.start_ns[runs].argmax()]] if len(runs) else NULL
    return "" if source == NULL else trace.string(int(source))


_FIT = "Do not call fit for every batch"
# Functions of `keras.trainers.data_adapters.array_data_adapter`.
_ADAPTERS = ("Dataset_flat_map_slice_batch_indices", "Dataset_map_grab_batch")
_CALLBACK = regex(r": (?:\w+\.)?on_(?:train_|test_|predict_)?(?:batch|epoch)_(?:begin|end)\b")
