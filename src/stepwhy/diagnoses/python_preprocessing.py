"""Python prepares the batches, slower than the step needs them.

## What it means
A Python function of the program prepares each element of a batch: called by a `tf.py_func` in a
queue or in `tf.data`, by a `Dataset` of PyTorch, or by the training loop, which feeds its result.
The step waits for it.

## Why it costs
Python runs one thread at a time, so that more threads of the training's process do not make it
faster, and the loop itself has to wait for the interpreter's lock. Worker processes do, as far as
there are cores. What is computed once, before the training, costs nothing in it.

## How it is measured
Stack samples say how much of the time threads spend in lines of the program that an input pipeline
called (or, where the loop feeds placeholders, in lines of the program outside the framework), and
in which function most of it. No more of it is counted than the step waits for input; with threads
of the training's own process, than it waits for input or is in framework code without using a core,
which then is the wait for the interpreter's lock; and where the loop feeds, than it is outside the
framework. The processes needed to keep up are this work per step, by the rest of the step. The high
end of the saving adds what the rest of the step may lose to a shortage of cores.

## Fix
Do the work once and store its result: TFRecords, arrays, a cache on disk. Where it must be done
anew for each element (random augmentation), use worker processes, or operations that are not
Python.

## Fix risk
None where the function always gives the same for the same input. What is random in it becomes the
same in every epoch once it is stored: keep such parts in the pipeline.

## When it abstains
When no stack was sampled (traces of other profilers, or a system that does not let py-spy look),
and when no sampled line was called by an input pipeline that is known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.diagnoses.shared.measure import taken_from_the_rest
from stepwhy.diagnoses.shared.rule import Rule, saving
from stepwhy.findings import Evidence, Fix
from stepwhy.passes.counters import series
from stepwhy.passes.preparation import find_preparation
from stepwhy.trace import Kind, SampleRole

if TYPE_CHECKING:
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.preparation import Preparation

RULE = Rule(
    id="python-preprocessing",
    family="input",
    name="Preparing batches in Python",
    found="Do the Python work on each element once, before the training",
    clear="Python that prepares batches does not hold up the step",
    needs=(("steps",),),
    refines="input-bound",
)

SHARE = 0.10  # of the step; below it the cure gains less than what steps vary by
LEAST_SAVED = 0.7  # of the cost; what was computed before still has to be read

_LOCK = "waiting for the interpreter's lock, or a core"


def diagnose(facts: Facts) -> Finding:
    """Judge the Python that prepares batches against the time that the step waits for it."""
    if not len(facts.sampled.samples):
        return RULE.no_data("No stack of the training was sampled.")
    fed = _feeds(facts)
    work = find_preparation(facts.sampled, fed=fed)
    if work is None:
        return RULE.no_data("No sampled line is known to prepare batches.")
    # Of several processes, each holds up the step as long as its own share of the time.
    busy = work.at_once / max(work.producers or 1.0, 1.0)
    held = _held_up(facts, work)
    cost = min(sum(held.values()), round(min(busy, 1.0) * facts.wall_ns))
    evidence = _evidence(facts, work, held, cost)
    if cost < SHARE * facts.wall_ns:
        return RULE.nothing(evidence[:2])
    rivals = 0.0 if work.role is SampleRole.DRIVER else _running(work)
    most = cost + taken_from_the_rest(facts, cost, rivals)
    gain = saving("precompute: remove input_wait", LEAST_SAVED * cost, most)
    return RULE.finding(cost, evidence, _fix(facts, work), gain)


def _feeds(facts: Facts) -> bool:
    """Whether the loop feeds what it trains on; only then is its own Python known to be input."""
    trace = facts.trace
    placeholders = trace.strings_where(("Placeholder", "PlaceholderV2"))
    fetches = facts.slices(Kind.INPUT, steady=True)
    return bool(np.isin(trace.nodes.op, placeholders).any()) and not len(fetches)


def _held_up(facts: Facts, work: Preparation) -> dict[str, int]:
    """Time of the step that such Python can explain, ns, in words."""
    parts = facts.breakdown
    if work.role is SampleRole.DRIVER and not work.entry:
        return {"outside the framework": parts["python"] + parts["unexplained"]}
    waited = facts.lock_wait_ns
    held = {"waiting for input": parts["input_wait"] - waited}
    if waited:
        held[_LOCK] = waited
    return held


def _evidence(
    facts: Facts, work: Preparation, held: dict[str, int], cost: int
) -> tuple[Evidence, ...]:
    per_step = round(_running(work) * facts.wall_ns)
    rest = max(facts.wall_ns - cost, 1)
    found = [
        Evidence("share of the step that it costs", cost / max(facts.wall_ns, 1), "fraction"),
        Evidence(
            "share of this Python in one function", work.function_share, "fraction", work.line
        ),
        Evidence("who runs it", _WHO[work.role].format(work.entry or "the program"), ""),
        Evidence("Python work per step", per_step, "ns"),
        Evidence("step without the wait for it", rest, "ns"),
        Evidence("processes needed to keep up", math.ceil(per_step / rest), "count"),
        *(Evidence(f"time of the step {name}", ns, "ns") for name, ns in held.items()),
    ]
    if work.producers is not None:
        found.append(Evidence("processes that do it", round(work.producers), "count"))
    cores = series(facts.trace, "cores").last
    if cores is not None:
        found.append(Evidence("cores of the machine", cores, "count"))
    return tuple(found)


def _running(work: Preparation) -> float:
    """How many processes it keeps busy: of the threads of one, a single one runs at a time."""
    return min(work.at_once, 1.0) if work.producers is None else work.at_once


_WHO = {
    SampleRole.DRIVER: "the driving thread itself, called by {}",
    SampleRole.THREAD: "other threads of the training's process, called by {}",
    SampleRole.WORKER: "worker processes, called by {}",
}


def _fix(facts: Facts, work: Preparation) -> Fix:
    if facts.trace.meta.framework == "pytorch":
        return _PYTORCH if work.producers is not None else _PYTORCH_WORKERS
    if facts.trace.meta.framework == "tensorflow":
        return _TF if work.entry else _TF_FED
    return _ANY


_TFRECORDS = (
    "# once:\n"
    "with tf.io.TFRecordWriter(path) as writer:\n"
    "    for x in data:\n"
    "        writer.write(to_example(x, prepare(x)).SerializeToString())\n"
    "# in the training, TF1 and TF2:\n"
    "dataset = (tf.data.TFRecordDataset(path).shuffle(n).repeat()\n"
    "           .map(parse, num_parallel_calls=4)\n"
    "           .batch(batch_size).prefetch(2))"
)
_TF = Fix(
    "Compute it once and store the result in TFRecords: threads that run Python take turns, so "
    "that more of them gain nothing.",
    _TFRECORDS,
    "none",
)
_TF_FED = Fix(
    "If this function prepares what is fed: compute it once, store the result in TFRecords, and "
    "read them inside the graph, ahead of the step.",
    _TFRECORDS,
    "none",
)
_PYTORCH = Fix(
    "Compute it once and store the result: read arrays in __getitem__ instead of making them. More "
    "workers help as long as there are cores for them.",
    "# once:\n"
    "np.save(path, np.stack([prepare(x) for x in data]))\n"
    "# in the Dataset:\n"
    "self.prepared = np.load(path, mmap_mode='r')      # in __init__\n"
    "return self.images[i], self.prepared[i].copy()    # in __getitem__",
    "none",
)
_PYTORCH_WORKERS = Fix(
    "Compute it once and store the result. What must stay in __getitem__ belongs into worker "
    "processes: the DataLoader works in the training loop.",
    _PYTORCH.code
    + "\n# and\nloader = DataLoader(dataset, ..., num_workers=4, persistent_workers=True)",
    "none",
)
_ANY = Fix("Compute it once, before the training, and read the result in it.", "", "none")
