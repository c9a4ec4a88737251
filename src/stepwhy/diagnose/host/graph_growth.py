"""The graph of a session grows during training.

## What it means
The loop calls TensorFlow functions that create operations (a metric, `tf.assign`, `tf.gradients`),
so each step adds to the graph instead of running existing operations.

## Why it costs
Python creates the operations, and `Session.run` sends them to the runtime. New fetches are then
prepared as in a first run: the graph is pruned, placed and optimised. The next step repeats this on
a larger graph. Operations are freed only when the session ends.

## How it is measured
stepwhy reads the version of the graph before each step, and names the line that created most of the
added operations. The cost is how much longer runs of grown graphs take before their first operation
than other runs. If there are enough steps without growth, it is how much longer the other steps
are. The high end of the predicted saving also includes Python time between the runs, which creates
the operations but may do other work, and the extra time of a kernel's first execution in a graph,
which here is every execution.

## Fix
Create all operations before the loop, and feed or load values that change. Then finalize the graph:
a line that would add to it raises an error.

## Fix risk
None.

## When it abstains
Without a log of the steps; `stepwhy run` writes one. Does not apply to programs without
`Session.run`.
"""

from __future__ import annotations

import msgspec
import numpy as np

from stepwhy.base.columns.types import Ints, Mask
from stepwhy.diagnose.shared.measure import mean_within, time_of
from stepwhy.diagnose.shared.program import uses_sessions
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="A graph that grows during training",
    found="Create the operations before the loop",
    clear="The graph does not grow in the loop",
)

SHARE = 0.02  # of the step; a healthy loop rarely prepares a graph again, and spends less on it
MOSTLY = 0.5  # of the steps; a graph that grows in them takes memory until the run ends
FEWEST_EVENTS = 3  # a saver or summary created at its first use does not recur
FEWEST_STEPS = 8  # the median of fewer steps without growth is not reliable
# Of the rest of the step. Each version of the graph has kernels of its own, which are initialised
# at their first execution. In the lab's programs that grow in every step, that takes 45 to 57 %.
FIRST_TIME = 0.5
ENDS = 20  # steps; the first and the last of them show whether steps become longer
PREPARING = "prepare the graph"  # name of these slices in session windows


class _Growth(msgspec.Struct, frozen=True):
    """Growth of the graph in the described part of the run.

    Args:
        rows: Rows of `events` in which operations were added; (events,).
        touched: Mask of the steps before or in which operations were added; (marks,).
        steps: Rows of `marks` in that part, except profiled steps and steps that were only timed.
    """

    rows: Ints
    touched: Mask
    steps: Ints

    @property
    def share(self) -> float:
        """Share of the steps in which the graph grew."""
        return float(self.touched[self.steps].mean()) if len(self.steps) else 0.0


def diagnose(facts: Facts) -> Finding:
    """Judge what adding operations to the graph costs."""
    if facts.trace.meta.framework not in {"tensorflow", ""}:
        return RULE.not_applicable("The run does not use TensorFlow.")
    if "step-log" not in facts.trace.meta.signals:
        return RULE.lacks("step-log")
    if not uses_sessions(facts):
        return RULE.not_applicable("The steps of the run are not runs of a session.")
    growth = _growth(facts)
    if len(growth.rows) < FEWEST_EVENTS:
        return RULE.nothing()
    return _judge(facts, growth)


def _judge(facts: Facts, growth: _Growth) -> Finding:
    usual = _usual_ns(facts, growth)
    prepared = _prepared_ns(facts)
    if usual is None:
        cost = prepared
        gone = prepared + facts.breakdown["python"]
        highest = gone + round(FIRST_TIME * (facts.wall_ns - gone))
    else:
        cost = gone = highest = _excess_ns(facts, growth, usual)
    evidence = _evidence(facts, growth, prepared, usual)
    if cost >= SHARE * facts.wall_ns:
        gain = saving("remove graph growth", min(prepared, cost), highest)
        # With the Python time, which creates the operations, but without the slow first execution
        # of kernels: the prediction itself accounts for how much faster the remaining work runs.
        edit = Edit("compile", "gone", cost_ns=gone)
        return RULE.finding(cost, evidence, _fix(facts, growth), gain, edit)
    if growth.share >= MOSTLY:
        return RULE.finding(cost or None, evidence, _fix(facts, growth))
    return RULE.nothing(evidence[:2])


def _growth(facts: Facts) -> _Growth:
    """Growth in the described part of the run."""
    trace, marks = facts.trace, facts.trace.marks
    described = np.arange(len(marks))[facts.regimes.current.rows]
    is_plain = (marks.profiled[described] == 0) & (marks.light[described] == 0)
    kinds = np.isin(trace.events.kind, trace.strings_where(["graph"]))
    rows = np.flatnonzero(kinds)
    first = marks.start_ns[described[0]]
    last = marks.start_ns[described[-1]] + marks.dur_ns[described[-1]]
    starts, ends = _times(facts, rows)
    inside = rows[(starts < last) & (ends > first)]
    return _Growth(inside, _touched(facts, rows), described[is_plain])


