"""Memory over a step, its peak, and the largest allocations at the peak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.show import memory
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.result import MemoryUse, Result

_BARS = "▁▂▃▄▅▆▇█"
_WIDEST_LINE = 60
# Shown without --all, if memory is relevant.
_USES = 1
_HOLDERS = 5


def memory_section(result: Result, width: int, *, show_all: bool) -> Iterator[RenderableType]:
    """State, level line and largest allocations of each memory; nothing if it is not relevant.

    Args:
        result: What to report.
        width: Columns of the report.
        show_all: Print everything that is worth showing, relevant or not.
    """
    uses = memory.shown_uses(result)
    if not uses or not (show_all or memory.matters(result)):
        return
    yield Text("\nMemory", "bold")
    for use in uses if show_all else uses[:_USES]:
        yield from _use(use, width, most=len(use.holders) if show_all else _HOLDERS)
    if not show_all and len(uses) > _USES:
        yield Padding(Text(f"{len(uses) - _USES} more with --all", "dim"), (0, 0, 0, 2))


def _use(use: MemoryUse, width: int, *, most: int) -> Iterator[RenderableType]:
    yield Padding(Text(f"{memory.use_name(use)}: {memory.use_state(use)}"), (0, 0, 0, 2))
    line = Text(level_line(use, min(width - 4, _WIDEST_LINE)), "cyan")
    yield Padding(line, (0, 0, 0, 2))
    yield Padding(Text(f"peak at {memory.peak_words(use)}", "dim"), (0, 0, 0, 2))
    if use.holders:
        yield Padding(_holders(use, most), (0, 0, 0, 2))
    if use.room is not None:
        yield Padding(Text(memory.room_sentence(use.room), "dim"), (0, 0, 0, 2))


def level_line(use: MemoryUse, cells: int) -> str:
    """The level over time: the highest of each cell, or the last one if nothing changed in it.

    Args:
        use: Memory use to draw.
        cells: Columns of the line.
    """
    highest: list[int | None] = [None] * cells
    for time, level in use.series:
        cell = min(time * cells // max(use.span_ns, 1), cells - 1)
        highest[cell] = max(level, highest[cell] or 0)
    drawn, last = [], 0
    for known in highest:
        last = last if known is None else known
        drawn.append(_BARS[round(last / max(use.peak_bytes, 1) * (len(_BARS) - 1))])
    return "".join(drawn)


def _holders(use: MemoryUse, most: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in (("bytes", "right"), ("of peak", "right"), ("blocks", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("held at the peak by", overflow="fold")
    table.add_column("phase")
    for holder in use.holders[:most]:
        table.add_row(
            units.format_bytes(holder.bytes),
            units.format_fraction(holder.bytes / max(use.peak_bytes, 1)),
            units.format_count(holder.blocks),
            Text(one_line(holder.name) or "no operation"),
            "" if holder.phase == "unknown" else one_line(holder.phase),
        )
    return table
