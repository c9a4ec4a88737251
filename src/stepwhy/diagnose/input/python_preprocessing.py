"""Python code prepares batches more slowly than the step needs them.

## What it means
A Python function of the program prepares each element of a batch. It is called by a `tf.py_func` in
a queue or in `tf.data`, by a PyTorch `Dataset`, or by the training loop, which feeds its result.
The step waits for it.

## Why it costs
Only one thread at a time can run Python code, so more threads in the training process do not help
code that computes, and the loop itself has to wait for the GIL. Worker processes help as long as
there are free cores. Results that are computed once, before training, cost nothing during training.
Threads that wait, for storage or a network, need no core, and more of them wait at the same time.

## How it is measured
Stack samples show how much time threads spend in lines of the program that an input pipeline called
(or, if the loop feeds placeholders, in lines outside the framework), and in which function. The
cost is capped at the time that the step waits for input. For threads of the training process, the
cap includes time in framework code without CPU use, which is the wait for the GIL; if the loop
feeds, the cap is the time outside the framework. The number of processes needed to keep up is this
work per step divided by the rest of the step. The high end of the saving includes what the rest of
the step may lose to a shortage of cores. Workers that have a batch ready most of the time keep up.
Then only work that can be spared counts, and only if the training thread waits for a core for a
fifth of the step or more, although no other programs use the cores: the cost is that wait, at most
the time for which this work uses a core.

Where few or no such lines were sampled, TensorFlow's model of a `tf.data` pipeline tells how many
elements a generator yields for each batch, and how long each takes: TensorFlow converts every one
of them in Python, which takes longer than most generators.

Threads of the training process mostly wait if half of this time or more is not covered by the time
in which the threads of the process ran or waited for a core, without that of the main thread and
of operations. That is a lower bound: where it is less, the thread may still wait.

What a line does follows from the samples: a loop or comprehension in which Python itself runs goes
from element to element, `list.index` in one searches a list, a call into pandas looks rows up, one
into `NpzFile` or the standard library's archives unpacks them, `json.loads`, `strptime` and regular
expressions parse text, `h5py`, `zarr` and `pyarrow` read parts of a file, `execute` and `fetchall`
ask a database. A loop that is known to have fewer
than 16 turns per sample is none over elements. If most of the preparation is such work, the report
predicts what the step saves without it, with half of it, and with as many workers as keep up. In a
`DataLoader` without workers or a generator, this also holds for other work if most of it is in one
function that does not only read files or draw random numbers, if that takes a quarter of the step,
and if half of it is more than workers are predicted to save.

## Fix
If most of the work can be spared, spare it first: compute on arrays instead of elements, look
elements up in a dictionary, index arrays instead of a data frame, unpack an archive once. That also
holds for a `DataLoader` without workers and for generators, unless workers are predicted to save
more. Do the rest of the work once and store the result: TFRecords, arrays, a cache on disk. If it
must be repeated for each element (random augmentation), use worker processes, or operations that do
not run Python code. If it only reads or decodes files, store what it decodes, uncompressed. If its
threads mostly wait, use more of them, or ask for more at a time.

## Fix risk
None if the function is deterministic. Random augmentation would be the same in every epoch once it
is stored: keep it in the pipeline.

## When it abstains
When no stack was sampled (traces of other profilers, or a system that does not permit py-spy), and
when no known input pipeline called a sampled line. Does not apply if the training loop itself
prepares the batches, in a `DataLoader` without workers or a generator, by work that has to be done,
or if workers are predicted to save more: `serial-input` judges that.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from stepwhy.analyse.breakdown.preparation import Preparation, find_preparation
from stepwhy.analyse.breakdown.work_kinds import FILE_LIBRARIES, WorkKind
from stepwhy.analyse.input.batch_work import find_batch_work
from stepwhy.analyse.steps.counters import series
from stepwhy.diagnose.input.shared.blocked import blocked_share
from stepwhy.diagnose.input.shared.generator_stage import generator_stage
from stepwhy.diagnose.input.shared.loaders import batches_ready
from stepwhy.diagnose.input.shared.removable_work import (
    LEAST_SPARED,
    TITLES,
    Alternatives,
    Removable,
    longest_function,
    of_serial_work,
    of_work_beside,
    removable_work,
)
from stepwhy.diagnose.shared.augmentation import cheaper_augmentation, is_new, why_new
from stepwhy.diagnose.shared.measure import contention_ns
from stepwhy.diagnose.shared.program import feeds_placeholders, is_pytorch
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule, saving
from stepwhy.diagnose.shared.stable_functions import could_be_kept
from stepwhy.trace import Kind, SampleRole

RULE = Rule(
    __name__,
    name="Preparing batches in Python",
    found="Precompute the Python preprocessing, or run it in parallel",
    clear="Preparing batches in Python does not delay the step",
    needs=(("steps",),),
    refines="input-bound",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
SHARE_OF_FUNCTION = 0.25  # of the step; half of less would save too little to look for
SHARE_OF_CORES = 0.20  # of the step, in waits for a core; on few cores, any worker causes some
SINGLE = 16  # elements per step that a generator yields; fewer are batches, or large elements
LEAST_SAVED = 0.7  # of the cost; precomputed results still have to be read
MOSTLY_WAITS = 0.5  # of the preparation is blocked; more threads then do most of it at once
LEAST_SAVED_BY_THREADS = 0.5  # of the cost; what they wait for may be busy itself
LEAST_REST = 0.01  # of the step; the breakdown resolves no less
MOST_THREADS = 16  # advised; more of them rarely wait for storage at a time
# Of the function's samples; C functions that the program calls directly count as the program.
READS = 0.3

_SINGLE_ELEMENTS = "Let the generator yield whole batches: TensorFlow takes long for each element"
_SERIAL = "The training loop itself prepares the batches: see serial-input."
_NEW = "Make the random part of the preprocessing cheaper, or run it in parallel"
_NO_STACK = "No stack of the training was sampled."
_NO_LINE = "No sampled line prepares batches."
_OTHERWISE = (
    "Only if it cannot be spared, hide it: more workers prepare batches beside the step, and need "
    "a core each."
)
_GIL = "waiting for the GIL, or a core"


def diagnose(facts: Facts) -> Finding:
    """Judge the Python that prepares batches against the time that the step waits for it."""
    if not len(facts.sampled.samples):
        return _of_generator(facts) or RULE.no_data("stacks", _NO_STACK)
    # Only where the loop feeds placeholders, its own Python code is known to be input.
    fed = feeds_placeholders(facts) and not len(facts.slices(Kind.INPUT, steady=True))
    work = find_preparation(facts.sampled, fed=fed)
    if work is None:
        return _of_generator(facts) or RULE.no_data("stacks", _NO_LINE)
    if work.role is SampleRole.DRIVER and work.entry:
        return _of_serial(facts, work)
    ready = batches_ready(facts) if work.role is SampleRole.WORKER else None
    if ready is not None:
        return _takes_cores(facts, work, ready) or RULE.nothing((ready,))
    # Several processes share the work, so each delays the step by its share.
    busy = work.at_once / max(work.producers or 1.0, 1.0)
    waits = _waits(facts, work)
    cost = min(sum(waits.values()), round(min(busy, 1.0) * facts.wall_ns))
    blocked = blocked_share(facts, work)
    if blocked is not None and blocked >= MOSTLY_WAITS and cost >= SHARE * facts.wall_ns:
        return _mostly_waits(facts, work, cost, blocked)
    evidence = _evidence(facts, work, waits, cost)
    if cost < SHARE * facts.wall_ns:
        return _of_generator(facts) or RULE.nothing(evidence[:2])
    spared = removable_work(facts, work)
    if spared is not None:
        ways = of_work_beside(facts, work, spared, cost, round(work.running * facts.wall_ns))
        if not ways.prefer_workers:
            evidence = (*evidence[:1], *spared.evidence(), *evidence[2:])
            return _spare(cost, ways, spared, evidence)
    competitors = 0.0 if work.role is SampleRole.DRIVER else work.running
    most = cost + contention_ns(facts, cost, competitors)
    is_new_each_time = is_new(facts, work.line)
    least = 0.0 if is_new_each_time else LEAST_SAVED
    gain = saving("precompute: remove input_wait", least * cost, most)
    title = _NEW if is_new_each_time else ""
    return RULE.finding(cost, evidence, _fix(facts, work), gain, Edit("input", "gone"), title=title)


def _of_serial(facts: Facts, work: Preparation) -> Finding:
    """Judge work in the training loop itself: it applies if to spare it is better than workers."""
    serial, spared = find_batch_work(facts), removable_work(facts, work)
    # Whether to keep results from epoch to epoch is judged by repeated-preprocessing.
    if spared is None and not is_new(facts, work.line) and not could_be_kept(facts):
        spared = longest_function(work)
    if serial is None or spared is None:
        return RULE.not_applicable(_SERIAL)
    ways = of_serial_work(facts, serial, spared)
    # Nothing shows how much of a function can be spared that is of no known kind.
    sure_ns = ways.gone_ns if spared.kind else round(LEAST_SPARED * ways.gone_ns)
    least = SHARE if spared.kind else SHARE_OF_FUNCTION
    is_better = sure_ns >= ways.workers_ns if spared.kind else sure_ns > ways.workers_ns
    if not is_better or ways.gone_ns < least * facts.wall_ns:
        return RULE.not_applicable(_SERIAL)
    return _spare(ways.gone_ns, ways, spared, _place(facts, work, ways.gone_ns, spared))


def _takes_cores(facts: Facts, work: Preparation, ready: Evidence) -> Finding | None:
    """The finding about workers that keep up, but take the cores; None if nothing can be spared.

    The training waits for a core no longer than the workers, which can be spared, use one.
    """
    spared = removable_work(facts, work)
    if spared is None or facts.observed is None or facts.observed.is_contended:
        return None
    waited = facts.observed.driver.core_wait_ns or 0
    cost = min(waited, round(spared.share * work.running * facts.wall_ns))
    if cost < SHARE_OF_CORES * facts.wall_ns:
        return None
    evidence = (
        *_place(facts, work, cost, spared),
        Evidence("cores that it uses, on average", round(work.running, 1), "count"),
        Evidence("wait of the training thread for a core per step", waited, "ns"),
        ready,
    )
    gain = saving("this work half as long, or gone", LEAST_SPARED * cost, cost)
    fix = RULE.fix(_WAYS[spared.kind])
    return RULE.finding(cost, evidence, fix, gain, title=TITLES[spared.kind])


def _spare(
    cost: int, ways: Alternatives, spared: Removable, evidence: tuple[Evidence, ...]
) -> Finding:
    """The finding about work that can mostly be spared."""
    fix, gone_ns = RULE.fix(_WAYS[spared.kind]), min(ways.gone_ns, cost)
    gain = saving("this work half as long, or gone", LEAST_SPARED * gone_ns, gone_ns)
    return RULE.finding(
        cost,
        (*evidence, *ways.evidence(spared.line)),
        replace(fix, text=f"{fix.text} {_OTHERWISE if ways.workers else ''}".strip()),
        gain,
        Edit("input", "gone", cost_ns=gone_ns),
        title=TITLES[spared.kind],
    )


_WAYS = {
    WorkKind.ELEMENTS: "elements",
    WorkKind.SEARCH: "search",
    WorkKind.TABLE: "table",
    WorkKind.ARCHIVE: "archive",
    WorkKind.PARSE: "parse",
    WorkKind.SLICES: "slices",
    WorkKind.CONVERT: "convert",
    WorkKind.QUERY: "query",
    WorkKind.OTHER: "function",
}


def _of_generator(facts: Facts) -> Finding | None:
    """The finding about a generator that yields single elements; None if it is no cause."""
    stage = generator_stage(facts)
    if stage is None or stage.per_batch < SINGLE:
        return None
    cost = min(round(stage.per_batch * stage.element_ns), facts.usual_input_wait_ns)
    if cost < SHARE * facts.wall_ns:
        return None
    share = Evidence("share of the step", cost / facts.wall_ns, "fraction")
    gain = saving("yield batches: remove input_wait", LEAST_SAVED * cost, cost)
    evidence, edit = (share, *stage.evidence()), Edit("input", "gone")
    return RULE.finding(cost, evidence, RULE.fix("generator"), gain, edit, title=_SINGLE_ELEMENTS)


def _mostly_waits(facts: Facts, work: Preparation, cost: int, blocked: float) -> Finding:
    """The finding about threads that wait for something, and hardly compute."""
    per_step = round(work.at_once * facts.wall_ns)
    rest = _rest_ns(facts, cost)
    needed = math.ceil(per_step / rest) if rest else MOST_THREADS
    evidence = (
        *_place(facts, work, cost),
        Evidence("share of its time without using a core, at least", blocked, "fraction"),
        Evidence("time in this code per step", per_step, "ns"),
        Evidence("threads in it at once, on average", round(work.at_once, 1), "count"),
        *_keep_up(per_step, rest, "threads"),
    )
    gain = saving("more threads: remove input_wait", LEAST_SAVED_BY_THREADS * cost, cost)
    return RULE.finding(cost, evidence, _more_threads(work, needed), gain, title=_MORE_THREADS)


def _waits(facts: Facts, work: Preparation) -> dict[str, int]:
    """Time of the step that this Python code can explain: label and ns."""
    parts = facts.breakdown
    if work.role is SampleRole.DRIVER and not work.entry:
        return {"outside the framework": parts["python"] + parts["unexplained"]}
    waited = facts.lock_wait_ns
    waits = {"waiting for input": max(facts.usual_input_wait_ns - waited, 0)}
    if waited:
        waits[_GIL] = waited
    return waits


def _evidence(
    facts: Facts, work: Preparation, waits: dict[str, int], cost: int
) -> tuple[Evidence, ...]:
    per_step = round(work.running * facts.wall_ns)
    found = [
        *_place(facts, work, cost),
        Evidence("time in this code per step", per_step, "ns"),
        *_keep_up(per_step, _rest_ns(facts, cost), "processes"),
        *(Evidence(f"time of the step {name}", ns, "ns") for name, ns in waits.items()),
    ]
    if work.producers is not None:
        found.append(Evidence("processes that do it", round(work.producers), "count"))
    cores = series(facts.trace, "cores").last
    if cores is not None:
        found.append(Evidence("cores of the machine", cores, "count"))
    return tuple(found)


def _rest_ns(facts: Facts, cost: int) -> int | None:
    """The step without the wait; None if too little is left of it to be told from nothing."""
    rest = facts.wall_ns - cost
    return rest if rest >= LEAST_REST * facts.wall_ns else None


def _keep_up(per_step: int, rest: int | None, who: str) -> tuple[Evidence, ...]:
    """How many threads or processes make a batch in the rest of the step, if that is known."""
    if not rest:
        return ()
    return (
        Evidence("step without waiting for a batch", rest, "ns"),
        Evidence(f"{who} needed to keep up", math.ceil(per_step / rest), "count"),
    )


def _place(
    facts: Facts, work: Preparation, cost: int, spared: Removable | None = None
) -> tuple[Evidence, ...]:
    """Which code it is, or what of it can be spared, and what runs it."""
    share = work.function_share
    function = Evidence("share of this Python in one function", share, "fraction", work.line)
    return (
        Evidence("share of the step", cost / max(facts.wall_ns, 1), "fraction"),
        *(spared.evidence() if spared else (function, *_reading(work))),
        Evidence("runs in", _runs_in(work), ""),
    )


def _runs_in(work: Preparation) -> str:
    if work.entry == "feed" and work.role is SampleRole.THREAD:
        return "other threads of the training's process, which fill a queue"
    return _WHO[work.role].format(_CALLERS.get(work.entry, work.entry))


def _reading(work: Preparation) -> list[Evidence]:
    """In which library the function reads, unpacks or decodes; none if it does not."""
    if not _reads(work):
        return []
    name = "the standard library" if work.package == "python" else work.package
    return [Evidence("share of the function in one library", work.package_share, "fraction", name)]


def _reads(work: Preparation) -> bool:
    return work.package in FILE_LIBRARIES and work.package_share >= READS


_CALLERS = {"": "the program", "feed": "the loop", "generator": "a generator"}
_WHO = {
    SampleRole.DRIVER: "the driving thread itself, called by {}",
    SampleRole.THREAD: "other threads of the training's process, called by {}",
    SampleRole.WORKER: "worker processes, called by {}",
}


def _fix(facts: Facts, work: Preparation) -> Fix:
    fix = _precomputed(facts, work)
    if fix not in {RULE.fix("tf"), RULE.fix("pydataset")} or work.role is not SampleRole.THREAD:
        return fix
    return replace(fix, text=f"{fix.text} {_NO_THREADS if facts.lock_wait_ns else _PERHAPS}")


def _precomputed(facts: Facts, work: Preparation) -> Fix:
    if is_new(facts, work.line):
        if work.entry == "py_func":
            return RULE.fix("tf-random", why=why_new(work.line))
        return cheaper_augmentation(work.line)
    if is_pytorch(facts):
        return RULE.fix("pytorch-files" if _reads(work) else "pytorch")
    if work.entry == "PyDataset":
        return RULE.fix("pydataset")
    if facts.trace.meta.framework == "tensorflow":
        return RULE.fix("tf" if work.entry else "tf-fed")
    return RULE.fix("any")


def _more_threads(work: Preparation, needed: int) -> Fix:
    """The fix for threads that wait."""
    if work.entry != "feed":
        return RULE.fix("more-threads", how=_MORE_OF.get(work.entry, ""))
    count = min(max(needed, 2), MOST_THREADS)
    fix = RULE.fix("more-feeders")
    return replace(fix, code=fix.code.replace("(4)", f"({count})"))


_MORE_THREADS = "Let more threads prepare batches, because the present ones mostly wait"
_NO_THREADS = (
    "More threads do not help, because only one thread at a time can run Python code, and the "
    "training waits for it already."
)
_PERHAPS = (
    "More threads help only as far as this code waits, for files or a network: only one thread at "
    "a time can run Python code."
)
_MORE_OF = {
    "py_func": (
        " Let more of them call the function: with num_parallel_calls in tf.data, with num_threads "
        "at a queue."
    ),
    "PyDataset": " Give the data set more workers, as threads: use_multiprocessing=False.",
    "generator": " Let tf.data interleave several generators, each with a part of the data.",
}
