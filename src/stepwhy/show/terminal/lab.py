"""Results of a lab pair in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table

from stepwhy.base.text import one_line
from stepwhy.base.units import format_ns
from stepwhy.show.console import Console, Text
from stepwhy.show.terminal.measurement import print_parts, report_width, runs_picture, sentence_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from stepwhy.result import LabResult

_COLOURS = {True: "green", False: "red", None: "yellow"}  # of whether a pair passed


def render_lab(result: LabResult, console: Console | None = None) -> None:
    """Print the result of a pair: findings, and predicted and measured gain.

    Args:
        result: What to report.
        console: Console to print to; None for standard output.
    """
    console = console or Console()
    comparison = result.comparison
    first = f"{result.diagnosis} first in {result.found_first} of {result.faulty_runs} faulty runs"
    alarms = f"found in {result.false_alarms} of {result.fixed_runs} fixed ones"
    others = f" (other first findings: {', '.join(o or 'nothing' for o in result.other_first)})"
    void = "" if result.passed is not None else "Void, the machine was busy: "
    sentence = f"{void}{first}{others if result.other_first else ''}, {alarms}."
    parts = [
        *sentence_line(sentence, _COLOURS[result.passed]),
        Padding(Text(one_line(result.title), "dim"), (0, 0, 0, 2)),
        *runs_picture([comparison.a, comparison.b], report_width(console)),
        *_gain(result),
        *(Padding(Text(one_line(note), "yellow"), (1, 0, 0, 2)) for note in comparison.notes),
        Text(""),
    ]
    print_parts(parts, console)


def _gain(result: LabResult) -> Iterator[RenderableType]:
    """Table of the predicted and the measured gain per step."""
    table = Table.grid(padding=(0, 3, 0, 0))
    for has_figures in (True, True, False):
        table.add_column(no_wrap=has_figures)
    table.add_row(
        "predicted",
        _range(result.predicted_low_ns, result.predicted_high_ns),
        one_line(result.edit),
    )
    measured = _range(result.measured_low_ns, result.measured_high_ns)
    interval = f"95 %: {measured}" if result.measured_low_ns is not None else "a single pair"
    table.add_row("measured", _signed(result.measured_ns), interval)
    yield Text("\nGain per step", "bold")
    yield Padding(table, (0, 0, 0, 2))


def _range(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "none"
    return f"{_signed(low)} to {_signed(high)}"


def _signed(ns: int) -> str:
    return f"{'-' if ns < 0 else ''}{format_ns(abs(ns))}"
