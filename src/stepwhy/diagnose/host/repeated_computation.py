"""A training step computes the same operations several times.

## What it means
In TensorFlow 1, the loop runs the training operation, the loss and the accuracy in calls of
`Session.run` of their own. Each call computes the forward pass again. In PyTorch, the loop calls
`backward` for each of several losses of the same network, with `retain_graph=True`; in TensorFlow
2, a persistent tape is asked for the gradient of each, and they are added up. Each call computes
the gradients of the shared layers again. Or the forward pass computes the same result several
times: a transformed weight in each step of a sequence, or the model's outputs again for a metric.
Or a graph asks for the gradient of each output by itself, as for the norm of a Jacobian.

## Why it costs
TensorFlow keeps no result from one call to the next. With three calls, the step computes its
forward pass three times, and feeds its batch three times. If the graph reads its input itself, each
call also takes a batch of its own: the loss is not that of the batch that was trained on.
Gradients are linear: those of a sum of losses are the sum of their gradients, and one pass computes
them.

## How it is measured
If most steps make several calls, stepwhy compares the calls of each recorded step. A call counts if
it runs no optimizer, and if another call, with the same fed values, runs most of its operations
too; if it computes gradients, the other call must be one that trains. `stepwhy run` compares fed
values by a fingerprint. The cost is the time of these calls, without what only they compute; where
hardly any of it is in repeated operations, `session-overhead` judges the calls. Calls
that are fed with other values, or with values that an earlier call may have returned, do not count;
`frequent-evaluation` judges those that only measure.

If a step makes the same call six times or more, each time with one example that differs, the cost
is the time of all of these calls but one. A call that returns an array of the shape of one that it
is fed with may feed it to the next one: it does not count. A step begins with the call that trains.
A call before it in the loop is also compared with the call that trains next, if values are fed.

In PyTorch, the nodes of the backward pass have the number of their forward operation. A node that
runs again with the same number counts, unless no gradient was accumulated since its first run, or
the backward pass is differentiated itself. In the step that `stepwhy run` looks at, an operation
counts as well if an earlier one computes the same from the same values, outside of the backward
pass. What has been written in between has other values, and random numbers are always others. A
result that the backward pass needs counts only if an earlier one has gradients, too.
In a function of TensorFlow 2, the tape tells which forward operation each gradient is of. Gradients
of an operation that has had one before count if the function adds gradients; their cost is as large
a part of the backward pass as they are of all gradients.
In a graph of TensorFlow 1, calls of `tf.gradients` count if one line makes 16 or more that have a
gradient of the same operation. The cost is the time of all of them, and of their own gradients.
Results of operations that take 20 µs or more, or run on an accelerator, are compared. The cost
includes the part of these operations in the backward pass.

## Fix
Fetch everything in one call, and feed all examples at once. Fetch metrics only in the steps that
print them. Add losses up, and call `backward` once. Keep results that are needed again.

## Fix risk
The training does not change; sums of gradients may differ in the last digits. Metrics that were
computed after the update are then those from before it.

## When it abstains
When calls of `Session.run` were not recorded, or without fingerprints of the fed values. It does
not apply to other programs, nor to those of PyTorch of which no step was looked at and without a
backward pass, or where several threads run forward operations, which they number independently.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.program.semantic_ops import matched_ops
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.not_needed.shared.backward_time import cost_per_step_ns, launched_within
from stepwhy.diagnose.not_needed.shared.gradients_by_output import gradients_by_output
from stepwhy.diagnose.not_needed.shared.repeated_backward import repeated_backward
from stepwhy.diagnose.not_needed.shared.repeated_results import repeated_results
from stepwhy.diagnose.shared.feeds import parts_or_reason
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.session_runs import (
    SessionRun,
    could_be_one,
    place_of,
    session_runs,
    settings_of,
    training_runs,
)
from stepwhy.diagnose.shared.work_lines import work_lines
from stepwhy.trace import NULL, Kind, Phase

RULE = Rule(
    __name__,
    name="Operations that a step computes several times",
    found="Fetch everything in one Session.run: the step computes the same operations again",
    clear="No call of Session.run repeats what another one computes",
    needs=(("device-time",), ("steps",)),
)

COMPUTED = 0.1  # of the cost, in repeated operations; else it is that of a call, whatever it runs
SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
MOSTLY = 0.5  # of a call's computation; a call that computes more of its own has its own purpose

EXAMPLES = 6  # calls per step with one example each; some loops choose an action or two per step
LEAST_SAVED = 0.5  # of these calls; the computation remains, in larger operations

LEAST_SAVED_BACKWARD = 0.7  # of the repeated passes; the gradients of the losses are added up
FORWARD = 0.02  # of the step; of shorter operations, nodes of the same number may be of others
LEAST_SAVED_OF_OUTPUTS = 0.5  # of these passes; one remains, or one with more columns
LEAST_SAVED_AGAIN = 0.7  # of the repeated operations; gradients are added up instead

_SHOWN = 3
_IS_SHARE = regex(r"[01]\.\d{1,9}")
_SUM = "Add the losses up and run backward once: each pass computes the same layers again"
_SUM_OF_TAPE = (
    "Take the gradient of the sum of the losses: each call computes the same layers again"
)
_OF_OUTPUTS = "Compute the gradients of all outputs at once: each has a backward pass of its own"
_NOT_BY_NODE = (
    "No backward pass of PyTorch is recorded node by node, or several threads run the forward pass."
)
_ONCE = "No backward pass runs operations of an earlier one again"
_KEPT = "The step hardly computes a result again"
_AGAIN = "Keep the result: the step computes the same again from the same values"
_EACH = "Run the session once with the whole batch, not once for each example"


class _Repeat(msgspec.Struct, frozen=True):
    """A call that mostly computes what other calls of the step compute.

    Args:
        run: The call.
        again: The operations that another call ran as well.
        again_ns: Time in which they ran.
        saved_ns: Time of the call without what only it computes.
    """

    run: SessionRun
    again: NDArray[np.int32]
    again_ns: int
    saved_ns: int


def diagnose(facts: Facts) -> Finding:
    """Judge what a step computes again: in another call of `Session.run`, or backward pass."""
    if is_pytorch(facts):
        return _of_pytorch(facts)
    of_tape = _of_tape(facts)
    if of_tape is not None:
        return of_tape
    of_outputs = _of_outputs(facts)
    if of_outputs is not None:
        return of_outputs
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    runs = list(session_runs(facts))
    count = Evidence("calls of Session.run per step", len(runs) / facts.steady_count, "count")
    if len(runs) <= facts.steady_count:
        return RULE.nothing((count,))
    single = _examples(facts, runs, count)
    if single is not None:
        return single
    if any(mark == NULL for run in runs for mark in run.fed.values()):
        return RULE.no_data(
            "fed-values", "The values that the runs were fed with were not compared."
        )
    repeats = list(_repeats(facts, runs))
    cost = on_scale(facts, facts.mean_ns(sum(r.saved_ns for r in repeats)))
    low = on_scale(facts, facts.mean_ns(sum(r.again_ns for r in repeats)))
    if cost < SHARE * facts.wall_ns or low < COMPUTED * cost:
        return RULE.nothing((count,))
    share = Evidence("share of the step", cost / facts.wall_ns, "fraction")
    evidence = (share, count, *_calls(facts, repeats), *_operations(facts, repeats))
    gain = saving("compute each operation once", min(low, cost), cost)
    fix = RULE.fix("read" if any(repeat.run.reads for repeat in repeats) else "fed")
    return RULE.finding(cost, evidence, fix, gain, Edit("ops", "gone"))


def _of_pytorch(facts: Facts) -> Finding:
    """Judge results that the forward pass computes again, or else backward passes that do."""
    found = repeated_results(facts)
    if found is None:
        return _of_backward(facts)
    cost = found.cost_ns
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction")
    if cost < SHARE * facts.wall_ns or cost - found.backward_ns < FORWARD * facts.wall_ns:
        backward = _of_backward(facts)
        return backward if backward.verdict == "found" else RULE.nothing((share,), title=_KEPT)
    count = len(found.rows) / facts.steady_count
    names = by_name(facts, found.rows)
    longest = ", ".join(name.name for name in names[:_SHOWN])
    evidence = (
        share,
        *work_lines(facts, found.rows)[:_SHOWN],
        Evidence("operations computed again per step", count, "count", longest),
        Evidence("their part of the backward pass", found.backward_ns, "ns"),
    )
    gain = saving("compute it once", LEAST_SAVED_AGAIN * cost, cost)
    edit = Edit("ops", "gone", cost_ns=cost)
    fix = RULE.fix("again-loop" if _is_in_loop(facts, found.rows) else "again")
    return RULE.finding(cost, evidence, fix, gain, edit, title=_AGAIN)


def _is_in_loop(facts: Facts, rows: AnyRows) -> bool:
    """Whether the longest of these operations mostly repeats an earlier one twice or more."""
    name = by_name(facts, rows)[0].name
    every = matched_ops(facts).rows
    every = every[np.isin(facts.trace.slices.name[every], facts.trace.strings_where({name}))]
    is_again = np.isin(every[facts.phases[every] != Phase.BACKWARD], rows)
    return int(is_again.sum()) >= 2 * int((~is_again).sum())


def _of_backward(facts: Facts) -> Finding:
    """Judge backward passes of PyTorch through the same operations."""
    found = repeated_backward(facts)
    if found is None:
        return RULE.not_applicable(_NOT_BY_NODE)
    host = time_of(facts, found.rows)
    work = launched_within(facts, host)
    cost = cost_per_step_ns(facts, host, work, facts.steady_count)
    share = Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction", found.line)
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing((share,) if cost else (), title=_ONCE)
    evidence = (
        share,
        Evidence("backward passes through the same operations", found.passes, "count"),
        Evidence("nodes run again per step", len(found.rows) / facts.steady_count, "count"),
        *work_lines(facts, found.rows)[:_SHOWN],
    )
    gain = saving("one backward pass", LEAST_SAVED_BACKWARD * cost, cost)
    edit = Edit("ops", "gone", cost_ns=cost)
    return RULE.finding(cost, evidence, RULE.fix("backward"), gain, edit, title=_SUM)


def _of_tape(facts: Facts) -> Finding | None:
    """The finding about gradients that a function of TensorFlow 2 asks for again; None without."""
    events, text = facts.trace.events, facts.trace.string
    rows = rows_of_kinds(facts.trace, "repeated-gradient")
    shares = {row: _share(text(int(events.reason[row]))) for row in rows.tolist()}
    if not shares:
        return None
    again, share = max(shares.items(), key=lambda each: each[1])
    ops = facts.slices(Kind.OP, Kind.KERNEL, steady=True)
    backward = time_of(facts, ops[facts.phases[ops] == Phase.BACKWARD])
    cost = round(share * on_scale(facts, mean_within(facts, backward), "compute"))
    if cost < SHARE * facts.wall_ns:
        return None
    where = text(int(events.source[again]))
    evidence = (
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction", where),
        Evidence("share of the gradients that are of the same operations again", share, "fraction"),
    )
    gain = saving("one backward pass", LEAST_SAVED_BACKWARD * cost, cost)
    edit = Edit("ops", "gone", cost_ns=cost)
    return RULE.finding(cost, evidence, RULE.fix("tape"), gain, edit, title=_SUM_OF_TAPE)


def _of_outputs(facts: Facts) -> Finding | None:
    """The finding about a graph that asks for the gradient of each output; None without."""
    found = gradients_by_output(facts)
    cost = (
        on_scale(facts, mean_within(facts, time_of(facts, found.rows)), "compute") if found else 0
    )
    if found is None or cost < SHARE * facts.wall_ns:
        return None
    evidence = (
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction", found.line),
        Evidence("calls of tf.gradients through the same operations", found.calls, "count"),
        Evidence("their operations per step", len(found.rows) / facts.steady_count, "count"),
        *work_lines(facts, found.rows),
    )
    gain = saving("one backward pass", LEAST_SAVED_OF_OUTPUTS * cost, cost)
    edit = Edit("ops", "gone", cost_ns=cost)
    return RULE.finding(cost, evidence, RULE.fix("outputs"), gain, edit, title=_OF_OUTPUTS)


def _share(text: str) -> float:
    """A share that an event notes, 0..1; 0 if it is damaged."""
    return float(text) if _IS_SHARE.fullmatch(text) else 0.0


def _examples(facts: Facts, runs: Sequence[SessionRun], count: Evidence) -> Finding | None:
    """The finding about a call that is made for one example after another; None without such."""
    groups: defaultdict[object, list[SessionRun]] = defaultdict(list)
    for run in runs:
        if run.gets_one_example():
            groups[run.shapes].append(run)
    most = max(groups.values(), key=len, default=[])
    per_step = len(most) / facts.steady_count
    differ = len({tuple(sorted(run.fed.items())) for run in most}) > len(most) / 2
    spent = facts.mean_ns(sum(run.dur_ns for run in most))
    cost = on_scale(facts, round(spent * (1 - 1 / max(per_step, 1))))
    if per_step < EXAMPLES or not differ or cost < SHARE * facts.wall_ns:
        return None
    share = Evidence("share of the step", cost / facts.wall_ns, "fraction")
    where = place_of(facts, most[0])
    single = Evidence("calls of it with one example per step", per_step, "count", where)
    gain = saving("one call for all examples", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, (share, count, single), RULE.fix("examples"), gain, title=_EACH)


def _repeats(facts: Facts, runs: Sequence[SessionRun]) -> Iterator[_Repeat]:
    """The calls that repeat what those of the optimizer, or earlier ones, compute."""
    settings, training = settings_of(runs), training_runs(facts, runs)
    for step, own in groupby(runs, key=lambda r: r.step):
        kept = training.get(step, [])
        for run in own:
            # Gradients are those of the training only as long as nothing is updated in between.
            others = [
                other
                for other in kept
                if (other.updates or not run.derives) and could_be_one(facts, run, other, settings)
            ]
            repeat = None if run.updates else _repeat(facts, run, others)
            if repeat is not None:
                yield repeat
            elif not run.updates:
                kept = [*kept, run]


def _repeat(facts: Facts, run: SessionRun, others: Sequence[SessionRun]) -> _Repeat | None:
    """What a call repeats of others; None if that is not most of it."""
    scope = facts.trace.slices.scope
    if not others or not len(run.rows):
        return None
    known = np.concatenate([scope[other.rows] for other in others])
    is_again = np.isin(scope[run.rows], known)
    again, own = (intervals_of(facts.trace, run.rows[chosen]) for chosen in (is_again, ~is_again))
    own = own - again
    if again.total_ns < MOSTLY * (again.total_ns + own.total_ns):
        return None
    saved_ns = max(run.dur_ns - own.total_ns, again.total_ns)
    return _Repeat(run, run.rows[is_again], again.total_ns, saved_ns)


def _calls(facts: Facts, repeats: Sequence[_Repeat]) -> Iterator[Evidence]:
    """Time of the repeated calls by their line, longest first."""
    times: Counter[str] = Counter()
    for repeat in repeats:
        times[place_of(facts, repeat.run)] += repeat.saved_ns
    for place, total_ns in times.most_common(_SHOWN):
        cost = on_scale(facts, facts.mean_ns(total_ns))
        yield Evidence("Session.run that computes them again", cost, "ns", place)
    batches = sum(repeat.run.reads for repeat in repeats)
    if batches:
        what = "batches that are not trained on, per step"
        yield Evidence(what, batches / facts.steady_count, "count")


def _operations(facts: Facts, repeats: Sequence[_Repeat]) -> Iterator[Evidence]:
    """How many operations are computed again, and which take longest."""
    slices, times = facts.trace.slices, Counter[int]()
    for repeat in repeats:
        for row in repeat.again.tolist():
            times[int(slices.scope[row])] += int(slices.dur_ns[row])
    count = sum(len(repeat.again) for repeat in repeats) / facts.steady_count
    longest = ", ".join(facts.trace.string(scope) for scope, _ in times.most_common(_SHOWN))
    yield Evidence("operations computed again per step", count, "count", longest)
