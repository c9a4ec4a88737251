"""The breakdown by line of the program, in the report and as a view of `stepwhy ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.base.units import format_count
from stepwhy.show import lines, words
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stepwhy.result import LineBreakdown, LineTime, Result


def lines_section(result: Result, *, show_all: bool) -> Iterator[RenderableType]:
    """The lines that take most of the step, and what they do; nothing if no line is known.

    Args:
        result: What to report.
        show_all: Print many lines instead of three.
    """
    breakdown = result.lines
    if breakdown is None:
        return
    shown = lines.chosen(breakdown, lines.MOST if show_all else lines.SHOWN)
    yield Text(f"\n{lines.lines_title(result)}", "bold")
    yield Padding(_table(breakdown, shown), (0, 0, 0, 2))
    if rest := lines.rest_sentence(breakdown, shown):
        yield Padding(Text(rest, "dim"), (0, 0, 0, 2))


def line_view(breakdown: LineBreakdown, steps: int, most: int) -> Iterator[RenderableType]:
    """All rows with their sum, or the longest ones with what the others take.

    Args:
        breakdown: The rows.
        steps: Number of steady steps that means are computed from.
        most: Number of rows.
    """
    shown = breakdown.lines[:most]
    of = "one step" if steps == 1 else f"mean of {format_count(steps)} steps"
    remark = f"  {len(shown)} of {len(breakdown.lines)}, longest first, {of}"
    yield Text.assemble(("\nBy line", "bold"), (remark, "dim"))
    table = _table(breakdown, shown)
    rest_ns = breakdown.wall_ns - sum(row.time_ns for row in shown)
    if len(shown) < len(breakdown.lines):
        _add(table, breakdown, rest_ns, Text("(other rows)"))
    _add(table, breakdown, breakdown.wall_ns, Text("(all)"))
    yield table
    if rest := lines.rest_sentence(breakdown, breakdown.lines):
        yield Text(rest, "dim")


def _table(breakdown: LineBreakdown, rows: Sequence[LineTime]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("right", "right", "left"):
        table.add_column(justify=justify, no_wrap=justify == "right", overflow="fold")
    for row in rows:
        is_most = lines.is_most(row, breakdown.wall_ns)
        text = Text(lines.line_name(row))
        what = lines.what_it_does(row, with_operations=not is_most)
        _add(table, breakdown, row.time_ns, text.append(f"\n{what}", "dim") if what else text)
        if is_most:
            for name, ns in lines.inside(row):
                _add(table, breakdown, ns, Text(f"  {one_line(name)}"), style="dim")
    return table


def _add(table: Table, breakdown: LineBreakdown, ns: int, text: Text, style: str = "") -> None:
    wall = breakdown.wall_ns
    table.add_row(Text(words.format_like(ns, wall)), Text(words.share(ns, wall)), text, style=style)
