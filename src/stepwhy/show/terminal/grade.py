"""Grades of the lab's pairs in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding

from stepwhy.base.text import one_line
from stepwhy.base.units import format_fraction
from stepwhy.show.console import Console, Text
from stepwhy.show.grade import is_passed, remark, summary
from stepwhy.show.terminal.fitting import INDENT, fitted_table
from stepwhy.show.terminal.measurement import print_parts, report_width
from stepwhy.show.world import TITLES, cells, note, totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from stepwhy.result import Grade, GradedPair, WorldGrade

_TITLES = ("pair", "planted", "first", "false alarm", "unexplained")


def render_grade(grade: Grade, console: Console | None = None) -> None:
    """Print a line per pair, and a summary.

    Args:
        grade: What to report.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    rows = [[Text(title, "dim") for title in _TITLES], *map(_cells, grade.pairs)]
    table = fitted_table(
        rows,
        report_width(console),
        names={0, 1},
        justify=("left", "left", "right", "right", "right"),
    )
    remarks = [_remark(pair.name, remark(pair)) for pair in grade.pairs if remark(pair)]
    _print(console, table, remarks, summary(grade))


def render_world(grade: WorldGrade, console: Console | None = None) -> None:
    """Print a line per program of `lab/world`, and the totals of each half.

    Args:
        grade: What to report.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    head: Sequence[str | Text] = [Text(title, "dim") for title in TITLES]
    table = fitted_table(
        [head, *map(cells, grade.programs)], report_width(console), names={0, 2, 7}
    )
    notes = [_remark(program.name, note(program)) for program in grade.programs if note(program)]
    _print(console, table, notes, totals(grade))


def _print(console: Console, table: Table, remarks: list[Text], sentences: list[str]) -> None:
    lines = [Text(sentence) for sentence in sentences]
    parts = [
        Padding(Group(*part), (1, 0, 0, INDENT)) for part in ((table,), remarks, lines) if part
    ]
    print_parts([*parts, Text("")], console)


def _remark(name: str, text: str) -> Text:
    return Text(f"{one_line(name)}: {text}.", "dim")


def _cells(pair: GradedPair) -> tuple[Text, ...]:
    share = "" if pair.unexplained is None else format_fraction(pair.unexplained)
    return (
        Text(one_line(pair.name), "green" if is_passed(pair) else "red"),
        Text(one_line(pair.diagnosis)),
        Text(f"{pair.found_first} of {pair.faulty_runs}"),
        Text(f"{pair.false_alarms} of {pair.fixed_runs}"),
        Text(share),
    )
