"""Observations over the whole length of a run under `stepwhy run` or `stepwhy.watch`."""

from __future__ import annotations

import msgspec


class Stretch(msgspec.Struct, frozen=True):
    """A part of the run without a permanent change of the step time.

    Args:
        first_step, last_step: First and last step of it, from 1, counting profiled ones.
        median_ns: Median time of its unprofiled steps; None if all were profiled.
        total_ns: Wall time of its steps.
        traced_steps: Number of its steps that a profiler recorded.
        described: Whether the steps, breakdown and findings of the result describe this part.
        contention: Share of its runnable time in which other programs kept the process waiting for
            a CPU core, 0..1; None if not recorded.
    """

    first_step: int
    last_step: int
    median_ns: int | None
    total_ns: int
    traced_steps: int
    described: bool
    contention: float | None = None


class Traced(msgspec.Struct, frozen=True):
    """Consecutive steps that a profiler recorded; they are not among `Steps.durations_ns`.

    Args:
        before: Number of unprofiled steps before them.
        steps: Number of the steps.
    """

    before: int
    steps: int


class EventGroup(msgspec.Struct, frozen=True):
    """Rare events that cost time, grouped by kind, name and source.

    Args:
        kind: 'trace': a function was traced; 'compile': something was compiled; 'graph': a
            session's graph has grown; 'change': the step time changed permanently; 'workers': a
            loader started its worker processes; 'epoch': a loader was restarted, until its first
            batch; 'save': a checkpoint was saved; 'gc': Python's garbage collector has paused the
            process; 'profiler': the training's own profiler ran; 'evaluation': Keras or a
            trainer of PyTorch evaluated or predicted.
        name: What was traced or compiled, in the framework's words.
        source: Line of the program that caused it, 'train.py(41): step'; '' when unknown.
        count: How often it happened.
        total_ns: Total time of the events; overlaps count once.
        steps_affected: Steps during which it happened.
        first_reason: The first reason that the framework gave, '' without any.
        reasons: Number of different reasons.
        first_step, last_step: Numbers of the steps with the first and the last one, from 1; 0
            before the first step, None where no step was observed.
        added: Operations added to the graph in all; None for other kinds.
    """

    kind: str
    name: str
    source: str
    count: int
    total_ns: int
    steps_affected: int
    first_reason: str = ""
    reasons: int = 0
    first_step: int | None = None
    last_step: int | None = None
    added: int | None = None


class PipelineStage(msgspec.Struct, frozen=True):
    """One stage of an input pipeline, as its library reports it; None for unknown numbers.

    Args:
        name: Operation of the stage, in the library's words.
        parallelism: Threads or processes that do its work; 0: the driving thread itself.
        buffer_size: Capacity of its buffer, elements.
        elements: Number of elements that it produced.
        processing_ns: Work per element over all of its threads, without that of the stages
            before it.
    """

    name: str
    parallelism: int | None = None
    buffer_size: int | None = None
    elements: int | None = None
    processing_ns: int | None = None


class Pipeline(msgspec.Struct, frozen=True):
    """Fill level of a queue or buffer between input and training, and the stages that fill it.

    The shares are shares of time, of steady steps if they were sampled. Elements that cannot be
    removed (`min_after_dequeue`) do not count.

    Args:
        name: Name of the queue or buffer.
        kind: 'tf1-queue', 'tf.data' or 'dataloader'.
        capacity: Maximum number of elements; None if unbounded or unknown.
        reserve: Number of elements that cannot be removed.
        samples: Number of samples of its level.
        mean_fill: Mean share, 0..1, of the removable elements; None without a capacity.
        empty_share: Share of the time, 0..1, with at most 5 % of them.
        full_share: Share of the time with at least 95 %; None without a capacity.
        series: (time since the first step in ns, elements) over the run, at most 200 points; an
            average if there were more samples.
        stages: The stages that fill it, the last one first, up to the next buffer. Stages that the
            training calls without a buffer are under a name of their own, without samples.
    """

    name: str
    kind: str
    capacity: int | None
    reserve: int
    samples: int
    mean_fill: float | None
    empty_share: float | None
    full_share: float | None
    series: tuple[tuple[int, float], ...] = ()
    stages: tuple[PipelineStage, ...] = ()
