"""The step waits for its next batch.

## What it means
The device is idle because the driving thread waits for the next batch, or prepares it itself.

## Why it costs
Loading that does not run in parallel with the previous step adds its whole time to every step.

## How it is measured
Time of the steady steps in which the device is idle and the driving thread is inside the fetch of
a batch (a `DataLoader`'s `__next__`, `IteratorGetNext`, a queue's dequeue) or inside functions
that prepare one. Time in which the device still computes is not counted. The step log shows whether
only a few of the steps wait. Keras's `fit` asks for batches inside of a compiled function. If most
first steps of its epochs are long, what they take beyond the others counts as waiting for input: a
shuffle buffer is filled again, or the pipeline is only made and started again.

## Fix
Prepare batches in parallel with the step, in worker processes or a prefetching pipeline; then make
preparing them cheaper, for example once instead of in every epoch. If the training thread itself
does the work, add workers; if it waits for workers, use more of them, or do less work per sample.
If the workers of the `DataLoader` that the steps wait for have a batch ready most of the time, more
of them do not help: make batches cheaper to receive. What a `tf.data` pipeline already does is not
advised: if its recorded stages work ahead and in parallel, it has to do less, for example by a
`cache`. If most of the work is a function of less than 0.2 ms that is called for each of eight
elements or more of a batch, form batches before it.

## Fix risk
None for the result, apart from the order of random augmentation. Workers need memory, and on a
machine with few cores they compete with the training itself; the low end of the saving allows for
that.

## When it abstains
When no fetch of a batch is recorded: a loop may still wait for a loader that the profiler does not
know. When the device was in use but not recorded, or when fewer than ten steps were recorded and
only one of them waited long. Does not apply if the thread that runs the loop
prepares the batches and the program may use one core only.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.input.batch_work import fetches_from_workers, find_batch_work
from stepwhy.analyse.input.overlap import workers_for
from stepwhy.analyse.steps.cores import usable_cores
from stepwhy.analyse.steps.stalls import epoch_starts, rows_of_kinds
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.input.shared.loaders import batches_ready, without_repeats
from stepwhy.diagnose.input.shared.long_waits import BEGINS, long_waits
from stepwhy.diagnose.input.shared.overlap import with_workers
from stepwhy.diagnose.shared.measure import (
    Group,
    by_name,
    by_string,
    enclosing,
    mean_within,
    source_lines,
    time_of,
)
from stepwhy.diagnose.shared.pipeline_stages import (
    caches,
    called_for_elements,
    calls_in_parallel,
    pipeline_lines,
    shuffles,
    shuffles_what_is_computed,
    stage_rows,
    work_of_stages,
    works_ahead,
)
from stepwhy.diagnose.shared.program import uses_loader
from stepwhy.diagnose.shared.rule import Edit, Evidence, Facts, Finding, Fix, Rule
from stepwhy.diagnose.shared.steady_events import cost_per_step, summary
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Waiting for input",
    found="Prepare batches in parallel with the step",
    clear="Batches are ready when the step asks for them",
    needs=(("device-time",), ("steps",)),
    least_saved=0.5,  # of the wait; workers share cores and memory bandwidth with the training
    change="remove input_wait",
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
WORKING_SHARE = 0.5  # of the fetches' time; above it the driving thread itself prepares the batch
WORTH_NAMING = 0.05  # of the fetches' time, for a line of the input code

_SEVERAL, _MANY = 3, 10  # recorded fetches; among more, one that is long weighs little
_ONCE = "Only one of the {} recorded steps waited long for its batch."
_SHOWN = 3
# Source: `wrapper_fn` of `StructuredFunctionWrapper` in tensorflow/python/data/ops.
_OF_DATASET = regex(r"Dataset_(map|flat_map|map_and_batch|filter)_(\w+)")
_ONE_CORE = "The program may use one core only: nothing can prepare batches beside the step."
_WORK = (Kind.OP, Kind.PYTHON, Kind.FRAMEWORK, Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC)


def diagnose(facts: Facts) -> Finding:
    """Judge the share of the step in which the device waits for input."""
    rows = facts.slices(Kind.INPUT, steady=True)
    # Fetches that are not part of another fetch.
    fetches = rows[np.array([enclosing(facts, int(r), Kind.INPUT) < 0 for r in rows], dtype=bool)]
    if not len(fetches) and not facts.breakdown["input_wait"]:
        return RULE.no_data("input", "No fetch of a batch is recorded (signal 'input').")
    cost = facts.breakdown["input_wait"]
    late = epoch_starts(facts.trace, facts.unprofiled_rows)
    if 2 * cost_per_step(facts, late) > cost and facts.share("input_wait") >= SHARE:
        evidence = (_share(facts), *summary(late, *BEGINS))
        if shuffles_what_is_computed(facts.trace):
            return RULE.finding(cost, evidence, RULE.fix("tf-epochs"), title=_EPOCHS)
        stages = () if stage_rows(facts.trace) else _traced(facts)
        evidence += (*pipeline_lines(facts.trace), *stages)
        return RULE.finding(cost, evidence, RULE.fix("tf-repeat"), title=_ITERATE_ONCE)
    working = _works_itself(facts, fetches)
    ready = None if working else batches_ready(facts)
    evidence = (*_evidence(facts, fetches, working), *([ready] if ready else []))
    if facts.share("input_wait") < SHARE:
        return RULE.nothing(evidence[:1])
    if not working and _waits_once(facts, fetches):
        return RULE.incomplete("steps", _ONCE.format(len(fetches)), evidence[:3])
    if working and usable_cores(facts.trace) == 1:
        return RULE.not_applicable(_ONE_CORE)
    if ready:
        title = "Make batches cheaper to receive"
        gone = Edit("input", "gone")
        return RULE.finding(cost, evidence, RULE.fix("pytorch-ready"), edit=gone, title=title)
    way = _way(facts, fetches, working)
    title = _TITLES.get(way, "")
    short = called_for_elements(facts.trace) if way == "tf-batched" else None
    stages = work_of_stages(facts.trace) if stage_rows(facts.trace) else _traced(facts)
    evidence += (short,) if short else stages
    edit = _edit(facts, working=working)
    return RULE.finding(cost, evidence, _fix(facts, way), edit=edit, title=title)


def _works_itself(facts: Facts, fetches: AnyRows) -> bool:
    """Whether the driving thread prepares the batch itself, rather than waiting for workers."""
    if works_ahead(facts.trace):
        return False
    from_workers = fetches_from_workers(facts)
    if from_workers is not None:
        return not from_workers
    inside = facts.in_input.copy()
    inside[fetches] = False
    busy = mean_within(facts, time_of(facts, _among(facts, inside, *_WORK)))
    return busy > WORKING_SHARE * max(mean_within(facts, time_of(facts, fetches)), 1)


def _evidence(facts: Facts, fetches: AnyRows, working: bool) -> tuple[Evidence, ...]:
    found = [_share(facts)]
    if not len(fetches):
        return tuple(found)
    waits = long_waits(facts)
    found.extend(waits or _fetched(facts, fetches))
    who = "the training thread itself" if working else "other threads; the training thread waits"
    # Annotations of the program do not show the work inside them.
    if working or facts.trace.meta.framework:
        found.append(Evidence("who prepares the batch", who, ""))
    durations = facts.trace.slices.dur_ns[fetches]
    found.extend(
        Evidence("time in the input code", facts.mean_ns(g.total_ns), "ns", g.name)
        for g in ([] if waits else _hottest(facts, fetches)[:3])
        if g.total_ns > WORTH_NAMING * durations.sum()
    )
    return tuple(found)


def _share(facts: Facts) -> Evidence:
    return Evidence(
        "share of the step spent waiting for input", facts.share("input_wait"), "fraction"
    )


def _fetched(facts: Facts, fetches: AnyRows) -> tuple[Evidence, ...]:
    """The fetches in the recorded steps; they say little if only a few of all steps wait."""
    top = by_name(facts, fetches)[0]
    durations = facts.trace.slices.dur_ns[fetches]
    return (
        Evidence("median time of a fetch", int(np.median(durations)), "ns", top.name),
        Evidence("longest fetch", int(durations.max()), "ns", top.name),
        Evidence("fetches per step", len(fetches) / max(facts.steady_count, 1), "count"),
    )


def _traced(facts: Facts) -> tuple[Evidence, ...]:
    """The functions that pipelines of `tf.data` call, where only their tracing was seen."""
    events, text = facts.trace.events, facts.trace.string
    found: dict[str, Evidence] = {}
    for row in rows_of_kinds(facts.trace, "trace").tolist():
        name, line = int(events.name[row]), int(events.source[row])
        called = _OF_DATASET.fullmatch(text(name)) if name != NULL else None
        if called and line != NULL:
            how, function = called.groups()
            where = f"{text(line)}, {how}"
            found[text(name)] = Evidence("function of a pipeline", function, "", where)
    return tuple(found.values())[:_SHOWN]


def _waits_once(facts: Facts, fetches: AnyRows) -> bool:
    """Whether a single fetch of the few that were recorded makes the wait worth reporting."""
    durations = facts.trace.slices.dur_ns[fetches]
    others = 1 - durations.max(initial=0) / max(durations.sum(), 1)
    return _SEVERAL <= len(fetches) < _MANY and facts.share("input_wait") * others < SHARE


def _hottest(facts: Facts, fetches: AnyRows) -> list[Group]:
    """Source lines of the input code, or operations if no line is known, longest first."""
    inside = facts.in_input.copy()
    inside[fetches] = False
    rows = _among(facts, inside, *_WORK, Kind.INPUT)
    lines, names = source_lines(facts, rows), facts.trace.slices.name[rows]
    keys = np.where(lines == NULL, names, lines)
    return by_string(facts, keys, facts.nesting.self_ns(rows))


def _among(facts: Facts, mask: Mask, *kinds: Kind) -> Ints:
    """Steady slices of some kinds that a (slices,) mask selects; rows of slices."""
    rows = facts.slices(*kinds, steady=True)
    return rows[mask[rows]]


def _edit(facts: Facts, *, working: bool) -> Edit | None:
    """What the fix changes: workers of a loader, or batches that are prepared beside the step.

    None if others prepare them already, but too slowly: how many more could is not recorded.
    """
    if not working:
        return None
    work = find_batch_work(facts) if uses_loader(facts) else None
    if work is None:
        return Edit("input", "prefetch")
    return Edit("input", "workers", count=workers_for(facts, work))


def _way(facts: Facts, fetches: AnyRows, working: bool) -> str:
    """The name of the fix."""
    if uses_loader(facts):
        return "pytorch-workers" if working else "pytorch-more"
    if facts.trace.meta.framework != "tensorflow":
        return "any"
    names = " ".join(g.name for g in by_name(facts, fetches))
    return "tf-queue" if "Queue" in names else _of_stages(facts)


def _of_stages(facts: Facts) -> str:
    """What the stages of the `tf.data` pipeline do not do already, as far as they are recorded."""
    if called_for_elements(facts.trace):
        return "tf-batched"
    is_parallel = calls_in_parallel(facts.trace)
    if not works_ahead(facts.trace):
        return "tf-ahead" if is_parallel else "tf-data"
    if not is_parallel:
        return "tf-parallel"
    return "tf-less" if caches(facts.trace) else "tf-cache"


def _fix(facts: Facts, way: str) -> Fix:
    """The fix, as far as it depends on more than its name."""
    fix = RULE.fix(way)
    if way == "pytorch-workers":
        work = find_batch_work(facts)
        fix = without_repeats(fix, facts)
        return with_workers(fix, workers_for(facts, work) if work else 2)
    fills = way in _AT_LIMIT and shuffles(facts.trace) and long_waits(facts)
    if way == "tf-data" and not stage_rows(facts.trace):
        return replace(fix, text=f"{fix.text} {_BATCHED}")
    return replace(fix, text=f"{fix.text} {_FILLS}") if fills else fix


_EPOCHS = "Start epochs faster: their first step waits until the input pipeline has begun again"
_ITERATE_ONCE = "Iterate the data once for all epochs: a new iterator takes long to begin"
_AT_LIMIT = frozenset({"tf-less", "tf-cache"})  # more threads and buffers gain little
_LESS_WORK = "Do less work per batch, which is prepared in parallel already"
_TITLES = {
    **dict.fromkeys(_AT_LIMIT, _LESS_WORK),
    "tf-batched": "Form batches first, and call the function of the pipeline for each batch",
}
_BATCHED = (
    "If the function is short, form batches before it, and let it work on a whole batch, as "
    "tf.io.parse_example does: to call it for each element takes longer than its work."
)
_FILLS = (
    "Few steps wait, but long: a shuffle buffer is filled before its first element, in each pass "
    "over the data."
)
