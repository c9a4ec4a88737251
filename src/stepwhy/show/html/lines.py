"""The breakdown by line of the program as rows with bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.show import lines, words

if TYPE_CHECKING:
    from stepwhy.result import LineBreakdown, LineTime, Result


class Segment(msgspec.Struct, frozen=True):
    """A part of a bar.

    Args:
        name: Phase or category, in words.
        style: Class of its colour.
        width: Percent of the longest row.
        text: What it stands for, with its share of the step.
    """

    name: str
    style: str
    width: float
    text: str


class LineRow(msgspec.Struct, frozen=True):
    """A row of the table.

    Args:
        name: The line, or what else the time belongs to.
        is_line: Whether it is a line.
        what: What it does, in words.
        time, share: Its part of the step.
        bar: The parts of its bar.
        operations: Name, time and share of its modules, or else its operations, if it takes most
            of the step.
    """

    name: str
    is_line: bool
    what: str
    time: str
    share: str
    bar: tuple[Segment, ...]
    operations: tuple[tuple[str, str, str], ...]


class LineTable(msgspec.Struct, frozen=True):
    """The whole section.

    Args:
        title: Its heading.
        rows: The first rows.
        more: The others.
        key: Name and class of each colour.
        note: What is left out, and how the lines are known; '' for nothing.
    """

    title: str
    rows: tuple[LineRow, ...]
    more: tuple[LineRow, ...]
    key: tuple[tuple[str, str], ...]
    note: str


def line_table(result: Result) -> LineTable | None:
    """The lines that take most of the step; None if no line is known."""
    breakdown = result.lines
    if breakdown is None:
        return None
    shown = lines.chosen(breakdown, lines.MOST)
    first = len(lines.chosen(breakdown, lines.SHOWN))
    rows = tuple(_row(line, breakdown) for line in shown)
    key = dict.fromkeys((part.name, part.style) for row in rows for part in row.bar)
    return LineTable(
        lines.lines_title(result),
        rows[:first],
        rows[first:],
        tuple(key),
        lines.rest_sentence(breakdown, shown),
    )


def _row(line: LineTime, breakdown: LineBreakdown) -> LineRow:
    wall = breakdown.wall_ns
    longest = breakdown.lines[0].time_ns
    is_most = lines.is_most(line, wall)
    return LineRow(
        lines.line_name(line),
        line.kind == "line",
        lines.what_it_does(line, with_operations=not is_most),
        words.format_like(line.time_ns, wall),
        words.share(line.time_ns, wall),
        tuple(_segment(part, wall, longest) for part in lines.parts(line)),
        tuple(
            (name, words.format_like(ns, wall), words.share(ns, wall))
            for name, ns in (lines.inside(line) if is_most else ())
        ),
    )


def _segment(part: lines.LinePart, wall_ns: int, longest_ns: int) -> Segment:
    is_phase = part.kind == "phase"
    style = f"p-{part.key}" if is_phase and part.key in _PHASES else f"c-{_category(part)}"
    text = f"{part.name}: {words.share(part.time_ns, wall_ns)}"
    return Segment(part.name, style, round(100 * part.time_ns / max(longest_ns, 1), 2), text)


_PHASES = ("forward", "backward", "optimizer")


def _category(part: lines.LinePart) -> str:
    return "compute" if part.kind == "phase" else part.key
