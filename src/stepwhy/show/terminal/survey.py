"""Several unrelated runs in the terminal, a line each."""

from __future__ import annotations

import os
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base import units
from stepwhy.base.text import one_line, visible
from stepwhy.show import words
from stepwhy.show.console import Console, Text
from stepwhy.show.terminal.finish import Finish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import Result
    from stepwhy.result.survey import Surveyed

# Characters of why there is no verdict; its report has the rest.
_LONGEST_REASON = 90


def render_survey(runs: Sequence[Surveyed], console: Console | None = None) -> None:
    """Print a table of runs: time, largest categories, and what to fix first.

    Args:
        runs: At least one.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("run", overflow="fold", ratio=3)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    table.add_column("fix first", overflow="fold", ratio=4)
    names = [run.name for run in runs]
    # `commonpath` refuses a mix of absolute and relative paths, and breaks addresses.
    common = os.path.commonprefix(names) if len(names) > 1 else ""  # noqa: RUF071
    base = common[: common.rfind("/") + 1]
    for run in sorted(runs, key=lambda run: run.result is None):
        table.add_row(visible(run.name.removeprefix(base)), *_cells(run))
    indented = Padding(table, (0, 0, 0, 2))  # so that no name begins a line
    console.print(Finish(indented, ascii_only=console.options.ascii_only), width=console.width)
    console.print(Text("\nThese are different runs. Explain one of them for its report.", "dim"))


def _cells(run: Surveyed) -> tuple[Text, Text, Text]:
    if run.result is None:
        return Text(""), Text("not read", "yellow"), Text(one_line(run.error), "dim")
    result = run.result
    wall = result.breakdown.wall_ns
    return Text(units.format_ns(wall) if wall else ""), _bound(result), _first(result)


def _bound(result: Result) -> Text:
    verdict = result.verdict
    if verdict.bound_by == "unknown":
        return Text("cannot tell", "yellow")
    style = "green" if words.is_healthy(result) else words.colour_of(verdict.bound_by)
    return Text(verdict.bound_by + (", likely" if words.is_unsure(verdict) else ""), style)


def _first(result: Result) -> Text:
    first = result.findings[0]
    if first.verdict == "found":
        return Text(one_line(first.title))
    if result.verdict.bound_by != "unknown":
        return Text("")
    why = one_line(result.verdict.sentence).removeprefix("Cannot tell: ")
    return Text(shorten(why, _LONGEST_REASON, placeholder=" ..."), "dim")
