"""What the recorded stages of a `tf.data` pipeline already do, so that it is not advised again."""

from __future__ import annotations

import re
from itertools import takewhile

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.patterns import regex
from stepwhy.result import Evidence
from stepwhy.trace import NULL, Kind, Trace

# Call a function of the program for each element.
_CALLING = regex(r"Map|Interleave")
_CACHE = regex(r"Cache")
_SHUFFLE = regex(r"Shuffle")


MOSTLY = 0.5  # of the work of a pipeline
PASSES = 3  # as many batches as in one pass; the stages may be recorded some time before the end
MANY = 8  # elements of a batch; with fewer, one call for all saves little
SHORT_NS = 200_000  # per element; calling a longer function is a small part of its time
LITTLE = 0.1  # of the work of all functions; more threads for it gain less than the step varies

_SHOWN = 2


def works_ahead(trace: Trace) -> bool:
    """Whether the last stage has a thread of its own, which fills a buffer before the loop asks."""
    stages, rows = trace.stages, stage_rows(trace)
    last = [row for row in rows if stages.consumer[row] == NULL]
    return bool(last) and all(stages.buffered[row] for row in last)


def calls_in_parallel(trace: Trace) -> bool | None:
    """Whether functions are called for several elements at a time; None if no call is recorded.

    A function that does little of the work may be called for one at a time.
    """
    stages = trace.stages
    # Stages that have ended are known by name only.
    calling = [r for r in stage_rows(trace) if stages.elements[r] != NULL and calls(trace, r)]
    work_ns = [int(stages.elements[r]) * max(int(stages.processing_ns[r]), 0) for r in calling]
    busy = [r for r, ns in zip(calling, work_ns, strict=True) if ns >= LITTLE * sum(work_ns)]
    # TensorFlow chooses the number where the program does not.
    several = [bool(stages.parallelism[r] > 1 or stages.tuned[r] == 1) for r in busy]
    return all(several) if several else None


def called_for_elements(trace: Trace) -> Evidence | None:
    """How often a short function that does most of the work is called per batch; None if none is.

    Its stage passes elements on to one that forms batches of them.
    """
    stages, rows = trace.stages, stage_rows(trace)
    work = {r: int(stages.elements[r]) * int(stages.processing_ns[r]) for r in rows}
    most = max(work, key=lambda r: work[r], default=-1)
    if most < 0 or not calls(trace, most) or work[most] < MOSTLY * sum(work.values()):
        return None
    before = [int(stages.elements[r]) for r in rows[: rows.index(most)] if _batches(trace, r)]
    made = int(stages.elements[most])
    if not before or made < MANY * before[-1] or int(stages.processing_ns[most]) > SHORT_NS:
        return None
    per_batch = round(made / before[-1])
    where = with_line(trace, stage_name(trace, most))
    return Evidence("calls of a short function per batch", per_batch, "count", where)


def _batches(trace: Trace, row: int) -> bool:
    """Whether a stage forms batches, and has formed some."""
    return trace.stages.elements[row] > 0 and stage_name(trace, row).startswith("Batch")


def calls(trace: Trace, row: int) -> bool:
    """Whether a stage calls a function of the program."""
    return _CALLING.search(stage_name(trace, row)) is not None


def caches(trace: Trace) -> bool:
    """Whether a stage keeps its elements for the next epoch."""
    return _has(trace, _CACHE)


def behind_caches(trace: Trace) -> list[int]:
    """The stages, consumers first, that work in each epoch although the pipeline has a cache."""
    rows = stage_rows(trace)
    return list(takewhile(lambda row: not _CACHE.search(stage_name(trace, row)), rows))


def cache_lines(trace: Trace) -> tuple[Evidence, ...]:
    """The lines that make the caches of the pipeline, as far as they are known."""
    rows = (row for row in stage_rows(trace) if _CACHE.search(stage_name(trace, row)))
    lines = {int(trace.stages.source[row]) for row in rows} - {NULL}
    return tuple(Evidence("the cache", "is made", "", trace.string(line)) for line in lines)


def fills_again(facts: Facts) -> bool:
    """Whether what comes before a cache works although the data was iterated before.

    TensorFlow keeps the elements of a pass only if all of them were read.
    """
    trace = facts.trace
    rows = stage_rows(trace)
    cached = [row for row in rows if _CACHE.search(stage_name(trace, row))]
    is_later = any(trace.stages.epochs[row] >= 2 for row in rows)
    return (is_later or batches_before(facts) > 0) and any(
        row > cached[0] and trace.stages.elements[row] > 0 and calls(trace, row)
        for row in rows
        if cached
    )


