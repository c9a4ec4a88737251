"""A queue between input and training runs dry, or lets the first batch wait.

## What it means
The threads that fill a queue of a TensorFlow 1 graph put elements into it more slowly than the
training takes them out. Or the queue keeps so many elements back for shuffling
(`min_after_dequeue`) that the first batch takes long to come.

## Why it costs
A queue only evens out what varies. Empty, it lets the step wait as long as making a batch takes.
Elements that are kept back fill memory and are made before the first step.

## How it is measured
The fill level is sampled between steps; what `min_after_dequeue` keeps back does not count as
filled. A queue that is near empty in a good part of the time starves; what that costs is the time
of the step spent waiting for input. The first step's wait is what it was longer than others without
using a core, where
the queue keeps back many times what it hands out.

## Fix
Enqueue many elements in one run (`read_up_to`, `enqueue_many`): a run for each of them costs more
than most of what it does. Use several threads. Move to `tf.data`, which does both. For the first
batch: keep less back; a few hundred batches shuffle as well where the files are shuffled, too.

## Fix risk
None for the result. A smaller `min_after_dequeue` shuffles less.

## When it abstains
When no level was sampled: the queue's size is read only where the graph has an operation for it, as
`tf.train.batch` makes one, and rarely where other threads hold Python's lock. When the queue ran
dry, but not in the steps that were traced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.columns.sums import total_of
from stepwhy.diagnoses.shared.measure import taken_from_the_rest
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.counters import series
from stepwhy.passes.pipelines import find_pipelines
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.findings import Finding, Pipeline
    from stepwhy.passes.facts import Facts

RULE = Rule(
    id="queue-starvation",
    family="input",
    name="Queues that run dry",
    found="Fill the queue faster, or keep less of it back",
    clear="The queues have elements when the step asks for them",
    needs=(("steps",),),
    refines="input-bound",
)

SHARE = 0.10  # of the step; below it the cure gains less than what steps vary by
STARVED = 0.25  # of the time near empty; a queue that evens out bursts is so for moments
FEWEST_SAMPLES = 10  # fewer of them say nothing about shares of the time
LEAST_SAVED = 0.5  # of the wait; a faster producer shares cores with the training
SLOW_START = 0.10  # of the watched time, spent before the first batch; less is soon forgotten
KEPT_BACK = 10  # times what the queue hands out at most; below it, it is filled in no time
SHORTEST_START_NS = 500_000_000  # below it graphs are prepared and files opened anyway


def diagnose(facts: Facts) -> Finding:
    """Judge the queues that feed the training, and what the first step waited for them."""
    steady_ns = facts.observed.steady_span_ns if facts.observed else None
    queues = [p for p in find_pipelines(facts.trace, steady_ns) if p.kind == "tf1-queue"]
    if not queues:
        return RULE.no_data("No fill level of a queue was sampled.")
    start = _slow_start(facts, queues)
    emptiest = max(queues, key=lambda q: q.empty_share or 0.0)
    if emptiest.samples < FEWEST_SAMPLES:
        return start or RULE.no_data(
            f"The queues were looked at {emptiest.samples} times only: no share of time is known."
        )
    if (emptiest.empty_share or 0.0) < STARVED:
        return start or RULE.nothing(_evidence(facts, emptiest)[:1])
    cost = facts.breakdown["input_wait"]
    if cost < SHARE * facts.wall_ns:
        return start or _doubtful(facts, emptiest)
    # The thread that is too slow for the queue never rests.
    most = cost + taken_from_the_rest(facts, cost, 1.0)
    gain = saving("fill the queue: remove input_wait", LEAST_SAVED * cost, most)
    return RULE.finding(cost, _evidence(facts, emptiest), _FASTER, gain)


def _doubtful(facts: Facts, queue: Pipeline) -> Finding:
    """A queue that was empty, and steps that did not wait: those that were traced."""
    reason = "The queue ran dry, but the steps that were traced found batches in it."
    return RULE.incomplete(reason, _evidence(facts, queue))


def _evidence(facts: Facts, queue: Pipeline) -> tuple[Evidence, ...]:
    found = [
        Evidence("share of the time near empty", queue.empty_share or 0.0, "fraction", queue.name),
        Evidence("share of the step waiting for input", facts.share("input_wait"), "fraction"),
    ]
    if queue.mean_fill is not None and queue.capacity is not None:
        found.append(Evidence("mean fill of what can be taken out", queue.mean_fill, "fraction"))
        usable = queue.capacity - queue.reserve
        found.append(Evidence("elements that can be taken out, at most", usable, "count"))
    if queue.reserve:
        found.append(Evidence("elements that are kept back", queue.reserve, "count"))
    found.append(Evidence("times it was looked at", queue.samples, "count"))
    return tuple(found)


def _slow_start(facts: Facts, queues: list[Pipeline]) -> Finding | None:
    """The finding that the first batch waited for what a queue keeps back; None when it did not."""
    queue = max(queues, key=lambda q: q.reserve)
    waited = _first_wait_ns(facts)
    room = (queue.capacity or 2 * queue.reserve) - queue.reserve
    if waited is None or queue.reserve < KEPT_BACK * max(room, 1):
        return None
    watched = total_of(facts.trace.marks.dur_ns)
    if waited < max(SHORTEST_START_NS, SLOW_START * watched):
        return None
    found = [
        Evidence("wait of the first step, beyond that of others", waited, "ns"),
        Evidence("share of the watched time", waited / max(watched, 1), "fraction"),
        Evidence("elements that are kept back", queue.reserve, "count", queue.name),
        Evidence("elements that can be taken out, at most", room, "count"),
    ]
    grown = _memory_gained(facts)
    if grown is not None:
        found.append(Evidence("memory that the process gained meanwhile", grown, "bytes"))
    return RULE.finding(None, tuple(found), _SMALLER)


def _first_wait_ns(facts: Facts) -> int | None:
    """How much longer than usual the first step was blocked; None where that was not measured."""
    marks = facts.trace.marks
    known = np.flatnonzero((marks.cpu_ns != NULL) & (marks.light == 0))
    if len(known) < FEWEST_SAMPLES or known[0] != 0:
        return None
    blocked = marks.dur_ns[known] - marks.cpu_ns[known]
    return max(int(blocked[0]) - round(float(np.median(blocked[1:]))), 0)


def _memory_gained(facts: Facts) -> int | None:
    """Resident bytes after the first step less those before; None where not both were sampled."""
    resident, marks = series(facts.trace, "resident_bytes"), facts.trace.marks
    start_ns = int(marks.start_ns[0])
    before = np.flatnonzero(resident.times_ns <= start_ns)
    after = np.flatnonzero(resident.times_ns >= start_ns + int(marks.dur_ns[0]))
    if not len(before) or not len(after):
        return None
    return max(int(resident.values[after[0]] - resident.values[before[-1]]), 0)


_FASTER = Fix(
    "Enqueue many elements in one run and with several threads; tf.data does both. Where Python "
    "makes the elements, make them once instead.",
    "_, records = reader.read_up_to(names, batch_size)\n"
    "examples = tf.io.parse_example(records, features)\n"
    "batch = tf.train.shuffle_batch(decode(examples), batch_size, capacity,\n"
    "                               min_after_dequeue, num_threads=2,\n"
    "                               enqueue_many=True)\n"
    "# TF2\n"
    "dataset = (tf.data.TFRecordDataset(path).shuffle(n).repeat()\n"
    "           .batch(batch_size).map(decode, num_parallel_calls=4)\n"
    "           .prefetch(2))",
    "none",
)
_SMALLER = Fix(
    "Keep fewer elements back: min_after_dequeue of them are made, and kept in memory, before the "
    "first batch. Shuffle the names of the files, too.",
    "batch = tf.train.shuffle_batch(tensors, batch_size,\n"
    "                               capacity=23 * batch_size,\n"
    "                               min_after_dequeue=20 * batch_size)\n"
    "# TF2\n"
    "dataset = dataset.shuffle(20 * batch_size)",
    "none",
)
