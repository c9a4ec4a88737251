"""Words for what was seen over the length of a watched run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy import units
from stepwhy.text import one_line

if TYPE_CHECKING:
    from stepwhy.findings import EventGroup, Pipeline, Result, Steps

# A queue that is near empty, or near full, for this share of the time is called so.
_MOSTLY = 0.5
# Of what can be taken out, what is kept back beside it is drawn whole.
_FAR = 2
# Fewer samples of a queue show no share of the time.
_FEWEST_LOOKS = 10
# Every program traces and compiles what its first step needs.
_FIRST = 1

_DONE = {
    "trace": "traced",
    "compile": "compiled",
    "graph": "graph grown by",
    "workers": "workers started for",
    "epoch": "epoch begun of",
}
_OF_THE_GRAPH = frozenset({"trace", "compile", "graph"})
_KINDS = {
    "tf1-queue": "queue {}",
    "tf.data": "buffer {} of tf.data",
    "dataloader": "queue of the DataLoader of {}",
}


# Nobody trains so many steps more to learn what watching costs.
_MOST_MORE = 10_000


def watching_sentence(steps: Steps) -> str:
    """What watching costs a step, '' where nothing was watched."""
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
        return f"Watching added nothing measurable per step{span}"
    size, unit, decimals = _scale(max(map(abs, interval)))
    return (
        f"Watching added {_number(steps.observer_cost_ns / size, decimals)} {unit} per step{span}"
    )


def format_range(low_ns: float, high_ns: float) -> str:
    """An interval of durations in one unit: '-2.0 to 9.1 µs'."""
    size, unit, decimals = _scale(max(abs(low_ns), abs(high_ns)))
    return f"{_number(low_ns / size, decimals)} to {_number(high_ns / size, decimals)} {unit}"


def _scale(largest_ns: float) -> tuple[int, str, int]:
    """Unit for durations of this size: its ns, its name, and the decimals that make sense."""
    scale = ((units.NS_PER_S, "s"), (units.NS_PER_MS, "ms"), (units.NS_PER_US, "µs"))
    size, unit = next((step for step in scale if largest_ns >= step[0]), (1, "ns"))
    return size, unit, 0 if largest_ns >= 10 * size or size == 1 else 1


def _number(value: float, decimals: int) -> str:
    """A rounded number that is never '-0'."""
    return f"{round(value, decimals) + 0:.{decimals}f}"


def later_events(result: Result) -> list[EventGroup]:
    """Traces, compilations and graph changes that came after warm-up, when none should come."""
    stretches = result.steps.stretches
    whole = not stretches or stretches[0].described
    usual = max(_FIRST, result.steps.warm_up if whole else 0)
    return [e for e in told_events(result) if e.last_step is not None and e.last_step > usual]


def told_events(result: Result) -> list[EventGroup]:
    """All of them; that the step time has changed is told elsewhere."""
    return [event for event in result.events if event.kind != "change"]


def events_title(events: list[EventGroup]) -> str:
    """A heading for some events."""
    kinds = {event.kind for event in events}
    if kinds <= _OF_THE_GRAPH:
        return "Compiled or traced during training"
    if kinds & _OF_THE_GRAPH:
        return "Compiled, traced or restarted during training"
    return "Restarted during training"


def event_name(event: EventGroup) -> str:
    """What happened: 'traced train_step', 'graph grown by 12 operations'."""
    done = _DONE.get(event.kind, event.kind)
    if event.added is not None:
        return f"{done} {units.format_count(event.added)} operations"
    return one_line(f"{done} {event.name}")


def event_steps(event: EventGroup) -> str:
    """In which steps: '4', '4 to 90'; '' where that is not known."""
    first, last = event.first_step, event.last_step
    if first is None or last is None:
        return ""
    start = units.format_count(first) if first else "before 1"
    return start if first == last else f"{start} to {units.format_count(last)}"


def event_reason(event: EventGroup) -> str:
    """The first reason, and how many others there were; '' without any."""
    more = event.reasons - 1
    others = "" if more < 1 else " (and 1 other reason)" if more == 1 else f" (and {more} others)"
    return one_line(event.first_reason) + others


def pipeline_name(pipeline: Pipeline) -> str:
    """What it is and what it is called."""
    if pipeline.kind == "tf.data" and not pipeline.samples:
        return one_line(f"stage {pipeline.name} of tf.data")
    known = _KINDS.get(pipeline.kind)
    return one_line(known.format(pipeline.name) if known else f"{pipeline.kind} {pipeline.name}")


def pipeline_state(pipeline: Pipeline) -> str:
    """How full it was, and what that means."""
    if not pipeline.samples:
        buffered = any(stage.buffer_size for stage in pipeline.stages[:1])
        return "fill level unknown" if buffered else ("no buffer: this runs inside the step")
    empty, full, mean = (
        None if share is None else units.format_fraction(share)
        for share in (pipeline.empty_share, pipeline.full_share, pipeline.mean_fill)
    )
    if pipeline.samples < _FEWEST_LOOKS:
        level = "" if mean is None else f"{mean} full, but "
        return f"{level}sampled only {_times(pipeline.samples)}, too rarely for a verdict"
    if pipeline.empty_share is not None and pipeline.empty_share >= _MOSTLY:
        return f"empty {empty} of the time (starved: the consumer waits)"
    if pipeline.full_share is not None and pipeline.full_share >= _MOSTLY:
        return f"full {full} of the time (the input keeps up: the consumer is the bottleneck)"
    if mean is not None:
        return f"{mean} full on average; empty {empty}, full {full} of the time"
    return f"empty {empty or 'an unknown part'} of the time"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def pipeline_floor(pipeline: Pipeline) -> float:
    """The bottom of a picture of its levels: 0, or not far below what cannot be taken out.

    Where far more is kept back than can be taken out, the latter could not be seen.
    """
    room = (pipeline.capacity or 0) - pipeline.reserve
    return pipeline.reserve - room / 2 if 0 < _FAR * room < pipeline.reserve else 0.0


def pipeline_top(pipeline: Pipeline) -> float:
    """The top of a picture of its levels: the capacity, or the highest level without one."""
    highest = max((value for _, value in pipeline.series), default=0.0)
    return max(pipeline.capacity or 0, pipeline.reserve, highest, 1.0)