def batches_before(facts: Facts) -> int:
    """Batches that the steps fetched before the recorded pass over the data; 0 if unknown.

    Stages are recorded in the second half of a run, so that a first pass has made as many batches.
    """
    trace = facts.trace
    rows = stage_rows(trace)
    made = max(
        (int(trace.stages.elements[r]) for r in rows if trace.stages.consumer[r] == NULL), default=0
    )
    fetches = len(facts.slices(Kind.INPUT, steady=True)) / max(facts.steady_count, 1)
    batches = round(len(trace.marks) * min(fetches, 1.0))
    return batches - made if 0 < PASSES * made < batches else 0


def shuffles(trace: Trace) -> bool:
    """Whether a stage fills a buffer before it passes on its first element."""
    return _has(trace, _SHUFFLE)


def shuffles_what_is_computed(trace: Trace) -> bool:
    """Whether a shuffle buffer is filled with what functions of the program make."""
    rows = stage_rows(trace)
    filled = next((i for i, row in enumerate(rows) if shuffles_at(trace, row)), len(rows))
    return any(calls(trace, row) for row in rows[filled + 1 :])


def pipeline_lines(trace: Trace) -> tuple[Evidence, ...]:
    """The line that makes the last stage of the pipeline, from which the loop takes batches."""
    stages = trace.stages
    last = (row for row in stage_rows(trace) if stages.consumer[row] == NULL)
    lines = dict.fromkeys(int(stages.source[row]) for row in last if stages.source[row] != NULL)
    return tuple(Evidence("the pipeline", "is made", "", trace.string(line)) for line in lines)


def shuffles_at(trace: Trace, row: int) -> bool:
    """Whether a stage is one that fills a buffer before it passes on its first element."""
    return _SHUFFLE.search(stage_name(trace, row)) is not None


def _has(trace: Trace, stage: re.Pattern[str]) -> bool:
    return any(stage.search(stage_name(trace, row)) for row in stage_rows(trace))


def stage_rows(trace: Trace) -> list[int]:
    """Rows of `stages` that are of `tf.data`, consumers first."""
    is_data = np.isin(trace.stages.kind, trace.strings_where({"tf.data"}))
    return [int(row) for row in np.flatnonzero(is_data)]


def stage_name(trace: Trace, row: int) -> str:
    """Name of a stage."""
    return trace.string(int(trace.stages.name[row]))


def with_line(trace: Trace, name: str) -> str:
    """A stage, such as 'ParallelMapV2[3]' or 'Map', and the line that made it, if that is known.

    Without a number, the name stands for any stage of its kind.
    """
    rows = [
        r for r in stage_rows(trace) if name in (own := stage_name(trace, r), own[: own.find("[")])
    ]
    lines = {int(trace.stages.source[row]) for row in rows} - {NULL}
    return f"{name} · {trace.string(lines.pop())}" if len(lines) == 1 else name


def stage_line(trace: Trace, row: int) -> str:
    """The line that made a stage, or its name if that is unknown."""
    line = int(trace.stages.source[row])
    return stage_name(trace, row) if line == NULL else trace.string(line)


def forms_batches(trace: Trace, rows: list[int], row: int) -> bool:
    """Whether one of some stages, consumers first, forms batches itself, or gets them."""
    return any("Batch" in stage_name(trace, one) for one in rows[rows.index(row) :])


def work_of_stages(trace: Trace) -> tuple[Evidence, ...]:
    """The stages that do most of the work of a pipeline, with their lines, longest first.

    Only those whose line is known.
    """
    stages, rows = trace.stages, stage_rows(trace)
    work = {r: max(int(stages.elements[r]) * int(stages.processing_ns[r]), 0) for r in rows}
    total = sum(work.values())
    longest = sorted((r for r in rows if stages.source[r] != NULL), key=lambda r: -work[r])
    return tuple(
        Evidence(
            "share of the pipeline's work",
            work[r] / total,
            "fraction",
            with_line(trace, stage_name(trace, r)),
        )
        for r in longest[:_SHOWN]
        if work[r] > LITTLE * total
    )
