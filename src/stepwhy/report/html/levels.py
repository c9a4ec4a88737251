"""The fill level of a queue over the run, as geometry for an inline SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepwhy import units
from stepwhy.report import watched

if TYPE_CHECKING:
    from stepwhy.findings import Pipeline, PipelineStage, Result

WIDTH, HEIGHT = 720, 96


@dataclass(frozen=True, slots=True)
class LevelChart:
    """One queue.

    Args:
        name, state: In words.
        path: Outline of the level as an SVG path, '' where no level was seen.
        area: The same, closed along the floor.
        capacity_y, reserve_y: Heights of the two lines from the top; None without one.
        bound: What the lines say, in words.
        span: How long the picture is, in words.
        stages: What fills it.
    """

    name: str
    state: str
    path: str
    area: str
    capacity_y: float | None
    reserve_y: float | None
    bound: str
    span: str
    stages: tuple[PipelineStage, ...]
    width: int = WIDTH
    height: int = HEIGHT


def level_charts(result: Result) -> list[LevelChart]:
    """A picture of every queue and buffer."""
    return [_chart(pipeline) for pipeline in result.pipelines]


def _chart(pipeline: Pipeline) -> LevelChart:
    # A little air above the capacity, so that its line and a full queue can be seen.
    top = 1.08 * watched.pipeline_top(pipeline)
    path, area = _outline(pipeline, top)
    has_capacity = bool(path) and pipeline.capacity is not None
    has_reserve = bool(path) and pipeline.reserve > 0
    last = pipeline.series[-1][0] - pipeline.series[0][0] if path else 0
    return LevelChart(
        name=watched.pipeline_name(pipeline),
        state=watched.pipeline_state(pipeline),
        path=path,
        area=area,
        capacity_y=_height(pipeline.capacity or 0, top) if has_capacity else None,
        reserve_y=_height(pipeline.reserve, top) if has_reserve else None,
        bound=_bound(pipeline) if path else "",
        span=units.format_ns(last) if last else "",
        stages=pipeline.stages,
    )


def _outline(pipeline: Pipeline, top: float) -> tuple[str, str]:
    """A step line: each level holds until the next sample."""
    if not pipeline.series:
        return "", ""
    first = pipeline.series[0][0]
    span = max(pipeline.series[-1][0] - first, 1)
    points = [
        (round((time - first) / span * WIDTH, 1), _height(value, top))
        for time, value in pipeline.series
    ]
    steps = "".join(f"H{x}V{y}" for x, y in points[1:])
    path = f"M{points[0][0]} {points[0][1]}{steps}H{WIDTH}"
    return path, f"{path}V{HEIGHT}H0Z"


def _height(value: float, top: float) -> float:
    return round(HEIGHT * (1 - value / top), 1)


def _bound(pipeline: Pipeline) -> str:
    """What the dashed and the dotted line stand for."""
    lines = []
    if pipeline.capacity is not None:
        lines.append(f"Dashed: holds {units.format_count(pipeline.capacity)}.")
    if pipeline.reserve:
        kept = units.format_count(pipeline.reserve)
        lines.append(f"Dotted: {kept} that cannot be taken out.")
    return " ".join(lines)
