"""Chart of the fill level of a queue over the run, as geometry for an inline SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units
from stepwhy.show import watched

if TYPE_CHECKING:
    from stepwhy.result import Pipeline, PipelineStage, Result

WIDTH, HEIGHT = 720, 96


class LevelChart(msgspec.Struct, frozen=True):
    """Chart of one queue.

    Args:
        name, state: In words.
        path: Line of the level as an SVG path; '' if no level was sampled.
        area: Area between the level and the reserve, the elements available to dequeue.
        capacity_y, reserve_y: y of the two lines from the top; None for no line.
        key: Meaning of the lines, in words.
        span: Duration that the chart covers, in words.
        stages: Stages that fill the queue.
    """

    name: str
    state: str
    path: str
    area: str
    capacity_y: float | None
    reserve_y: float | None
    key: str
    span: str
    stages: tuple[PipelineStage, ...]
    width: int = WIDTH
    height: int = HEIGHT


def level_charts(result: Result) -> list[LevelChart]:
    """Charts of all queues and buffers."""
    return [_chart(pipeline) for pipeline in result.pipelines]


def _chart(pipeline: Pipeline) -> LevelChart:
    floor = watched.pipeline_floor(pipeline)
    # Leave a margin above the capacity, so that its line and a full queue are visible.
    scale = _Scale(floor, floor + 1.08 * (watched.pipeline_top(pipeline) - floor))
    path, area = _outline(pipeline, scale)
    has_capacity = bool(path) and pipeline.capacity is not None
    has_reserve = bool(path) and pipeline.reserve > 0
    last = pipeline.series[-1][0] - pipeline.series[0][0] if path else 0
    return LevelChart(
        name=watched.pipeline_name(pipeline),
        state=watched.pipeline_state(pipeline),
        path=path,
        area=area,
        capacity_y=scale.y(pipeline.capacity or 0) if has_capacity else None,
        reserve_y=scale.y(pipeline.reserve) if has_reserve else None,
        key=_key(pipeline) if path else "",
        span=units.format_ns(last) if last else "",
        stages=pipeline.stages,
    )


class _Scale(msgspec.Struct, frozen=True):
    """Numbers of elements at the bottom and at the top of the chart."""

    floor: float
    top: float

    def y(self, value: float) -> float:
        """Distance from the top; a level below the bottom is drawn at the bottom."""
        share = (max(value, self.floor) - self.floor) / (self.top - self.floor)
        return round(HEIGHT * (1 - share), 1)


def _outline(pipeline: Pipeline, scale: _Scale) -> tuple[str, str]:
    """The level as a step line, constant until the next sample, and the area below it."""
    if not pipeline.series:
        return "", ""
    first = pipeline.series[0][0]
    span = max(pipeline.series[-1][0] - first, 1)
    times = [round((time - first) / span * WIDTH, 1) for time, _ in pipeline.series]
    values = [value for _, value in pipeline.series]
    usable = [max(value, float(pipeline.reserve)) for value in values]
    bottom = scale.y(pipeline.reserve)
    path = _steps(times, [scale.y(value) for value in values])
    return path, f"{_steps(times, [scale.y(value) for value in usable])}V{bottom}H0Z"


def _steps(times: list[float], heights: list[float]) -> str:
    steps = "".join(f"H{x}V{y}" for x, y in zip(times[1:], heights[1:], strict=True))
    return f"M{times[0]} {heights[0]}{steps}H{WIDTH}"


def _key(pipeline: Pipeline) -> str:
    """Meaning of the dashed and the dotted line."""
    lines = []
    if pipeline.capacity is not None:
        lines.append(f"Dashed: the capacity, {units.format_count(pipeline.capacity)}.")
    if pipeline.reserve:
        reserve = units.format_count(pipeline.reserve)
        lines.append(f"Dotted: the reserve for shuffling, {reserve}.")
        floor = watched.pipeline_floor(pipeline)
        if floor:
            lines.append(f"The chart starts at {units.format_count(round(floor))}.")
    return " ".join(lines)
