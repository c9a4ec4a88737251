"""The fill level of a queue over the run, as geometry for an inline SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy import units
from stepwhy.report import watched

if TYPE_CHECKING:
    from stepwhy.findings import Pipeline, PipelineStage, Result

WIDTH, HEIGHT = 720, 96


class LevelChart(msgspec.Struct, frozen=True):
    """One queue.

    Args:
        name, state: In words.
        path: Outline of the level as an SVG path, '' where no level was seen.
        area: What of it can be taken out: the same, closed along what cannot.
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
    floor = watched.pipeline_floor(pipeline)
    # A little air above the capacity, so that its line and a full queue can be seen.
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
        bound=_bound(pipeline) if path else "",
        span=units.format_ns(last) if last else "",
        stages=pipeline.stages,
    )


class _Scale(msgspec.Struct, frozen=True):
    """Elements at the bottom of the picture and at its top."""

    floor: float
    top: float

    def y(self, value: float) -> float:
        """Height from the top; a level below the bottom lies on it."""
        share = (max(value, self.floor) - self.floor) / (self.top - self.floor)
        return round(HEIGHT * (1 - share), 1)


def _outline(pipeline: Pipeline, scale: _Scale) -> tuple[str, str]:
    """A step line, as each level holds until the next sample, and the area below it."""
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


def _bound(pipeline: Pipeline) -> str:
    """What the dashed and the dotted line stand for."""
    lines = []
    if pipeline.capacity is not None:
        lines.append(f"Dashed: holds {units.format_count(pipeline.capacity)}.")
    if pipeline.reserve:
        kept = units.format_count(pipeline.reserve)
        lines.append(f"Dotted: {kept} that cannot be taken out.")
        floor = watched.pipeline_floor(pipeline)
        if floor:
            lines.append(f"The picture begins at {units.format_count(round(floor))}.")
    return " ".join(lines)
