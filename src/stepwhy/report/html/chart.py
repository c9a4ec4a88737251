"""The small chart of step durations over the run, as geometry for an inline SVG."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from stepwhy import units

if TYPE_CHECKING:
    from stepwhy.findings import Steps

WIDTH, HEIGHT = 720, 120
# More bars than this would be thinner than three units of the drawing.
_MOST_BARS = 240
# Steps above this many medians are cut, or one slow first step would flatten all others.
_TALLEST = 1.8


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: the slowest of the steps it stands for.

    Args:
        x, width, height: In units of the drawing; the bar stands on its floor.
        warm_up: Whether its steps are left out as warm-up.
        is_cut: Whether the bar is taller than the drawing.
        text: What it stands for, in words.
    """

    x: float
    width: float
    height: float
    warm_up: bool
    is_cut: bool
    text: str


@dataclass(frozen=True, slots=True)
class StepChart:
    """Bars, the median `median_y` from the top, and in words the slowest bar where one is cut."""

    bars: tuple[Bar, ...]
    steps_per_bar: int
    median_y: float
    slowest: str
    width: int = WIDTH
    height: int = HEIGHT


def step_chart(steps: Steps) -> StepChart | None:
    """The chart, or None where fewer than two durations are known."""
    durations = steps.durations_ns
    if len(durations) < 2:
        return None
    per_bar = -(-len(durations) // _MOST_BARS)
    steady = durations[steps.warm_up :] or durations
    middle = median(steady)
    top = max(1.0, min(max(durations), _TALLEST * middle))
    groups = [durations[i : i + per_bar] for i in range(0, len(durations), per_bar)]
    slot = WIDTH / len(groups)
    bars = tuple(
        Bar(
            x=round(index * slot, 2),
            width=round(max(slot * 0.8, 0.5), 2),
            height=round(HEIGHT * min(1.0, max(group) / top), 1),
            warm_up=index * per_bar < steps.warm_up,
            is_cut=max(group) > top,
            text=_in_words(group, index * per_bar + 1),
        )
        for index, group in enumerate(groups)
    )
    slowest = max(range(len(groups)), key=lambda index: max(groups[index]))
    return StepChart(
        bars,
        per_bar,
        median_y=round(HEIGHT * (1 - middle / top), 1),
        slowest=bars[slowest].text if bars[slowest].is_cut else "",
    )


def _in_words(group: tuple[int, ...], first: int) -> str:
    last = first + len(group) - 1
    name = f"Step {first}" if len(group) == 1 else f"Slowest of steps {first} to {last}"
    return f"{name}: {units.format_ns(max(group))}"