def _touched(facts: Facts, rows: Ints) -> Mask:
    """Mask of the steps that an event may have made longer; (marks,).

    Operations added between the starts of two steps are created in the first one and run in it or
    in the second.
    """
    marks = facts.trace.marks
    starts, ends = _times(facts, rows)
    first = np.searchsorted(marks.start_ns + marks.dur_ns, starts, side="right")
    end = np.searchsorted(marks.start_ns, ends, side="right")
    change = np.zeros(len(marks) + 1, dtype=np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, np.maximum(end, first), -1)
    touched: Mask = np.cumsum(change)[:-1] > 0
    return touched


def _times(facts: Facts, rows: Ints) -> tuple[Ints, Ints]:
    events = facts.trace.events
    return events.start_ns[rows], events.start_ns[rows] + events.dur_ns[rows]


def _usual_ns(facts: Facts, growth: _Growth) -> int | None:
    """Median step without growth in the whole log, ns; None if there are too few."""
    marks = facts.trace.marks
    free = (marks.profiled == 0) & (marks.light == 0) & ~growth.touched
    rows = np.flatnonzero(free)[facts.observed.warm_up if facts.observed else 0 :]
    return round(float(np.median(marks.dur_ns[rows]))) if len(rows) >= FEWEST_STEPS else None


def _excess_ns(facts: Facts, growth: _Growth, usual_ns: int) -> int:
    """How much longer growing steps are than usual ones, averaged over all steps, ns."""
    durations = facts.trace.marks.dur_ns[growth.steps[growth.touched[growth.steps]]]
    if not len(durations):
        return 0
    excess = max(float(np.median(durations)) - usual_ns, 0.0)
    return min(round(excess * growth.share), facts.wall_ns)


def _prepared_ns(facts: Facts) -> int:
    """Time per step spent preparing grown graphs, ns; part of the breakdown's `compile`."""
    rows = facts.trace.rows(Kind.COMPILE)
    rows = rows[np.isin(facts.trace.slices.name[rows], facts.trace.strings_where([PREPARING]))]
    recorded = facts.recorded["compile"]
    share = mean_within(facts, time_of(facts, rows)) / recorded if recorded else 0.0
    return round(min(share, 1.0) * facts.breakdown["compile"])


def _evidence(
    facts: Facts, growth: _Growth, prepared_ns: int, usual_ns: int | None
) -> tuple[Evidence, ...]:
    (source, types), added = _origin(facts, growth), _added(facts, growth)
    found = [
        Evidence("operations added per growing step", added, "count", source),
        Evidence("share of the steps in which the graph grows", round(growth.share, 4), "fraction"),
        Evidence("time to prepare what was added", prepared_ns, "ns"),
        Evidence("Python time between the runs", facts.breakdown["python"], "ns"),
    ]
    if types:
        found.append(Evidence("types of the added operations", types, "", source))
    if usual_ns is not None:
        found.append(Evidence("median step without growth", usual_ns, "ns"))
    return (*found, *_ends(facts, growth))


def _added(facts: Facts, growth: _Growth) -> float:
    """Operations added per growing step; one event may cover several steps."""
    counts = facts.trace.events.count[growth.rows]
    step_starts = facts.trace.marks.start_ns
    starts, ends = _times(facts, growth.rows)
    after = np.searchsorted(step_starts, ends, "right")
    steps = after - np.searchsorted(step_starts, starts, "right")
    return round(int(counts[counts != NULL].sum()) / max(int(steps.sum()), len(starts)), 1)


def _ends(facts: Facts, growth: _Growth) -> list[Evidence]:
    """Medians of the first and the last growing steps, if there are enough steps."""
    rows = growth.steps[growth.touched[growth.steps]]
    if len(rows) < 3 * ENDS:
        return []
    durations = facts.trace.marks.dur_ns[rows]
    first, last = (round(float(np.median(part))) for part in (durations[:ENDS], durations[-ENDS:]))
    return [
        Evidence(f"median of the first {ENDS} steps that grow", first, "ns"),
        Evidence(f"median of the last {ENDS} steps that grow", last, "ns"),
    ]


def _origin(facts: Facts, growth: _Growth) -> tuple[str, str]:
    """Source line that adds most operations, and their op types; '' if unknown."""
    trace, events = facts.trace, facts.trace.events
    # Only the first few events name a line, and they may lie before the described part.
    rows = np.flatnonzero(np.isin(events.kind, trace.strings_where(["graph"])))
    own = np.intersect1d(rows, growth.rows)
    named = own[events.source[own] != NULL]
    named = named if len(named) else rows[events.source[rows] != NULL]
    if not len(named):
        return "", ""
    lines, group = np.unique(events.source[named], return_inverse=True)
    most = np.bincount(group.reshape(-1), weights=events.count[named]).argmax()
    first = named[events.source[named] == lines[most]][0]
    return trace.string(int(lines[most])), trace.string(int(events.reason[first]))


def _fix(facts: Facts, growth: _Growth) -> Fix:
    source, _ = _origin(facts, growth)
    where = f" The error would be raised at {source}." if source else ""
    return RULE.fix(where=where)
