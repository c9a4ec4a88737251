"""Measurements and comparisons in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.base.units import format_ns
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import words
from stepwhy.show.console import Console, Text
from stepwhy.show.terminal.finish import Finish
from stepwhy.show.terminal.fitting import INDENT, WIDEST, fitted_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stepwhy.result import BenchResult, CategoryDifference, Comparison, Measurement
    from stepwhy.show.terminal.fitting import Justify

_COLOUR = {"faster": "green", "slower": "red", "same": "cyan", "cannot tell": "yellow"}
_MOST_OPS = 8
# Categories that differ by less than this share of the step are not worth a row.
_LEAST_SHARE = 0.005
# Columns of the strip that shows the runs.
_WIDEST_STRIP, _NARROWEST_STRIP = 30, 12
_GAP = 3


def render_bench(result: BenchResult, console: Console | None = None) -> None:
    """Print the step time, its runs as a picture, and notes.

    Args:
        result: What to report.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    colour = "yellow" if result.quiet is False else "cyan"
    print_parts(
        [
            *sentence_line(result.sentence, colour),
            *runs_picture([result.measurement], report_width(console)),
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
    console = console or Console()
    width = report_width(console)
    parts = [
        *sentence_line(
            result.sentence, "yellow" if result.quiet is False else _COLOUR[result.verdict]
        ),
        *runs_picture([result.a, result.b], width),
        *_certain(result),
        *_categories(result, width),
        *_ops(result, width),
        *_notes(result),
    ]
    print_parts(parts, console)


def report_width(console: Console) -> int:
    """Columns of a report: those of the terminal, at most 100."""
    return min(console.width, WIDEST)


def print_parts(parts: Sequence[RenderableType], console: Console | None) -> None:
    """Print a report with lines of at most 100 columns.

    Args:
        parts: Parts of the report, from top to bottom.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    ascii_only = console.options.ascii_only
    console.print(Finish(Group(*parts), ascii_only=ascii_only), width=report_width(console))


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


def runs_picture(sides: Sequence[Measurement], width: int) -> Iterator[RenderableType]:
    """One row per program: its step time, and that of each run on a common axis.

    Args:
        sides: The programs.
        width: Columns of the report.
    """
    medians = [run.median_ns for side in sides for run in side.runs]
    low, high = min(medians), max(medians)
    names = ("A  ", "B  ") if len(sides) > 1 else ("",)
    labels = [name + one_line(side.label) for name, side in zip(names, sides, strict=True)]
    times = [
        f"{format_ns(side.step_ns)} ({format_ns(side.low_ns)} to {format_ns(side.high_ns)})"
        for side in sides
    ]
    taken = INDENT + 2 * _GAP + max(map(len, labels)) + max(map(len, times))
    strip = min(max(width - taken, _NARROWEST_STRIP), _WIDEST_STRIP)
    rows = [
        (label, _marks(side, low, high, strip), time)
        for label, side, time in zip(labels, sides, times, strict=True)
    ]
    yield Padding(fitted_table(rows, width, names={0}), (1, 0, 0, INDENT))
    void = any(run.void for side in sides for run in side.runs)
    remark = "; x: a run that does not count" if void else ""
    axis = f"o: a run, from {format_ns(low)} to {format_ns(high)}{remark}"
    yield Padding(Text(axis, "dim"), (0, 0, 0, INDENT))


def _marks(side: Measurement, low: int, high: int, width: int) -> Text:
    cells = ["·"] * width
    for run in side.runs:
        place = round((run.median_ns - low) / max(high - low, 1) * (width - 1))
        cells[place] = "x" if run.void and cells[place] != "o" else "o"
    return Text("".join(cells), no_wrap=True)


def _certain(result: Comparison) -> Iterator[RenderableType]:
    if not result.certain:
        return
    yield Text("\nCertain, whatever the noise", "bold")
    for line in result.certain:
        yield Padding(Text(one_line(line)), (0, 0, 0, INDENT))


def _categories(result: Comparison, width: int) -> Iterator[RenderableType]:
    least = _LEAST_SHARE * result.a.step_ns
    found = [c for c in result.categories if abs(c.difference_ns) >= least]
    if not found:
        return
    yield Text("\nWhere the difference lies", "bold")
    rows = [_HEADER, *map(_category_row, found)]
    justify: tuple[Justify, ...] = ("left", "right", "right", "right")
    yield Padding(fitted_table(rows, width, names={0}, justify=justify), (0, 0, 0, INDENT))


_HEADER = ("", Text("A", "dim"), Text("B", "dim"), Text("B - A", "dim"), "")


def _category_row(row: CategoryDifference) -> tuple[str | Text, ...]:
    label = words.CATEGORY_WORDS[row.category].label
    times = format_ns(row.a_ns), format_ns(row.b_ns), _signed(row.difference_ns)
    return label, *times, _sure(row)


def _sure(row: CategoryDifference) -> Text:
    """Mark a difference that may be chance; empty if there is only one run of each."""
    if row.low_ns is None or row.sure:
        return Text("")
    return Text("may be chance", "dim")


def _signed(ns: int) -> str:
    sign = "+" if ns > 0 else "-" if ns < 0 else ""
    return f"{sign}{format_ns(abs(ns))}"


def _ops(result: Comparison, width: int) -> Iterator[RenderableType]:
    if not result.ops:
        return
    yield Text("\nOps that differ", "bold")
    rows: list[tuple[str | Text, ...]] = [("", *_HEADER[:-1])]
    for op in result.ops[:_MOST_OPS]:
        a, b = ("" if ns is None else format_ns(ns) for ns in (op.a_ns, op.b_ns))
        rows.append((op.change, short_name(op.name), a, b, _signed(op.difference_ns)))
    justify: tuple[Justify, ...] = ("left", "left", "right", "right", "right")
    yield Padding(fitted_table(rows, width, names={1}, justify=justify), (0, 0, 0, INDENT))
    left = len(result.ops) - _MOST_OPS
    if left > 0:
        yield Padding(Text(f"and {left} more, in --json", "dim"), (0, 0, 0, INDENT))


def _notes(result: BenchResult | Comparison) -> Iterator[RenderableType]:
    for note in result.notes:
        yield Padding(Text(one_line(note), "yellow"), (1, 0, 0, INDENT))
    yield Text("")
