"""Grades of the lab's pairs in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.report.console import Text
from stepwhy.report.grade import is_passed, remark, summary
from stepwhy.report.terminal.measurement import print_parts
from stepwhy.text import one_line
from stepwhy.units import format_fraction

if TYPE_CHECKING:
    from stepwhy.findings import Grade, GradedPair
    from stepwhy.report.console import Console


def render_grade(grade: Grade, console: Console | None = None) -> None:
    """Print a line per pair, and a summary.

    Args:
        grade: What to report.
        console: Console to print to; None for standard output.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in (
        *(("pair", "left"), ("planted", "left"), ("first", "right"), ("false alarm", "right")),
        *(("unexplained", "right"), ("remark", "left")),
    ):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for pair in grade.pairs:
        table.add_row(*_cells(pair))
    sentences = [Padding(Text(line), (0, 0, 0, 2)) for line in summary(grade)]
    print_parts([Text(""), Padding(table, (0, 0, 1, 2)), *sentences, Text("")], console)


def _cells(pair: GradedPair) -> tuple[Text, ...]:
    share = "" if pair.unexplained is None else format_fraction(pair.unexplained)
    return (
        Text(one_line(pair.name), "green" if is_passed(pair) else "red"),
        Text(one_line(pair.diagnosis)),
        Text(f"{pair.found_first} of {pair.faulty_runs}"),
        Text(f"{pair.false_alarms} of {pair.fixed_runs}"),
        Text(share),
        Text(remark(pair), "dim"),
    )
