"""A session of the GPU lab in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.show.console import Console, Text
from stepwhy.show.gpu import (
    OVERHEAD_HEAD,
    bound_rows,
    is_passed,
    overhead_rows,
    pair_row,
    point_rows,
    remarks,
    summary,
)
from stepwhy.show.terminal.fitting import INDENT, fitted_table
from stepwhy.show.terminal.measurement import print_parts, report_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from stepwhy.result.gpu import GpuGrade, GpuPair

_TITLES = ("pair", "planted", "first", "false alarm", "predicted", "measured")
_COLOURS = {"passed": "green", "met": "green", "failed": "red", "not met": "red"}


def render_gpu(grade: GpuGrade, console: Console | None = None) -> None:
    """Print the pairs, the live points, the overhead, and a summary.

    Args:
        grade: What to report.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    width = report_width(console)
    pairs = [_cells(pair) for pair in grade.pairs]
    notes = [
        Text(f"{one_line(pair.graded.name)}: {remarks(pair)}.", "dim")
        for pair in grade.pairs
        if remarks(pair)
    ]
    points = [
        (answer, f"{about} ({name}): {evidence}")
        for name, about, answer, evidence in point_rows(grade)
    ]
    reached = [(answer, f"{bound}: {measured}") for answer, bound, measured in bound_rows(grade)]
    costs = [[Text(cell) for cell in row] for row in overhead_rows(grade)]
    blocks: list[Sequence[RenderableType]] = [
        [_table(_TITLES, pairs, width)] if pairs else [],
        notes,
        [_answers(points)] if points else [],
        [_table(OVERHEAD_HEAD, costs, width)] if costs else [],
        [_answers(reached)],
        [Text(line) for line in summary(grade)],
    ]
    parts = [Padding(Group(*lines), (1, 0, 0, INDENT)) for lines in blocks if lines]
    print_parts([*parts, Text("")], console)


def _answers(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Answers in one column, and beside them what they are about."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for answer, about in rows:
        table.add_row(Text(answer, _COLOURS.get(answer, "")), Text(about))
    return table


def _cells(pair: GpuPair) -> list[Text]:
    """One line; the interval of the gain is left to the page, which is wider."""
    name, *others = (cell.partition(" (")[0] for cell in pair_row(pair)[: len(_TITLES)])
    return [Text(name, "green" if is_passed(pair.graded) else "red"), *map(Text, others)]


def _table(titles: Sequence[str], rows: Sequence[Sequence[Text]], width: int) -> RenderableType:
    return fitted_table([[Text(title, "dim") for title in titles], *rows], width, names={0, 1})
