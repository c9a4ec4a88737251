"""Predicted and measured gains of the lab's fixes in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.base.units import format_fraction
from stepwhy.show.accuracy import error_of, sentences, why_left_out
from stepwhy.show.console import Text
from stepwhy.show.terminal.measurement import print_parts

if TYPE_CHECKING:
    from stepwhy.result import Accuracy, PairAccuracy
    from stepwhy.show.console import Console


def render_accuracy(accuracy: Accuracy, console: Console | None = None) -> None:
    """Print a line per pair, and a summary; steps after the fix as shares of those before it.

    Args:
        accuracy: What to report.
        console: Console to print to; None for standard output.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("pair", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for name in ("predicted", "measured", "error"):
        table.add_column(name, justify="right", no_wrap=True)
    for pair in accuracy.pairs:
        table.add_row(*_cells(pair))
    texts = [*sentences(accuracy), *_left_out(accuracy)]
    lines = [Padding(Text(line), (0, 0, 0, 2)) for line in texts]
    print_parts([Text(""), Padding(table, (0, 0, 1, 2)), *lines, Text("")], console)


def _left_out(accuracy: Accuracy) -> list[str]:
    """The pairs that do not count, by reason."""
    by_reason: dict[str, list[str]] = {}
    for pair in accuracy.pairs:
        if reason := why_left_out(pair):
            by_reason.setdefault(one_line(reason), []).append(one_line(pair.name))
    return [f"{reason} {', '.join(names)}" for reason, names in by_reason.items()]


def _cells(pair: PairAccuracy) -> tuple[Text, ...]:
    colour = {True: "green", False: "red", None: ""}[pair.is_inside]
    error = error_of(pair)
    return (
        Text(one_line(pair.name), colour),
        Text(pair.inputs.family if pair.inputs else ""),
        Text(_interval(pair)),
        Text(_share(pair, pair.measured_ns) if pair.step_ns else ""),
        Text("" if error is None else format_fraction(error)),
    )


def _interval(pair: PairAccuracy) -> str:
    if pair.low_ns is None or pair.high_ns is None:
        return ""
    return f"{_share(pair, pair.low_ns)} to {_share(pair, pair.high_ns)}"


def _share(pair: PairAccuracy, time_ns: int) -> str:
    return format_fraction(time_ns / max(pair.step_ns, 1))
