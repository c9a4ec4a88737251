"""Descriptions of queues, events and observer cost of a watched run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base import units
from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from stepwhy.result import EventGroup, Pipeline, Result, Steps

# Share of the time; a queue that is near empty (near full) for longer is called empty (full).
_MOSTLY = 0.5
# Times the elements available to dequeue; a larger reserve is not drawn in full.
_LARGE_RESERVE = 2
# With fewer samples, a share of the time is not reliable.
_FEWEST_SAMPLES = 10
# Every program traces and compiles in its first step.
_FIRST = 1

_DONE = {
    "trace": "traced",
    "compile": "compiled",
    "graph": "graph grown by",
    "workers": "started workers of",
    "epoch": "started epoch of",
    "iterator": "new iterator over",
    "save": "saved with",
    "evaluation": "called",
}
_OF_THE_GRAPH = frozenset({"trace", "compile", "graph"})
_RESTARTS = frozenset({"workers", "epoch", "iterator"})
_KINDS = {
    "tf1-queue": "queue {}",
    "tf.data": "buffer {} of tf.data",
    "dataloader": "queue of the DataLoader of {}",
}


# By `benchmarks/capture.py`, in loops with other code in the caches.
_TIMING = "2 to 5 µs"
# Asking for more steps than this to measure the cost of watching is not useful.
_MOST_MORE = 10_000


def watching_sentence(steps: Steps) -> str:
    """Cost of watching per step; '' if the run was not watched."""
    interval, missing = steps.observer_cost_interval_ns, steps.observer_cost_missing_steps
    span = "" if interval is None else f" (95 %: {format_range(*interval)})"
    if missing is not None:
        noise = f"steps vary too much{span}; " if span else ""
        if missing > _MOST_MORE:
            return f"Cost of watching unknown: steps vary too much{span}"
        about = units.quantise(missing)
        return (
            f"Cost of watching unknown: {noise}about {units.format_count(about)} more "
            f"{'step' if about == 1 else 'steps'} needed"
        )
    if steps.observer_cost_ns is None or interval is None:
        return ""
    if steps.observer_cost_ns <= 0:
        added = "nothing measurable"
    else:
        size, unit, decimals = _scale(max(map(abs, interval)))
        added = f"{_number(steps.observer_cost_ns / size, decimals)} {unit}"
    if steps.observer_share is None:
        return f"Watching added {added} per observed step{span}"
    share = f"{100 * steps.observer_share:.1f} %"
    return (
        f"Watching added {share} to the time of all steps: {added} per observed step{span}, and "
        f"traced ones.{_sampling(steps)} Not included: start-up, and {_TIMING} per step to time it"
    )


def _sampling(steps: Steps) -> str:
    """CPU time of the sampling, which runs beside the training; '' if unknown."""
    if steps.sampling_cores is None:
        return ""
    return f" Sampling beside it took {100 * steps.sampling_cores:.1f} % of a core."


def format_range(low_ns: float, high_ns: float) -> str:
    """An interval of durations in one unit: '-2.0 to 9.1 µs'."""
    size, unit, decimals = _scale(max(abs(low_ns), abs(high_ns)))
    return f"{_number(low_ns / size, decimals)} to {_number(high_ns / size, decimals)} {unit}"


def _scale(largest_ns: float) -> tuple[int, str, int]:
    """Unit for durations of this size: its ns, its name, and useful decimals."""
    scale = ((units.NS_PER_S, "s"), (units.NS_PER_MS, "ms"), (units.NS_PER_US, "µs"))
    size, unit = next((step for step in scale if largest_ns >= step[0]), (1, "ns"))
    return size, unit, 0 if largest_ns >= 10 * size or size == 1 else 1


def _number(value: float, decimals: int) -> str:
    """A rounded number that is never '-0'."""
    return f"{round(value, decimals) + 0:.{decimals}f}"


def later_events(result: Result) -> list[EventGroup]:
    """Events after the warm-up, such as compilations, when there should be none."""
    stretches = result.steps.stretches
    whole = not stretches or stretches[0].described
    usual = max(_FIRST, result.steps.warm_up if whole else 0)
    return [e for e in listed_events(result) if e.last_step is not None and e.last_step > usual]


def listed_events(result: Result) -> list[EventGroup]:
    """All events except changes of the step time, collections of garbage and profilers.

    The report shows these elsewhere.
    """
    return [event for event in result.events if event.kind not in {"change", "gc", "profiler"}]


def events_title(events: list[EventGroup]) -> str:
    """A heading for some events."""
    kinds = {event.kind for event in events}
    done = ["compiled", "traced"] if kinds & _OF_THE_GRAPH else []
    done += ["restarted"] if kinds & _RESTARTS else []
    done += ["saved"] if "save" in kinds else []
    done += ["evaluated"] if "evaluation" in kinds else []
    named = " or ".join([", ".join(done[:-1]), done[-1]] if len(done) > 1 else done)
    return f"{named.capitalize()} during training"


def event_name(event: EventGroup) -> str:
    """Description of an event: 'traced train_step', 'graph grown by 12 operations'."""
    done = _DONE.get(event.kind, event.kind)
    if event.added is not None:
        return f"{done} {units.format_count(event.added)} operations"
    return one_line(f"{done} {event.name}")


def event_steps(event: EventGroup) -> str:
    """Steps of an event: '4', '4 to 90'; '' if unknown."""
    first, last = event.first_step, event.last_step
    if first is None or last is None:
        return ""
    start = units.format_count(first) if first else "before 1"
    return start if first == last else f"{start} to {units.format_count(last)}"


def event_reason(event: EventGroup) -> str:
    """The first reason, and the number of others; '' if there is none."""
    more = event.reasons - 1
    others = "" if more < 1 else " (and 1 other reason)" if more == 1 else f" (and {more} others)"
    return one_line(event.first_reason) + others


def pipeline_name(pipeline: Pipeline) -> str:
    """Kind and name of a queue or buffer."""
    if pipeline.kind == "tf.data" and not pipeline.samples:
        return one_line(f"stage {pipeline.name} of tf.data")
    known = _KINDS.get(pipeline.kind)
    return one_line(known.format(pipeline.name) if known else f"{pipeline.kind} {pipeline.name}")


def pipeline_state(pipeline: Pipeline) -> str:
    """Fill level of a queue or buffer, and what it means for the training."""
    if not pipeline.samples:
        buffered = any(stage.buffer_size for stage in pipeline.stages[:1])
        return "fill level unknown" if buffered else ("no buffer: this runs inside the step")
    empty, full, mean = (
        None if share is None else units.format_fraction(share)
        for share in (pipeline.empty_share, pipeline.full_share, pipeline.mean_fill)
    )
    if pipeline.samples < _FEWEST_SAMPLES:
        level = "" if mean is None else f"{mean} full, but "
        times = "once" if pipeline.samples == 1 else f"{pipeline.samples} times"
        return f"{level}sampled only {times}, too rarely for a verdict"
    if pipeline.empty_share is not None and pipeline.empty_share >= _MOSTLY:
        return f"empty {empty} of the time (starved: the consumer waits)"
    if pipeline.full_share is not None and pipeline.full_share >= _MOSTLY:
        return f"full {full} of the time (the input keeps up: the consumer is the bottleneck)"
    if mean is not None:
        return f"{mean} full on average; empty {empty}, full {full} of the time"
    return f"empty {empty or 'an unknown part'} of the time"


def pipeline_floor(pipeline: Pipeline) -> float:
    """Bottom of the chart of its levels: 0, or just below a large reserve.

    If the chart of a queue with a large reserve started at 0, the elements available to dequeue
    would not be visible.
    """
    usable = (pipeline.capacity or 0) - pipeline.reserve
    is_large = 0 < _LARGE_RESERVE * usable < pipeline.reserve
    return pipeline.reserve - usable / 2 if is_large else 0.0


def pipeline_top(pipeline: Pipeline) -> float:
    """Top of the chart of its levels: the capacity, or the highest level if there is none."""
    highest = max((value for _, value in pipeline.series), default=0.0)
    return max(pipeline.capacity or 0, pipeline.reserve, highest, 1.0)
