"""A queue between input and training runs empty, or delays the first batch.

## What it means
The threads that fill a queue of a TensorFlow 1 graph enqueue elements more slowly than training
dequeues them. Or the queue keeps so many elements in reserve for shuffling (`min_after_dequeue`)
that the first batch is late.

## Why it costs
A queue only smooths out variations. If it is empty, the step waits until a batch is ready. Elements
in reserve take memory and must be prepared before the first step.

## How it is measured
The fill level is sampled between steps, not counting the reserve (`min_after_dequeue`). A queue
that is nearly empty for `STARVED` of the time starves; the cost is the time of the step spent
waiting for input. If the reserve is many times larger than what can be dequeued, the wait of the
first step counts as well: how much longer than other steps it was blocked without using the CPU.

## Fix
Enqueue many elements in one run (`read_up_to`, `enqueue_many`), because a run per element costs
more than its actual work. Use several threads. Or use `tf.data`, which does both. For the first
batch, reduce the reserve; a few hundred batches are enough if the files are shuffled as well.

## Fix risk
None for the result. A smaller `min_after_dequeue` shuffles less.

## When it abstains
When no level was sampled: the size of a queue can be read only if the graph has an operation for
it, such as the one that `tf.train.batch` creates, and only rarely while other threads hold the GIL.
When the queue ran empty, but not in the traced steps. In a record without steps, such as event
files of TensorBoard, when the queue was empty for less than 90 % of the time.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.input.pipelines import find_pipelines, starved_queue
from stepwhy.analyse.steps.counters import series
from stepwhy.base.columns.sums import total_of
from stepwhy.diagnose.shared.measure import contention_ns
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Rule, saving
from stepwhy.result import Pipeline
from stepwhy.trace import NULL

RULE = Rule(
    __name__,
    name="Queues that run empty",
    found="Fill the queue faster, or reduce its reserve",
    clear="The queues have elements when the step asks for them",
    refines="input-bound",
    without_steps=True,
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
STARVED = 0.25  # of the time near empty; a queue that smooths out bursts is empty only for moments
FEWEST_SAMPLES = 10  # fewer give no reliable share of time
LEAST_SAVED = 0.5  # of the wait; a faster producer shares cores with the training
SLOW_START = 0.10  # of the observed time, spent before the first batch; less hardly matters
LARGE_RESERVE = 10  # times the elements that can be dequeued; a smaller reserve fills quickly
SHORTEST_START_NS = 500_000_000  # preparing graphs and opening files takes as long anyway


def diagnose(facts: Facts) -> Finding:
    """Judge the fill level of the queues, and how long the first step waited for them."""
    steady_ns = facts.observed.steady_span_ns if facts.observed else None
    queues = [p for p in find_pipelines(facts.trace, steady_ns) if p.kind == "tf1-queue"]
    if not queues:
        return RULE.no_data("queue-levels", "No fill level of a queue was sampled.")
    if not facts.wall_ns:
        return _without_steps(queues)
    start = _slow_start(facts, queues)
    emptiest = max(queues, key=lambda q: q.empty_share or 0.0)
    if emptiest.samples < FEWEST_SAMPLES:
        return start or RULE.no_data(
            "queue-levels",
            f"The queues were sampled only {emptiest.samples} times, too rarely for a share.",
        )
    if (emptiest.empty_share or 0.0) < STARVED:
        return start or RULE.nothing(_evidence(facts, emptiest)[:1])
    cost = facts.breakdown["input_wait"]
    if cost < SHARE * facts.wall_ns:
        reason = "The queue ran empty, but not during the traced steps."
        return start or RULE.incomplete("traced-steps", reason, _evidence(facts, emptiest))
    # The thread that cannot keep up with the training uses a core all the time.
    most = cost + contention_ns(facts, cost, 1.0)
    gain = saving("fill the queue: remove input_wait", LEAST_SAVED * cost, most)
    return RULE.finding(
        cost, _evidence(facts, emptiest), RULE.fix("faster"), gain, Edit("input", "free")
    )


def _without_steps(queues: list[Pipeline]) -> Finding:
    """What the fill level alone shows, in a record without steps."""
    starved = starved_queue(queues)
    if starved is None:
        return RULE.incomplete("steps", "The steps that wait for the queue were not recorded.")
    evidence = (
        Evidence("share of the time near empty", starved.empty_share or 0.0, "fraction",
                 starved.name),
        Evidence("samples", starved.samples, "count"),
    )  # fmt: skip
    return RULE.finding(None, evidence, RULE.fix("faster"))


def _evidence(facts: Facts, queue: Pipeline) -> tuple[Evidence, ...]:
    found = [
        Evidence("share of the time near empty", queue.empty_share or 0.0, "fraction", queue.name),
        Evidence("share of the step waiting for input", facts.share("input_wait"), "fraction"),
    ]
    if queue.mean_fill is not None and queue.capacity is not None:
        found.append(Evidence("mean fill level without the reserve", queue.mean_fill, "fraction"))
        usable = queue.capacity - queue.reserve
        found.append(Evidence("elements that can be dequeued, at most", usable, "count"))
    nodes = facts.trace.nodes
    made = np.isin(nodes.name, facts.trace.strings_where({queue.name})) & (nodes.source != NULL)
    found += [
        Evidence("the queue is made by", queue.name, "", facts.trace.string(line))
        for line in nodes.source[made].tolist()
    ]
    if queue.reserve:
        found.append(Evidence("elements in reserve (min_after_dequeue)", queue.reserve, "count"))
    found.append(Evidence("samples", queue.samples, "count"))
    return tuple(found)


def _slow_start(facts: Facts, queues: list[Pipeline]) -> Finding | None:
    """The finding that the first batch waited for the reserve of a queue; None if it did not."""
    queue = max(queues, key=lambda q: q.reserve)
    waited = _first_wait_ns(facts)
    usable = (queue.capacity or 2 * queue.reserve) - queue.reserve
    if waited is None or queue.reserve < LARGE_RESERVE * max(usable, 1):
        return None
    watched = total_of(facts.trace.marks.dur_ns)
    if waited < max(SHORTEST_START_NS, SLOW_START * watched):
        return None
    found = [
        Evidence("extra wait of the first step", waited, "ns"),
        Evidence("share of the observed time", waited / max(watched, 1), "fraction"),
        Evidence("elements in reserve (min_after_dequeue)", queue.reserve, "count", queue.name),
        Evidence("elements that can be dequeued, at most", usable, "count"),
    ]
    grown = _memory_gained(facts)
    if grown is not None:
        found.append(Evidence("memory allocated meanwhile", grown, "bytes"))
    return RULE.finding(None, tuple(found), RULE.fix("smaller"))


def _first_wait_ns(facts: Facts) -> int | None:
    """How much longer than usual the first step was blocked, ns; None if not measured."""
    marks = facts.trace.marks
    known = np.flatnonzero((marks.cpu_ns != NULL) & (marks.light == 0))
    if len(known) < FEWEST_SAMPLES or known[0] != 0:
        return None
    blocked = marks.dur_ns[known] - marks.cpu_ns[known]
    return max(int(blocked[0]) - round(float(np.median(blocked[1:]))), 0)


def _memory_gained(facts: Facts) -> int | None:
    """Growth of the resident memory in the first step, bytes; None if not sampled around it."""
    resident, marks = series(facts.trace, "resident_bytes"), facts.trace.marks
    start_ns = int(marks.start_ns[0])
    before = np.flatnonzero(resident.times_ns <= start_ns)
    after = np.flatnonzero(resident.times_ns >= start_ns + int(marks.dur_ns[0]))
    if not len(before) or not len(after):
        return None
    return max(int(resident.values[after[0]] - resident.values[before[-1]]), 0)
