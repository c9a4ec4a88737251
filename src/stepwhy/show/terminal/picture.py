"""The breakdown of the step: a stacked bar and its legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.show import picture as geometry
from stepwhy.show import words
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.result import Breakdown, Result

# Columns that a legend row with the meaning of its category needs, without the bar.
_ROW_WITH_MEANING = 72


def picture(
    result: Result, width: int, *, has_colour: bool, show_all: bool = False
) -> Iterator[RenderableType]:
    """The breakdown as a bar, its legend, and remarks on phases and source lines.

    Args:
        result: What to report.
        width: Columns of the report.
        has_colour: If False, the bar consists of the letters of the categories.
        show_all: Also print how the breakdown follows from the record.
    """
    breakdown = result.breakdown
    if not any(breakdown.categories.values()):
        return
    yield Text(f"\nWhere the {words.whole(result)} goes", "bold")
    yield Padding(_stacked_bar(breakdown, width - 2, has_colour=has_colour), (0, 0, 0, 2))
    yield Padding(_legend(breakdown, width, has_colour=has_colour), (1, 0, 0, 2))
    hottest = "" if words.is_hottest_listed(result) else _hottest(breakdown)
    together = words.parallel_sentence(result)
    remarks = " ".join(
        filter(
            None,
            (words.phase_sentence(breakdown), together, breakdown.note, hottest, *_sampled(result)),
        )
    )
    if remarks:
        yield Padding(Text(remarks, "dim"), (1, 0, 0, 2))
    if show_all and (sentences := geometry.corrections(breakdown)):
        yield Text(f"\n{geometry.CORRECTIONS_TITLE}", "bold")
        table = Table.grid(padding=(0, 1, 0, 0))
        for sentence in sentences:
            table.add_row(Text("-"), Text(sentence))
        yield Padding(table, (0, 0, 0, 2))


def _stacked_bar(breakdown: Breakdown, width: int, *, has_colour: bool) -> Text:
    bar = Text(no_wrap=True)
    for category, cells in geometry.cells(breakdown.categories, width):
        style = words.CATEGORY_WORDS[category]
        bar.append(("█" if has_colour else style.mark) * cells, style.colour)
    return bar


def _legend(breakdown: Breakdown, width: int, *, has_colour: bool) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "right", "left", "left"):
        table.add_column(justify=justify, no_wrap=True)
    bar_cells = min(max(width - _ROW_WITH_MEANING, 8), 24)
    wall = breakdown.wall_ns
    for category, ns in geometry.present(breakdown.categories):
        style = words.CATEGORY_WORDS[category]
        row = [
            Text.assemble(("■" if has_colour else style.mark, style.colour), f" {style.label}"),
            Text(words.format_like(ns, wall)),
            Text(words.share(ns, wall)),
            Text(tiny_bar(ns / wall, bar_cells), style.colour),
        ]
        if width >= _ROW_WITH_MEANING:
            row.append(Text(style.meaning, "dim"))
        table.add_row(*row)
    return table


def tiny_bar(fraction: float, cells: int) -> str:
    """A horizontal bar for a fraction, padded to `cells` columns, in steps of half a column."""
    full, half = divmod(max(1, round(fraction * cells * 2)), 2)
    return ("━" * full + "╸" * half).ljust(cells)


def _sampled(result: Result) -> Iterator[str]:
    """One sentence per role of sampled threads."""
    for beginning, places in words.sampled_lines(result):
        yield f"{beginning} {', '.join(f'{share} in {line}' for share, line in places)}."


def _hottest(breakdown: Breakdown) -> str:
    if not breakdown.hottest_line:
        return ""
    line = one_line(breakdown.hottest_line)
    return f"While the device is idle, your code is most often at {line}."
