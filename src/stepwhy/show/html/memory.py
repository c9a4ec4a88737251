"""Chart of memory over a step, with its peak, as geometry for an inline SVG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units
from stepwhy.show import memory

if TYPE_CHECKING:
    from stepwhy.result import MemoryHolder, MemoryUse, Result

WIDTH, HEIGHT = 720, 120
_MOST_CHARTS = 4


class MemoryChart(msgspec.Struct, frozen=True):
    """Chart of one allocator, device or process.

    Args:
        name, state: In words.
        area, path: The level as an SVG path, as a closed area and as a line.
        base_y: y of the level at the start of a step; None if unknown.
        peak_x: x of the peak.
        peak: Time, phase and operation of the peak, in words.
        key: Meaning of the chart and its dashed line, in words.
        holders: Allocations at the peak, largest first.
        others: Number of smaller ones that are left out.
        whole: Bytes at the peak, of which `holders` are shares.
        room: How much larger the batch could be, in words; '' if unknown.
    """

    name: str
    state: str
    area: str
    path: str
    base_y: float | None
    peak_x: float
    peak: str
    key: str
    holders: tuple[MemoryHolder, ...]
    others: int
    whole: int
    room: str
    width: int = WIDTH
    height: int = HEIGHT


def memory_charts(result: Result) -> list[MemoryChart]:
    """Charts of the memory that is worth showing, most important first."""
    return [_chart(use) for use in memory.shown_uses(result)[:_MOST_CHARTS]]


def _chart(use: MemoryUse) -> MemoryChart:
    # Leave a margin above the peak, so that its line is visible.
    top = 1.08 * max(use.peak_bytes, 1)
    points = [(_place(time, use), _height(level, top)) for time, level in use.series]
    first = points[0][1] if points else HEIGHT
    path = f"M0 {first}{''.join(f'H{x}V{y}' for x, y in points)}H{WIDTH}"
    has_base = use.over == "step" and bool(use.base_bytes)
    over = "the step with the highest peak" if use.over == "step" else "the run"
    dashed = " Dashed: the level at its start." if has_base else ""
    return MemoryChart(
        name=memory.use_name(use),
        state=memory.use_state(use),
        area=f"{path}V{HEIGHT}H0Z",
        path=path,
        base_y=_height(use.base_bytes or 0, top) if has_base else None,
        peak_x=_place(use.peak_ns, use),
        peak=memory.peak_words(use),
        key=f"Over {over}, {units.format_ns(use.span_ns)}.{dashed}",
        holders=use.holders,
        others=use.others,
        whole=use.peak_bytes,
        room="" if use.room is None else memory.room_sentence(use.room),
    )


def _place(time_ns: int, use: MemoryUse) -> float:
    return round(WIDTH * time_ns / max(use.span_ns, 1), 1)


def _height(level: float, top: float) -> float:
    return round(HEIGHT * (1 - level / top), 1)
