"""The training loop waits for batches that are prepared one after another.

## What it means
One thread prepares one batch after another: a `DataLoader` without workers, a generator that the
loop iterates over, a `map` without parallel calls. Mostly it is the thread that runs the loop: it
prepares a batch, computes with it, then prepares the next one. Or a TensorFlow graph generates
random numbers in each step, as its input.

## Why it costs
At any time, either the preparation or the computation waits. If another thread or process worked
ahead, the next batch would be there when the step asks for it. If preparing a batch takes longer
than the rest of the step, a single thread cannot keep up, even one that works ahead, although other
cores could prepare the next batches.

## How it is measured
The cost is the time in which nothing computes because the step waits for its batch. The work is
serial if the thread that asks for the batch prepares it: the fetch is that of a `DataLoader`
without workers, more than half of it is spent in stages of `tf.data` that have no threads of
their own, or stack samples are in a generator of the program. It is also serial if, by
TensorFlow's own figures, one stage does most of the work and calls its function for one element at
a time. If the work is shorter than the rest of the step, the advice is to prepare the next batch
ahead; else, to prepare several at a time. Python in threads of `tf.data` or in worker processes is
left to `python-preprocessing`.

If a `DataLoader` without workers takes each sample out of tensors, and needs less than 10 µs for
each, workers would take longer to hand the batches over: the advice is to index with whole batches.

Random numbers of a graph are input if a product, a convolution or another computing operation reads
them, directly or after scaling, casting or slicing. They are not input if they are combined element
by element with other data: those are dropout masks and noise, which must be new. The cost is then
the time in which the numbers are generated and nothing else runs.

The saving assumes that the rest of the step takes as long as before, that as many workers as keep
up prepare the batches, at most one less than there are cores, and that the CPU time of the step is
divided among all cores. Its low end adds a fifth (a tenth on accelerators). Beside operations on
CPUs, worker processes may save nothing, because they compete for the cores and hand batches over
through shared memory: the saving then starts at zero. Where that is so by the prediction itself,
the finding says so and is listed last: of two training programs on two cores whose wait was 17 and
20 % of the step, one worker process made one 1.5 times as slow, and the other no faster.

## Fix
Prepare the next batch ahead: `prefetch`, one worker process, or a thread. Where that is not enough,
let several workers prepare batches. What is the same in every epoch can be computed once instead.
Random input of a benchmark can be generated once and kept in a variable.

## Fix risk
None for the result, apart from the order of random augmentation. One or two batches more are in
memory, and workers need memory of their own. Stored random numbers are the same in every step:
wrong if the training needs new ones.

## When it abstains
When neither a fetch of batches, nor stack samples, nor the data flow of a graph is recorded.
`incomplete` if the steps wait for batches, but the record does not show what prepares them, and
whether in parallel. Does not apply to a machine with one core.
"""

from __future__ import annotations

import numpy as np

from stepwhy.analyse.input.batch_work import BatchWork, find_batch_work
from stepwhy.analyse.input.overlap import rest_ns, workers_for
from stepwhy.analyse.program.reads import reads_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.diagnose.input.shared.loaders import without_repeats
from stepwhy.diagnose.input.shared.overlap import (
    UNSEEN_WORK,
    cautioned,
    cores_of,
    gain_of,
    is_prepared_in_parallel,
    overlap_evidence,
    with_workers,
)
from stepwhy.diagnose.input.shared.random_input import rows_of_random_input
from stepwhy.diagnose.input.shared.removable_work import serial_ways
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, time_of
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.slices import named
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Batches prepared one after another",
    found="Prepare the next batch while the step computes",
    clear="No serial work on the input delays the step",
    needs=(("steps",),),
    refines="input-bound",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
RANDOM_SHARE = 0.25  # of the step; synthetic input stands for real input, which is not free either
FEWEST_TAKEN = 16  # per step; fewer take hardly longer than one call for all
EACH_NS = 10_000  # for a row of a tensor, and to stack it; data sets that compute take longer
LEAST_OF_SINGLE = 0.5  # of the work; whole batches still have to be copied
LEAST_SAVED = 0.7  # of the cost; stored numbers still have to be read from memory


