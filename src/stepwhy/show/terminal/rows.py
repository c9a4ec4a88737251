"""Rows of a query in the terminal: figures are whole, long texts lose their middle."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Protocol

from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.base.units import format_count
from stepwhy.show.console import Console, Text
from stepwhy.show.terminal.finish import Finish
from stepwhy.show.terminal.fitting import INDENT, fitted_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import RenderableType

    Rows = Sequence[Sequence[Any]]

_MOST_ROWS = 100
# Columns that a shortened text keeps at least; if that does not fit, each row becomes a list.
_NARROWEST = 12
_GAP = 1  # at least, between two columns
# Significant digits of the largest floating point number of a column.
_DIGITS = 6
_NULL = "-"


class Described(Protocol):
    """One column of a table, as `render_tables` lists it."""

    @property
    def table(self) -> str:
        """The table."""

    @property
    def rows(self) -> int | None:
        """Its number of rows, if known."""

    @property
    def column(self) -> str:
        """The column."""

    @property
    def type(self) -> str:
        """Its SQL type."""

    @property
    def unit(self) -> str:
        """Its unit, or ''."""

    @property
    def meaning(self) -> str:
        """One sentence."""


def render_rows(
    columns: Sequence[str], batches: Iterable[Rows], console: Console | None = None
) -> None:
    """Print the first rows as a table, or as lists if it is too wide for the terminal.

    Args:
        columns: Names of the columns.
        batches: Batches of rows; only the first ones are used.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    rows = list(islice((row for batch in batches for row in batch), _MOST_ROWS + 1))
    shown = rows[:_MOST_ROWS]
    parts: list[RenderableType] = [Text(""), *_laid_out(columns, shown, console.width)]
    if not rows:
        parts.append(Padding(Text("no rows", "dim"), (0, 0, 0, INDENT)))
    if len(rows) > len(shown):
        more = f"the first {_MOST_ROWS} rows; --format csv prints all"
        parts.append(Padding(Text(more, "dim"), (1, 0, 0, INDENT)))
    _print([*parts, Text("")], console)


def render_tables(columns: Iterable[Described], console: Console | None = None) -> None:
    """Print all tables with their columns.

    Args:
        columns: The columns, those of one table in succession.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    parts: list[RenderableType] = []
    for name, group in groupby(columns, key=lambda one: one.table):
        members = list(group)
        count = members[0].rows
        remark = "view" if count is None else f"{format_count(count)} row{'s' * (count != 1)}"
        parts.append(Text.assemble((f"\n{one_line(name)}", "bold"), (f"  {remark}", "dim")))
        parts.append(Padding(_columns(members), (0, 0, 0, INDENT)))
    _print([*parts, Text("")], console)


def _print(parts: list[RenderableType], console: Console) -> None:
    console.print(Finish(Group(*parts), ascii_only=console.options.ascii_only))


def _columns(members: list[Described]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for one in members:
        unit = f" ({one.unit})" if one.unit else ""
        meaning = Text(one_line(one.meaning + unit))
        table.add_row(Text(one_line(one.column)), Text(one.type.lower(), "dim"), meaning)
    return table


def _laid_out(columns: Sequence[str], rows: Rows, width: int) -> Iterator[RenderableType]:
    heads = [Text(one_line(name), "dim") for name in columns]
    cells = [_cells([row[n] for row in rows]) for n in range(len(columns))]
    figures = [_is_figure(row[n] for row in rows) for n in range(len(columns))]
    names = {n for n, is_figure in enumerate(figures) if not is_figure}
    if _least_width(heads, cells, names) > width - INDENT:
        for number, row in enumerate(zip(*cells, strict=True), 1):
            yield Text(f"row {number}", "dim")
            pairs = list(zip((head.plain for head in heads), row, strict=True))
            yield Padding(fitted_table(pairs, width, names={1}), (0, 0, 0, INDENT))
        return
    table = [heads, *zip(*cells, strict=True)] if columns else []
    if table:
        justify = ["right" if is_figure else "left" for is_figure in figures]
        fitted = fitted_table(table, width, names=names, justify=justify)  # type: ignore[arg-type]
        yield Padding(fitted, (0, 0, 0, INDENT))


def _least_width(heads: list[Text], cells: list[list[str]], names: set[int]) -> int:
    """Columns of the terminal that the table needs."""
    widths = []
    for number, (head, column) in enumerate(zip(heads, cells, strict=True)):
        natural = max(head.cell_len, *map(cell_len, column), 0)
        widths.append(min(natural, _NARROWEST) if number in names else natural)
    return sum(widths) + _GAP * (len(widths) - 1)


def _is_figure(values: Iterable[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in known
    )


def _cells(values: Sequence[Any]) -> list[str]:
    """The values of one column as text; floating point numbers have equally many decimals."""
    numbers = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    largest = f"{max(map(abs, numbers), default=0.0):.0f}"
    most = max(_DIGITS - len(largest), 0)
    decimals = max((_decimals(value, most) for value in numbers), default=0)
    return [_cell(value, decimals) for value in values]


def _decimals(number: float, most: int) -> int:
    """Digits after the point that a number needs."""
    return len(f"{number:.{most}f}".rstrip("0").partition(".")[2])


def _cell(value: Any, decimals: int) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        text = f"{value:.{decimals}f}"
        return text if float(text) or not value else f"{value:.2g}"
    return one_line(str(value))
