"""Measurements and comparisons in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table

from stepwhy.kernel_names.short import short_name
from stepwhy.report import words
from stepwhy.report.console import Console, Text
from stepwhy.report.terminal.finish import Finish
from stepwhy.text import one_line
from stepwhy.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stepwhy.findings import BenchResult, CategoryDifference, Comparison, Measurement

_WIDEST = 100
_COLOUR = {"faster": "green", "slower": "red", "same": "cyan", "cannot tell": "yellow"}
_MOST_OPS = 8
# Categories that differ by less than this share of the step are not worth a row.
_LEAST_SHARE = 0.005


def render_bench(result: BenchResult, console: Console | None = None) -> None:
    """Print the step time, its runs as a picture, and notes.

    Args:
        result: What to report.
        console: Console to print to; None for standard output.
    """
    colour = "yellow" if result.quiet is False else "cyan"
    print_parts(
        [
            *sentence_line(result.sentence, colour),
            *runs_picture([result.measurement]),
            *_notes(result),
        ],
        console,
    )


def render_comparison(result: Comparison, console: Console | None = None) -> None:
    """Print the verdict, the runs of both as a picture, and the differences.

    Args:
        result: What to report.
        console: Console to print to; None for standard output.
    """
    parts = [
        *sentence_line(result.sentence, _COLOUR[result.verdict]),
        *runs_picture([result.a, result.b]),
        *_categories(result),
        *_ops(result),
        *_notes(result),
    ]
    print_parts(parts, console)


def print_parts(parts: Sequence[RenderableType], console: Console | None) -> None:
    """Print a report with lines of at most 100 columns.

    Args:
        parts: Parts of the report, from top to bottom.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    ascii_only = console.options.ascii_only
    console.print(Finish(Group(*parts), ascii_only=ascii_only), width=min(console.width, _WIDEST))


def sentence_line(sentence: str, colour: str) -> Iterator[RenderableType]:
    """The first line: a coloured square and the verdict.

    Args:
        sentence: The verdict.
        colour: Colour of the square.
    """
    yield Text("")
    head = Table.grid(padding=(0, 1, 0, 0))
    head.add_row(Text("■", colour), Text(one_line(sentence), "bold"))
    yield head


def runs_picture(sides: Sequence[Measurement]) -> Iterator[RenderableType]:
    """One row per program: its step time, and the median step of each run on a common axis."""
    medians = [run.median_ns for side in sides for run in side.runs]
    low, high = min(medians), max(medians)
    table = Table.grid(padding=(0, 2, 0, 0))
    names = ("A", "B") if len(sides) > 1 else ("",)
    for name, side in zip(names, sides, strict=True):
        interval = (
            f"{format_ns(side.step_ns)} ({format_ns(side.low_ns)} to {format_ns(side.high_ns)})"
        )
        label = f"{name}  {one_line(side.label)}".strip()
        table.add_row(Text(label), _marks(side, low, high), Text(interval))
    axis = f"{format_ns(low)} to {format_ns(high)}; o: a run"
    void = any(run.void for side in sides for run in side.runs)
    table.add_row("", Text(axis + (", x: does not count" if void else ""), "dim"), "")
    yield Padding(table, (1, 0, 0, 2))


def _marks(side: Measurement, low: int, high: int, width: int = 30) -> Text:
    cells = ["·"] * width
    for run in side.runs:
        place = round((run.median_ns - low) / max(high - low, 1) * (width - 1))
        cells[place] = "x" if run.void and cells[place] != "o" else "o"
    return Text("".join(cells), no_wrap=True)


def _categories(result: Comparison) -> Iterator[RenderableType]:
    least = _LEAST_SHARE * result.a.step_ns
    rows = [c for c in result.categories if abs(c.difference_ns) >= least]
    if not rows:
        return
    yield Text("\nWhere the difference lies", "bold")
    table = Table.grid(padding=(0, 3, 0, 0))
    for justify in ("left", "right", "right", "right", "left"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_row("", Text("A", "dim"), Text("B", "dim"), Text("B - A", "dim"), "")
    for row in rows:
        label = words.CATEGORY_WORDS[row.category].label
        table.add_row(
            label, format_ns(row.a_ns), format_ns(row.b_ns), _signed(row.difference_ns), _sure(row)
        )
    yield Padding(table, (0, 0, 0, 2))


def _sure(row: CategoryDifference) -> Text:
    """Mark a difference that may be chance; empty if there is only one run of each."""
    if row.low_ns is None or row.sure:
        return Text("")
    return Text("may be chance", "dim")


def _signed(ns: int) -> str:
    sign = "+" if ns > 0 else "-" if ns < 0 else ""
    return f"{sign}{format_ns(abs(ns))}"


def _ops(result: Comparison) -> Iterator[RenderableType]:
    if not result.ops:
        return
    yield Text("\nOps that differ", "bold")
    table = Table.grid(padding=(0, 3, 0, 0))
    for justify in ("left", "left", "right", "right", "right"):
        table.add_column(justify=justify, no_wrap=True, overflow="ellipsis")
    for op in result.ops[:_MOST_OPS]:
        a, b = ("" if ns is None else format_ns(ns) for ns in (op.a_ns, op.b_ns))
        table.add_row(op.change, one_line(short_name(op.name)), a, b, _signed(op.difference_ns))
    left = len(result.ops) - _MOST_OPS
    if left > 0:
        table.add_row("", Text(f"and {left} more, in --json", "dim"), "", "", "")
    yield Padding(table, (0, 0, 0, 2))


def _notes(result: BenchResult | Comparison) -> Iterator[RenderableType]:
    for note in result.notes:
        yield Padding(Text(one_line(note), "yellow"), (1, 0, 0, 2))
    yield Text("")
