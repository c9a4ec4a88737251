"""Tables that fit the terminal: every figure is whole, and long names lose their middle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.show.console import Text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

WIDEST = 100
"""Most columns of a report; longer lines are hard to read."""
INDENT = 2
"""Columns before the tables of a report."""

_OMISSION = "..."
# Columns that a shortened name should keep; else the gaps between columns become narrower.
_READABLE = 20
_GAPS = (3, 2, 1)

Justify = Literal["left", "right"]


def shortened(name: str, width: int) -> str:
    """A name without its middle if it needs more than `width` columns.

    Args:
        name: The name; its beginning and its end say most.
        width: Number of columns.
    """
    if cell_len(name) <= width:
        return name
    kept = max(width - len(_OMISSION), 0)
    begin, end = name[: kept - kept // 2], name[len(name) - kept // 2 :]
    while cell_len(begin) + cell_len(end) > kept:  # characters of two columns
        begin, end = (begin[:-1], end) if len(begin) > len(end) else (begin, end[1:])
    return f"{begin}{_OMISSION}{end}"[:width]


def fitted_table(
    rows: Sequence[Sequence[str | Text]],
    width: int,
    *,
    names: Collection[int],
    justify: Sequence[Justify] = (),
) -> Table:
    """A table without lines whose names are shortened so that it fits.

    Args:
        rows: Cells of each row; all rows have as many.
        width: Columns of the report; the table is indented.
        names: Numbers of the columns whose cells may be shortened; all others stay whole.
        justify: Alignment of each column; left where it is not given.
    """
    cells = [[cell if isinstance(cell, Text) else Text(one_line(cell)) for cell in r] for r in rows]
    natural = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    gap, widths = _widths(natural, width - INDENT, names)
    table = Table.grid(padding=(0, gap, 0, 0))
    for number, columns in enumerate(widths):
        side = justify[number] if number < len(justify) else "left"
        table.add_column(justify=side, no_wrap=True, width=columns)
    for row in cells:
        table.add_row(*(_fitted(cell, columns) for cell, columns in zip(row, widths, strict=True)))
    return table


def _widths(natural: list[int], width: int, names: Collection[int]) -> tuple[int, list[int]]:
    """Columns between two cells, and columns of each cell."""
    fixed = sum(columns for number, columns in enumerate(natural) if number not in names)
    widths, gap = list(natural), _GAPS[0]
    for gap in _GAPS:
        left = width - fixed - gap * (len(natural) - 1)
        widths = list(natural)
        for done, number in enumerate(sorted(names, key=lambda n: natural[n])):
            widths[number] = max(min(natural[number], left // (len(names) - done)), 1)
            left -= widths[number]
        if all(widths[number] >= min(natural[number], _READABLE) for number in names):
            break
    return gap, widths


def _fitted(cell: Text, width: int) -> Text:
    if cell.cell_len <= width:
        return cell
    return Text(shortened(cell.plain, width), cell.style)
