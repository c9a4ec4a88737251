"""Trials of fixes in the terminal, in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.base.units import format_ns
from stepwhy.show.console import Console, Text
from stepwhy.show.terminal.finish import Finish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from stepwhy.result import Trial

_WIDEST = 80
_COLOUR = {"gain": "green", "no gain": "cyan", "cannot tell": "yellow", "refused": "yellow"}
_METHOD = {
    "blocks": "switched on and off within the runs, {pairs} pairs of blocks of steps",
    "runs": "runs with and without it in turns, {pairs} pairs",
}


def render_trial(result: Trial, console: Console | None = None) -> None:
    """Print the verdict, the measured gain beside the predicted one, and how it was measured.

    Args:
        result: What to report.
        console: Console to print to; None for standard output.
    """
    head = Table.grid(padding=(0, 1, 0, 0))
    head.add_row(Text("■", _COLOUR[result.verdict]), Text(one_line(result.sentence), "bold"))
    rows = [row for row in _rows(result) if row[1]]
    parts: list[RenderableType] = [Text(""), head]
    if rows:
        parts.append(Padding(_table(rows), (1, 0, 0, 2)))
    notes = (*result.notes, f"{result.todo}." if result.todo else "")
    parts += [Padding(Text(one_line(note), "yellow"), (1, 0, 0, 2)) for note in notes if note]
    _print([*parts, Text("")], console)


def _rows(result: Trial) -> Iterator[tuple[str, str]]:
    """Label and text of each line."""
    yield "fix", result.fix.title if result.fix else ""
    yield "finding", result.fix.diagnosis if result.fix else ""
    yield "measured", _measured(result)
    yield "predicted", _interval(result.predicted_low_ns, result.predicted_high_ns)
    method = _METHOD.get(result.method, "").format(pairs=result.pairs)
    yield "how", f"{method}; {result.statistic} step" if method else ""
    yield "changed", one_line("; ".join(result.changed))
    yield "losses", result.losses if result.method else ""


def _measured(result: Trial) -> str:
    """The gain with its interval, of the step."""
    if result.gain_ns is None or result.step_ns is None:
        return ""
    low, high = (_signed(ns) for ns in (result.low_ns, result.high_ns))
    return f"{_signed(result.gain_ns)} ({low} to {high}) of {format_ns(result.step_ns)}"


def _signed(ns: int | None) -> str:
    return "" if ns is None else f"{'-' if ns < 0 else ''}{format_ns(abs(ns))}"


def _interval(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return ""
    return f"{format_ns(low)} to {format_ns(high)}"


def render_fixes(
    fixes: Sequence[tuple[str, str, str, Sequence[str]]], console: Console | None = None
) -> None:
    """Print all fixes.

    Args:
        fixes: Name, title, meaning of the argument ('' for none), and diagnoses of each.
        console: Console to print to; None for standard output.
    """
    rows = []
    for name, title, value, diagnoses in fixes:
        argument = f" (=VALUE: {value})" if value else ""
        fixed = f"; for {', '.join(diagnoses)}" if diagnoses else ""
        rows.append((name, f"{title}{argument}{fixed}"))
    _print([_table(rows)], console)


def _table(rows: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(Text(label, "dim"), Text(text))
    return table


def _print(parts: Sequence[RenderableType], console: Console | None) -> None:
    console = console or Console()
    ascii_only = console.options.ascii_only
    console.print(Finish(Group(*parts), ascii_only=ascii_only), width=min(console.width, _WIDEST))
