"""Work of a `tf.data` pipeline that is the same in every epoch, and is done again in each."""

from __future__ import annotations

import msgspec

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.input.batch_size import batch_size
from stepwhy.analyse.steps.stalls import first_of_keras_epochs
from stepwhy.diagnose.shared.pipeline_stages import (
    batches_before,
    behind_caches,
    caches,
    calls,
    fills_again,
    forms_batches,
    stage_line,
    stage_name,
    stage_rows,
)
from stepwhy.result import Evidence
from stepwhy.trace import NULL, Trace

_SHOWN = 2


class Repeated(msgspec.Struct, frozen=True):
    """Work on the input that is repeated.

    Args:
        evidence: What shows it.
        share: Share of the work, or of the wait for it, that is repeated, 0..1.
        is_random: Whether all of it draws random numbers, so that it must be repeated.
        is_unknown: Whether none of it is known to return the same each time.
        is_cached: Whether a cache keeps all that returns the same each time.
    """

    evidence: tuple[Evidence, ...]
    share: float = 1.0
    is_random: bool = False
    is_unknown: bool = False
    is_cached: bool = False


def iterated_again(facts: Facts) -> Repeated | None:
    """The work of a pipeline that the loop has iterated more than once; None if it has not.

    A cache can keep what comes before the first function that draws random numbers. Stages that
    have ended are known by name only: their share is the wait that the others do not explain.
    """
    stages, rows = facts.trace.stages, stage_rows(facts.trace)
    epochs = max((int(stages.epochs[row]) for row in rows), default=0)
    before = batches_before(facts) if epochs < 2 and fills_again(facts) else 0
    if epochs < 2 and not before:
        return None
    calling = [row for row in rows if calls(facts.trace, row)]
    last_random = max((i for i, row in enumerate(calling) if stages.random[row] == 1), default=-1)
    changing, same = calling[: last_random + 1], calling[last_random + 1 :]
    if caches(facts.trace) and not fills_again(facts):
        same = [row for row in same if row in behind_caches(facts.trace)]
    names = [stage_name(facts.trace, row) for row in same]
    at = [
        Evidence("the same in each epoch", name, "", facts.trace.string(int(stages.source[row])))
        for row, name in zip(same, names, strict=True)
        if stages.source[row] != NULL
    ]
    evidence = (
        Evidence("batches before this pass over the data", before, "count")
        if before
        else Evidence("epochs started", epochs, "count"),
        Evidence("stages with the same work in each epoch", len(same), "count", ", ".join(names)),
        *at[:_SHOWN],
    )
    if not same:
        return Repeated(evidence, 0.0, is_random=bool(calling), is_cached=caches(facts.trace))
    if not any(stages.random[row] == 0 for row in same):
        return Repeated(evidence, is_unknown=True)
    kept_ns, same_ns = (_per_batch_ns(facts.trace, part) for part in (changing, same))
    if any(stages.elements[row] == NULL for row in same):
        return Repeated(evidence, max(1 - kept_ns / max(facts.usual_input_wait_ns, 1), 0.0))
    return Repeated(evidence, same_ns / max(kept_ns + same_ns, 1))


def work_beside(facts: Facts) -> tuple[int, tuple[Evidence, ...]] | None:
    """Work for a batch that is the same in each epoch, of all threads together, and its stages, ns.

    None if there is none, or the data is not known to be read more than once.
    """
    trace, stages, size = facts.trace, facts.trace.stages, batch_size(facts.trace)
    rows = behind_caches(trace) if caches(trace) else stage_rows(trace)
    epochs = max((int(stages.epochs[row]) for row in rows), default=0)
    again = epochs >= 2 or first_of_keras_epochs(trace).any() or batches_before(facts) > 0
    if size is None or not again or fills_again(facts):
        return None
    last_random = max((i for i, row in enumerate(rows) if stages.random[row] == 1), default=-1)
    same = [r for r in rows[last_random + 1 :] if calls(trace, r) and stages.random[r] == 0]
    each = {row: max(int(stages.processing_ns[row]), 0) for row in same}
    work = {row: ns * (1 if forms_batches(trace, rows, row) else size) for row, ns in each.items()}
    evidence = (
        Evidence("work per batch that is the same in each epoch", ns, "ns", stage_line(trace, row))
        for row, ns in sorted(work.items(), key=lambda item: -item[1])
        if ns
    )
    return sum(work.values()), tuple(evidence)[:_SHOWN]


def _per_batch_ns(trace: Trace, rows: list[int]) -> float:
    """Time of some stages per element of the last stage, divided among their threads, ns."""
    stages = trace.stages
    last = [row for row in stage_rows(trace) if stages.consumer[row] == NULL]
    batches = max((int(stages.elements[row]) for row in last), default=0)
    known = [r for r in rows if stages.elements[r] > 0 and stages.processing_ns[r] > 0]
    total = sum(
        int(stages.elements[r]) * int(stages.processing_ns[r]) / max(int(stages.parallelism[r]), 1)
        for r in known
    )
    return total / max(batches, 1)


def restarted(trace: Trace) -> Repeated | None:
    """A `repeat` that has restarted an input without a cache; None if there is none."""
    stages = trace.stages
    consumers = enumerate(stages.consumer.tolist())
    input_of = {consumer: row for row, consumer in consumers if consumer != NULL}
    for row, key in enumerate(stages.name.tolist()):
        below = input_of.get(key, -1)
        if below < row or "Repeat" not in trace.string(key):
            continue
        passed, made = int(stages.elements[row]), int(stages.elements[below])
        work, new = _work_ns(trace, below, input_of)
        if made != NULL and passed > made and new and not work:
            return Repeated((), 0.0, is_random=True)
        if made != NULL and passed > made and work:
            share = passed * work / (passed * (work + new) + _work_above_ns(trace, row))
            found = (
                Evidence("elements passed on in total", passed, "count", trace.string(key)),
                Evidence("elements prepared since it restarted", made, "count"),
                Evidence("repeated work per element", work, "ns"),
            )
            return Repeated(found, share)
    return None


def _work_above_ns(trace: Trace, row: int) -> int:
    """Work of a stage and of those that consume its elements so far, ns."""
    stages = trace.stages
    known = (stages.elements > 0) & (stages.processing_ns > 0)
    return int((stages.elements * stages.processing_ns)[: row + 1][known[: row + 1]].sum())


def _work_ns(trace: Trace, row: int, input_of: dict[int, int]) -> tuple[int, int]:
    """Work per element of a stage and of those before it, up to a cache, ns.

    Returns:
        Work of the stages before all that draw random numbers, and of the others.
    """
    stages, work, new, last = trace.stages, 0, 0, -1
    while row > last and "Cache" not in trace.string(int(stages.name[row])):
        work += max(int(stages.processing_ns[row]), 0)
        if stages.random[row] == 1:
            work, new = 0, new + work
        row, last = input_of.get(int(stages.name[row]), -1), row
    return work, new
