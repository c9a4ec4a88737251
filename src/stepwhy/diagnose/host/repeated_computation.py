"""A training step computes the same operations several times, in several calls of `Session.run`.

## What it means
The loop runs the training operation, the loss and the accuracy in calls of their own. Each call
computes the forward pass again.

## Why it costs
TensorFlow keeps no result from one call to the next. With three calls, the step computes its
forward pass three times, and feeds its batch three times. If the graph reads its input itself, each
call also takes a batch of its own: the loss is not that of the batch that was trained on.

## How it is measured
If most steps make several calls, stepwhy compares the calls of each recorded step. A call counts if
it runs no backward pass and no optimizer, and if another call of the step, with the same fed
values, runs most of its operations too. `stepwhy run` compares fed values by a fingerprint. The
cost is the time of these calls, without what only they compute. Calls that are fed with other
values, or with values that an earlier call may have returned, do not count.

If a step makes the same call six times or more, each time with one example that differs, the cost
is the time of all of these calls but one. A call that returns an array of the shape of one that it
is fed with may feed it to the next one: it does not count. A step begins with the call that trains.
A call before it in the loop counts for the previous step, whose fed values differ, so it is only
recognised where nothing is fed.

## Fix
Fetch everything in one call, and feed all examples at once. Fetch metrics only in the steps that
print them.

## Fix risk
The training does not change. Metrics that were computed after the update are then those from before
it.

## When it abstains
When calls of `Session.run` were not recorded, or without fingerprints of the fed values. It does
not apply to programs without `Session.run`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.activity.devices import intervals_of
from stepwhy.analyse.program.session_parts import RUN
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.feeds import parts_or_reason
from stepwhy.diagnose.shared.measure import on_scale
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.trace import NULL, Kind, Phase, Role, among

RULE = Rule(
    __name__,
    name="Operations that a step computes several times",
    found="Fetch everything in one Session.run: the step computes the same operations again",
    clear="No call of Session.run repeats what another one computes",
    needs=(("device-time",), ("steps",)),
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
MOSTLY = 0.5  # of a call's computation; a call that computes more of its own has its own purpose

EXAMPLES = 6  # calls per step with one example each; some loops choose an action or two per step
LEAST_SAVED = 0.5  # of these calls; the computation remains, in larger operations

_SHOWN = 3
_ONE = regex(r"1(?:x\d+)*|")
_EACH = "Run the session once with the whole batch, not once for each example"


class _Run(msgspec.Struct, frozen=True):
    """One call of `Session.run` in a recorded step.

    Args:
        slice: Row of the call.
        step: Index of its step.
        dur_ns: Its duration.
        rows: The operations that it ran; (any,).
        updates: Whether an optimizer updates variables in it.
        reads: Whether it takes input from a queue or a dataset.
        fed: Fingerprint by name of the fed tensor; NULL if it is unknown.
        shapes: Name and shape of each fed value, and of each fetched one.
    """

    slice: int
    step: int
    dur_ns: int
    rows: NDArray[np.int32]
    updates: bool
    reads: bool
    fed: dict[str, int]
    shapes: tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]

    def gets_one_example(self) -> bool:
        """Whether it only computes, with arrays of one row, and returns none that it could get."""
        sizes, results = ({shape for _, shape in values} for values in self.shapes)
        is_single = bool(sizes) and all(_ONE.fullmatch(size) for size in sizes)
        return is_single and not (self.updates or self.reads or sizes & results)


class _Repeat(msgspec.Struct, frozen=True):
    """A call that mostly computes what other calls of the step compute.

    Args:
        run: The call.
        again: The operations that another call ran as well.
        again_ns: Time in which they ran.
        saved_ns: Time of the call without what only it computes.
    """

    run: _Run
    again: NDArray[np.int32]
    again_ns: int
    saved_ns: int


def diagnose(facts: Facts) -> Finding:
    """Judge calls of `Session.run` that compute what another call of the step computes."""
    parts = parts_or_reason(RULE, facts)
    if isinstance(parts, Finding):
        return parts
    runs = list(_runs(facts))
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
    repeats = [r for _, step in groupby(runs, key=lambda r: r.step) for r in _repeats(facts, step)]
    cost = on_scale(facts, facts.mean_ns(sum(r.saved_ns for r in repeats)))
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing((count,))
    low = on_scale(facts, facts.mean_ns(sum(r.again_ns for r in repeats)))
    share = Evidence("share of the step", cost / facts.wall_ns, "fraction")
    evidence = (share, count, *_calls(facts, repeats), *_operations(facts, repeats))
    gain = saving("compute each operation once", min(low, cost), cost)
    fix = RULE.fix("read" if any(repeat.run.reads for repeat in repeats) else "fed")
    return RULE.finding(cost, evidence, fix, gain, Edit("ops", "gone"))


def _examples(facts: Facts, runs: Sequence[_Run], count: Evidence) -> Finding | None:
    """The finding about a call that is made for one example after another; None without such."""
    groups: defaultdict[object, list[_Run]] = defaultdict(list)
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
    where = _place(facts, most[0])
    single = Evidence("calls of it with one example per step", per_step, "count", where)
    gain = saving("one call for all examples", LEAST_SAVED * cost, cost)
    return RULE.finding(cost, (share, count, single), RULE.fix("examples"), gain, title=_EACH)


def _runs(facts: Facts) -> Iterator[_Run]:
    """The calls in the steady steps, in order."""
    trace, slices = facts.trace, facts.trace.slices
    marks = trace.rows(Kind.STEP, Kind.ANNOTATION, role=Role.HOST_THREAD)
    marks = marks[np.isin(slices.name[marks], trace.strings_where({RUN})) & facts.is_steady[marks]]
    marks = marks[np.argsort(slices.start_ns[marks], kind="stable")]
    rows, fed = steady_work(facts), _fed(facts)
    shapes = [_shapes(facts, which) for which in (1, 0)]
    inputs = facts.slices(Kind.INPUT, steady=True)
    starts = slices.start_ns[marks]
    # The slice of a step's first call covers the whole step.
    until = np.minimum(trace.ends(marks), np.append(starts[1:], np.iinfo(np.int64).max))
    of_row = np.searchsorted(starts, slices.start_ns[rows], side="right") - 1
    of_input = np.searchsorted(starts, slices.start_ns[inputs], side="right") - 1
    for place, mark in enumerate(marks.tolist()):
        own = rows[of_row == place]
        yield _Run(
            mark,
            int(np.searchsorted(facts.steps.starts, starts[place], side="right")),
            int(until[place] - starts[place]),
            own[slices.scope[own] != NULL],
            bool(among(facts.phases[own], (Phase.OPTIMIZER, Phase.BACKWARD)).any()),
            bool((of_input == place).any()),
            fed[mark],
            (frozenset(shapes[0][mark]), frozenset(shapes[1][mark])),
        )


def _fed(facts: Facts) -> defaultdict[int, dict[str, int]]:
    """Fingerprints of the fed values by call, and then by name."""
    table, found = facts.trace.session_values, defaultdict[int, dict[str, int]](dict)
    for row in np.flatnonzero(table.fed == 1):
        name = facts.trace.string(int(table.name[row]))
        found[int(table.slice[row])][name] = int(table.fingerprint[row])
    return found


def _shapes(facts: Facts, fed: int) -> defaultdict[int, set[tuple[str, str]]]:
    """Name and shape of the values that calls are fed with, or return; by call."""
    table, found = facts.trace.session_values, defaultdict[int, set[tuple[str, str]]](set)
    text = facts.trace.string
    for row in np.flatnonzero(table.fed == fed):
        about = text(int(table.name[row])), text(int(table.shape[row]))
        found[int(table.slice[row])].add(about)
    return found


def _repeats(facts: Facts, step: Iterator[_Run]) -> Iterator[_Repeat]:
    """The calls of one step that repeat what those of the optimizer, or earlier ones, compute."""
    kept: list[_Run] = []
    for run in sorted(step, key=lambda r: (not r.updates, r.slice)):
        others = [] if run.updates else [k for k in kept if _is_alike(facts, run, k)]
        repeat = _repeat(facts, run, others)
        if repeat is None:
            kept.append(run)
        else:
            yield repeat


def _is_alike(facts: Facts, one: _Run, other: _Run) -> bool:
    """Whether two calls compute with the same values, and could be one.

    What is fed only to the later call may be what the earlier one returned. Without a value for it,
    a placeholder fails, but one with a default computes something else.
    """
    first, second = sorted((one, other), key=lambda r: r.slice)
    if any(first.fed.get(name) != mark for name, mark in second.fed.items()):
        return False
    return all(_must_be_fed(facts, name) for name in first.fed.keys() - second.fed.keys())


def _must_be_fed(facts: Facts, tensor: str) -> bool:
    nodes = facts.trace.nodes
    named = np.isin(nodes.name, facts.trace.strings_where({tensor.partition(":")[0]}))
    ops = {facts.trace.string(int(op)) for op in nodes.op[named]}
    return ops == {"Placeholder"}


def _repeat(facts: Facts, run: _Run, others: Sequence[_Run]) -> _Repeat | None:
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
        times[_place(facts, repeat.run)] += repeat.saved_ns
    for place, total_ns in times.most_common(_SHOWN):
        cost = on_scale(facts, facts.mean_ns(total_ns))
        yield Evidence("Session.run that computes them again", cost, "ns", place)
    batches = sum(repeat.run.reads for repeat in repeats)
    if batches:
        what = "batches that are not trained on, per step"
        yield Evidence(what, batches / facts.steady_count, "count")


def _place(facts: Facts, run: _Run) -> str:
    """Line of a call, and what it fetches."""
    trace, table = facts.trace, facts.trace.session_values
    own = (table.slice == run.slice) & (table.fed == 0)
    fetched = ", ".join(trace.string(int(name)) for name in table.name[own][:_SHOWN])
    source = int(trace.slices.source[run.slice])
    places = ("" if source == NULL else trace.string(source), fetched and f"fetches {fetched}")
    return ", ".join(filter(None, places))


def _operations(facts: Facts, repeats: Sequence[_Repeat]) -> Iterator[Evidence]:
    """How many operations are computed again, and which take longest."""
    slices, times = facts.trace.slices, Counter[int]()
    for repeat in repeats:
        for row in repeat.again.tolist():
            times[int(slices.scope[row])] += int(slices.dur_ns[row])
    count = sum(len(repeat.again) for repeat in repeats) / facts.steady_count
    longest = ", ".join(facts.trace.string(scope) for scope, _ in times.most_common(_SHOWN))
    yield Evidence("operations computed again per step", count, "count", longest)
