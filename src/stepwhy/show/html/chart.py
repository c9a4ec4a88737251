"""Bar chart of step durations over the run, as geometry for an inline SVG."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units

if TYPE_CHECKING:
    from stepwhy.result import Steps

WIDTH, HEIGHT = 720, 120
# Height of the band below the bars for the marks of traced steps, and the width of a mark.
_BAND, _MARK = 12, 6
# With more bars, each would be thinner than three units of the drawing.
_MOST_BARS = 240
# Bars above this many medians are cut off; otherwise one slow first step would flatten the others.
_TALLEST = 1.8


class Bar(msgspec.Struct, frozen=True):
    """One bar: the slowest of the steps that it covers.

    Args:
        x, width, height: In units of the drawing.
        warm_up: Whether its steps are left out as warm-up.
        other: Whether they are left out because the step time changed permanently.
        is_cut: Whether the bar is cut off at the top.
        text: The steps and their duration, in words.
    """

    x: float
    width: float
    height: float
    warm_up: bool
    other: bool
    is_cut: bool
    text: str


class Mark(msgspec.Struct, frozen=True):
    """Mark of traced steps: position and width in units of the drawing, and the steps in words."""

    x: float
    width: float
    text: str


class StepChart(msgspec.Struct, frozen=True):
    """Bars and lines of the chart, with y from the top.

    Args:
        bars: The bars.
        steps_per_bar: Number of steps per bar.
        median_y: y of the line at the median.
        median_from, median_to: x of the ends of that line: the steps that the median is of.
        slowest: The slowest bar in words; '' if none is cut off.
        traced: Marks of traced steps.
        changes: x of each permanent change of the step time.
        height: Height of the drawing.
        width: Width of the drawing.
        floor: y of the bottom of the bars.
    """

    bars: tuple[Bar, ...]
    steps_per_bar: int
    median_y: float
    median_from: float
    median_to: float
    slowest: str
    traced: tuple[Mark, ...]
    changes: tuple[float, ...]
    height: int
    width: int = WIDTH
    floor: int = HEIGHT


class _Numbers:
    """Converts between places in `durations_ns` and step numbers of the run.

    Step numbers also count traced steps, which `durations_ns` leaves out.

    Args:
        steps: The steps.
    """

    def __init__(self, steps: Steps) -> None:
        self._traced = [(window.before, window.steps) for window in steps.traced]

    def of(self, place: int) -> int:
        """Number of the step at a place, starting at 1."""
        return 1 + place + sum(count for before, count in self._traced if before <= place)

    def place(self, number: int) -> int:
        """Place of the first untraced step with this number or a later one."""
        skipped = 0
        for before, count in self._traced:
            skipped += min(max(number - 1 - before - skipped, 0), count)
        return number - 1 - skipped


def step_chart(steps: Steps) -> StepChart | None:
    """The chart; None if fewer than two durations are known."""
    durations = steps.durations_ns
    if len(durations) < 2:
        return None
    numbers = _Numbers(steps)
    per_bar = -(-len(durations) // _MOST_BARS)
    first, end = _described(steps, numbers)
    steady = durations[first + steps.warm_up : end] or durations
    middle = median(steady)
    usual = max((stretch.median_ns or 0 for stretch in steps.stretches), default=0)
    top = max(1.0, min(max(durations), _TALLEST * max(middle, usual)))
    groups = [durations[i : i + per_bar] for i in range(0, len(durations), per_bar)]
    slot = WIDTH / len(groups)
    bars = tuple(
        Bar(
            x=round(index * slot, 2),
            width=round(max(slot * 0.8, 0.5), 2),
            height=round(HEIGHT * min(1.0, max(group) / top), 1),
            warm_up=first <= index * per_bar < first + steps.warm_up,
            other=not first <= index * per_bar < end,
            is_cut=max(group) > top,
            text=_in_words(group, numbers.of(index * per_bar)),
        )
        for index, group in enumerate(groups)
    )
    slowest = max(range(len(groups)), key=lambda index: max(groups[index]))
    unit = slot / per_bar
    return StepChart(
        bars,
        per_bar,
        median_y=round(HEIGHT * (1 - middle / top), 1),
        median_from=round(first * unit, 2),
        median_to=round(min(end * unit, WIDTH), 2),
        slowest=bars[slowest].text if bars[slowest].is_cut else "",
        traced=_marks(steps, numbers, unit),
        changes=tuple(round(numbers.place(s.first_step) * unit, 2) for s in steps.stretches[1:]),
        height=HEIGHT + (_BAND if steps.traced else 0),
    )


def _described(steps: Steps, numbers: _Numbers) -> tuple[int, int]:
    """First place of the steps that the result describes, and the end of them."""
    for stretch in steps.stretches:
        if stretch.described:
            return numbers.place(stretch.first_step), numbers.place(stretch.last_step + 1)
    return 0, len(steps.durations_ns)


def _marks(steps: Steps, numbers: _Numbers, unit: float) -> tuple[Mark, ...]:
    """One mark per traced window, centred between the steps around it."""
    marks = []
    for window in steps.traced:
        last = numbers.of(window.before) - 1
        first = last - window.steps + 1
        name = f"Step {first}" if first == last else f"Steps {first} to {last}"
        at = min(max(window.before * unit - _MARK / 2, 0), WIDTH - _MARK)
        marks.append(Mark(round(at, 2), _MARK, f"{name}: traced"))
    return tuple(marks)


def _in_words(group: tuple[int, ...], first: int) -> str:
    last = first + len(group) - 1
    name = f"Step {first}" if len(group) == 1 else f"Slowest of steps {first} to {last}"
    return f"{name}: {units.format_ns(max(group))}"
