"""Memory over a step as geometry for an inline SVG, with its peak marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy import units
from stepwhy.report import memory

if TYPE_CHECKING:
    from stepwhy.findings import MemoryHolder, MemoryUse, Result

WIDTH, HEIGHT = 720, 120
_MOST_PICTURES = 4


class MemoryChart(msgspec.Struct, frozen=True):
    """One allocator, device or process.

    Args:
        name, state: In words.
        area, path: Outline of the level as an SVG path, closed along the floor and open.
        base_y: Height of what a step begins with, from the top; None where it is not known.
        peak_x: Where the peak is.
        peak: When it is reached and at what, in words.
        key: What line and picture stand for.
        holders: What held the peak, and how many smaller holders are left out.
        whole: Bytes that `holders` are shares of.
        room: How much larger the batch could be, in words, or ''.
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
    """A picture of everything whose memory is worth showing, the most important first."""
    return [_chart(use) for use in memory.shown_uses(result)[:_MOST_PICTURES]]


def _chart(use: MemoryUse) -> MemoryChart:
    # A little air above the peak, so that its line can be seen.
    top = 1.08 * max(use.peak_bytes, 1)
    path = _outline(use, top)
    has_base = use.over == "step" and bool(use.base_bytes)
    return MemoryChart(
        name=memory.use_name(use),
        state=memory.use_state(use),
        area=f"{path}V{HEIGHT}H0Z",
        path=path,
        base_y=_height(use.base_bytes or 0, top) if has_base else None,
        peak_x=_place(use.peak_ns, use),
        peak=memory.peak_words(use),
        key=_key(use, has_base=has_base),
        holders=use.holders,
        others=use.others,
        whole=use.peak_bytes,
        room="" if use.room is None else memory.room_sentence(use.room),
    )


def _outline(use: MemoryUse, top: float) -> str:
    """A step line: each level holds until the next."""
    points = [(_place(time, use), _height(level, top)) for time, level in use.series]
    first = points[0][1] if points else HEIGHT
    return f"M0 {first}{''.join(f'H{x}V{y}' for x, y in points)}H{WIDTH}"


def _place(time_ns: int, use: MemoryUse) -> float:
    return round(WIDTH * time_ns / max(use.span_ns, 1), 1)


def _height(level: float, top: float) -> float:
    return round(HEIGHT * (1 - level / top), 1)


def _key(use: MemoryUse, *, has_base: bool) -> str:
    over = "the step that needs most" if use.over == "step" else "the run"
    dashed = " Dashed: what it begins with." if has_base else ""
    return f"Over {over}, {units.format_ns(use.span_ns)}.{dashed}"
