"""The curves of a run under the names and units in which dashboards show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.base.text import visible
from stepwhy.show.export.series import Curve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.result import Result
    from stepwhy.show.export.series import RunSeries

_MS = 1e-6
_MIB = 1 / (1 << 20)
_COUNT = 1.0
# A viewer shows some thousand points of a curve.
MOST_POINTS = 100_000
_LONGEST_NAME = 120  # characters


class TaggedCurve(msgspec.Struct, frozen=True):
    """A curve under its name.

    Args:
        tag: Name; what precedes the slash is its group.
        curve: Its values.
        scale: What a value is multiplied by.
        help: One or two sentences.
    """

    tag: str
    curve: Curve
    scale: float
    help: str


def curves_of(series: RunSeries) -> Iterator[TaggedCurve]:
    """The curves of a rank that were recorded; of names that look the same, the first one's."""
    seen = set()
    for tagged in (*_step_times(series), *_categories(series), *_levels(series), *_memory(series)):
        if len(tagged.curve) and tagged.tag not in seen:
            seen.add(tagged.tag)
            yield tagged


def mean_of(result: Result, series: RunSeries) -> Iterator[TaggedCurve]:
    """The mean step by category, and the peaks of the memory: one point each.

    Args:
        result: The result.
        series: The series of a rank, for the position of the points.
    """
    count = result.steps.steady
    of = f"the mean of {count} steady steps" if count > 1 else "the only span that was analysed"
    about = f"Time of {of}; a single point, because the value of each step is not known. "
    for category, time_ns in result.breakdown.categories.items():
        if time_ns:
            yield TaggedCurve(
                f"mean_breakdown_ms/{category}",
                _point(series, time_ns),
                _MS,
                about + "All categories add up to the mean step, in milliseconds.",
            )
    for use in result.memory:
        help_ = "Peak of the memory in use, in MiB; a single point."
        name = _name(use.name)
        yield TaggedCurve(f"memory_peak_mib/{name}", _point(series, use.peak_bytes), _MIB, help_)


def thinned(curve: Curve) -> tuple[Curve, str]:
    """A curve with at most `MOST_POINTS`, each the largest of its neighbours, and a note on that.

    Args:
        curve: The curve.
    """
    count = len(curve)
    if count <= MOST_POINTS:
        return curve, ""
    width = -(-count // MOST_POINTS)
    starts = np.arange(0, count, width)
    groups = np.split(curve.values, starts[1:])
    rows = starts + np.array([int(group.argmax()) for group in groups])
    note = f" Of each {width} neighbouring values, only the largest is shown."
    return Curve(curve.steps[rows], curve.times_ns[rows], curve.values[rows]), note


def _step_times(series: RunSeries) -> Iterator[TaggedCurve]:
    help_ = "Wall time of each step, in milliseconds"
    if series.is_observed:
        yield TaggedCurve(
            "step_time_ms/step", series.steps, _MS, f"{help_}. Profiled steps are left out."
        )
        yield TaggedCurve(
            "step_time_ms/profiled_step",
            series.profiled,
            _MS,
            f"{help_}, while a profiler ran, which slows it down.",
        )
    else:
        yield TaggedCurve("step_time_ms/step", series.steps, _MS, f"{help_}, as recorded.")
    yield TaggedCurve(
        "step_time_ms/waiting_for_input",
        series.waits,
        _MS,
        "Part of each step in which it waited for its batch, in milliseconds. Steps whose waits "
        "were not observed are left out.",
    )


def _categories(series: RunSeries) -> Iterator[TaggedCurve]:
    under = "under the profiler" if series.is_observed else "as recorded"
    for category, curve in series.categories.items():
        yield TaggedCurve(
            f"breakdown_ms/{category}",
            curve,
            _MS,
            f"Time of each traced step in this category, {under}, in milliseconds. All categories "
            "add up to the step.",
        )


def _levels(series: RunSeries) -> Iterator[TaggedCurve]:
    for level in series.levels:
        most = "" if level.capacity is None else f" Capacity: {level.capacity:,}."
        yield TaggedCurve(
            f"queue/{_name(level.name)}/elements",
            level.curve,
            _COUNT,
            f"Elements in this queue or buffer ({visible(level.kind)}), as sampled.{most}",
        )


def _memory(series: RunSeries) -> Iterator[TaggedCurve]:
    for name, curve in series.memory.items():
        yield TaggedCurve(
            f"memory_mib/{_name(name)}", curve, _MIB, "Memory in use, as sampled, in MiB."
        )


def _point(series: RunSeries, value: int) -> Curve:
    """A single point at the last step."""
    step, time_ns, number = (
        np.array([x], dtype=np.int64) for x in (series.last_step, series.end_ns, value)
    )
    return Curve(step, time_ns, number)


def _name(name: str) -> str:
    """A name from the trace, on one line."""
    return visible(name, _LONGEST_NAME)