def diagnose(facts: Facts) -> Finding:
    """Judge work on the input that nothing else runs beside."""
    work = find_batch_work(facts)
    if work is None:
        return _random(facts)
    if cores_of(facts) == 1:
        return RULE.not_applicable("The machine has only one core.")
    evidence = overlap_evidence(facts, work)
    if work.exposed_ns < SHARE * facts.wall_ns:
        return RULE.nothing(evidence[:1])
    singly = _taken_singly(facts, work)
    if singly:
        fix, edit = RULE.fix("torch-batched"), Edit("input", "gone")
        gain = saving("whole batches", LEAST_OF_SINGLE * work.exposed_ns, work.exposed_ns)
        evidence = (*evidence, singly)
        return RULE.finding(work.exposed_ns, evidence, fix, gain, edit, title=_BATCHED)
    if work.is_ahead or work.work_ns > rest_ns(facts, work):
        fix, title, change = _several(facts, work), _SEVERAL, "prepare batches in parallel"
        edit = Edit("input", "workers", count=workers_for(facts, work))
    else:
        fix, title, change = _ahead(facts, work), "", "prepare batches ahead"
        edit = Edit("input", "prefetch")
    evidence += serial_ways(facts, work)
    fix = cautioned(with_workers(fix, workers_for(facts, work)), facts)
    fix = without_repeats(fix, facts) if work.source == "DataLoader" else fix
    gain = gain_of(facts, work, change)
    is_open = gain.low_ns <= 0
    title = _MAYBE if is_open else title
    return RULE.finding(
        work.exposed_ns, evidence, fix, gain, edit, title=title, is_optional=is_open
    )


def _taken_singly(facts: Facts, work: BatchWork) -> Evidence | None:
    """How many samples are taken out of tensors one by one, if the loader does hardly more."""
    if work.source != "DataLoader":
        return None
    taken = named(facts, "aten::select")
    per_step = int(np.count_nonzero(facts.in_input[taken])) / max(facts.steady_count, 1)
    if per_step < FEWEST_TAKEN or work.exposed_ns > EACH_NS * per_step:
        return None
    return Evidence("times that one row of a tensor is taken, per step", per_step, "count")


def _several(facts: Facts, work: BatchWork) -> Fix:
    """The fix where a single thread cannot keep up."""
    if work.source == "generator":
        return RULE.fix("generator-torch" if is_pytorch(facts) else "generator")
    return RULE.fix({"DataLoader": "torch", "PyDataset": "keras"}.get(work.source, "tf"))


def _ahead(facts: Facts, work: BatchWork) -> Fix:
    """The fix where a thread or process that works ahead is enough."""
    if work.source == "generator":
        return RULE.fix("jax-ahead" if facts.trace.meta.framework == "jax" else "thread-ahead")
    ways = {"DataLoader": "torch-ahead", "PyDataset": "keras-ahead"}
    return RULE.fix(ways.get(work.source, "tf-ahead"))


def _random(facts: Facts) -> Finding:
    """Judge the time in which the graph only generates its own random input."""
    is_known = bool(facts.leading) and "passes" not in facts.trace.meta.signals
    reads = reads_of(facts) if is_known and facts.names_nodes else {}
    if not reads:
        return _unseen(facts) or RULE.no_data("input", _UNKNOWN)
    rows, others = rows_of_random_input(facts, reads)
    alone = time_of(facts, rows) - time_of(facts, others)
    cost = on_scale(facts, mean_within(facts, alone), "compute")
    evidence = _evidence(facts, rows, cost)
    if cost < RANDOM_SHARE * facts.wall_ns:
        return _unseen(facts, *evidence[:1]) or RULE.nothing(evidence[:1])
    gain = saving("keep or prefetch random input", LEAST_SAVED * cost, cost)
    return RULE.finding(
        cost, evidence, RULE.fix("random"), gain, Edit("input", "free"), title=_RANDOM_TITLE
    )


def _unseen(facts: Facts, *evidence: Evidence) -> Finding | None:
    """The finding where the work on batches is not seen; None if no wait for them is either."""
    if facts.share("input_wait") >= SHARE and not is_prepared_in_parallel(facts):
        return RULE.incomplete("input", UNSEEN_WORK, evidence)
    is_seen = facts.breakdown["input_wait"] or len(facts.slices(Kind.INPUT, steady=True))
    return RULE.nothing(evidence) if is_seen else None


def _evidence(facts: Facts, rows: AnyRows, cost: int) -> tuple[Evidence, ...]:
    share = Evidence(
        "share of the step that only generates random input",
        cost / max(facts.wall_ns, 1),
        "fraction",
    )
    nodes = facts.trace.nodes
    lines = dict(zip(nodes.name.tolist(), nodes.source.tolist(), strict=True))
    scopes = facts.trace.slices.scope[rows]
    found = [share]
    for scope in set(scopes.tolist()):
        group = by_name(facts, rows[scopes == scope])[0]
        line = lines.get(scope, NULL)
        name = facts.trace.string(scope)
        where = f"{name} · {facts.trace.string(line)}" if line != NULL else name
        what = f"device time of {group.name}"
        found.append(Evidence(what, facts.mean_ns(group.total_ns), "ns", where))
    found[1:] = sorted(found[1:], key=lambda each: (-float(each.value), each.where))[:4]
    return tuple(found)


_UNKNOWN = (
    "Neither fetches of batches, nor stack samples of the work on them, nor which operation of a "
    "graph reads from which is recorded."
)
_MAYBE = "Prepare batches beside the step, if a trial shows that it helps"
_BATCHED = "Take whole batches out of the data set, not one sample after another"
_SEVERAL = "Prepare several batches at a time"
_RANDOM_TITLE = "Generate random input once, or ahead of the step"
