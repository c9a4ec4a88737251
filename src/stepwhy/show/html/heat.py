"""Heat maps of ranks and steps, as geometry for inline SVGs and as tables."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.result import RankSteps

LEVELS = 8
"""Number of shades."""
# The darkest shade is at least this share of the usual work above the palest, so that small
# variations between healthy ranks look alike.
_LEAST_RANGE = 0.1
# More labels beside the rows would touch each other.
_MOST_LABELS = 16
_TALL, _FLAT = 14, 7  # heights of rows in pixels, of few and of many
_FEW = 24


class Shade(msgspec.Struct, frozen=True):
    """All cells of one shade: its level, 1 to `LEVELS`, and an SVG path in units of cells."""

    level: int
    path: str


class HeatMap(msgspec.Struct, frozen=True):
    """One map.

    Args:
        name: 'work' or 'wait', for its colour.
        title: What it shows.
        shades: Its cells; those of the palest shade are left out.
        least, most: What the palest and the darkest shade stand for, in words.
        cells: The times in words, by row and column.
        summary: What somebody sees who looks at it, in a sentence.
    """

    name: str
    title: str
    shades: tuple[Shade, ...]
    least: str
    most: str
    cells: tuple[tuple[str, ...], ...]
    summary: str


class HeatMaps(msgspec.Struct, frozen=True):
    """Both maps, whose rows and columns are the same.

    Args:
        maps: Work, and waits.
        rows: Names of the rows.
        columns: Names of the columns.
        labels: Names beside the rows, '' for rows without.
        height: Height of a row in pixels.
        first, last: Names of the first and the last step.
        note: What a row or a column stands for; '' if they are single ranks and steps.
    """

    maps: tuple[HeatMap, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    height: int
    first: str
    last: str
    note: str


def heat_maps(steps: RankSteps | None) -> HeatMaps | None:
    """The maps of a run; None if its ranks are not compared."""
    if steps is None:
        return None
    rows = tuple(_name(row.ranks) for row in steps.rows)
    columns = tuple(
        f"step {first}" if steps.per_column == 1 else f"{steps.per_column} steps from {first}"
        for first in steps.steps
    )
    work = [row.work_ns for row in steps.rows]
    wait = [row.wait_ns for row in steps.rows]
    usual = median(ns for row in work for ns in row)
    low, high = min(map(min, work)), max(map(max, work))
    every = -(-len(steps.rows) // _MOST_LABELS)
    texts = [f"{row.ranks[0]}{'…' if len(row.ranks) > 1 else ''}" for row in steps.rows]
    return HeatMaps(
        maps=(
            _map("work", "Works", work, (low, max(high, low + _LEAST_RANGE * usual)), steps),
            _map("wait", "Waits", wait, (0, max(*map(max, wait), _LEAST_RANGE * usual)), steps),
        ),
        rows=rows,
        columns=columns,
        labels=tuple("" if place % every else text for place, text in enumerate(texts)),
        height=_TALL if len(rows) <= _FEW else _FLAT,
        first=columns[0],
        last=columns[-1],
        note=_note(steps),
    )


def _map(
    name: str,
    title: str,
    times: Sequence[Sequence[int]],
    span: tuple[float, float],
    steps: RankSteps,
) -> HeatMap:
    low, high = span
    levels = [[round(LEVELS * (ns - low) / max(high - low, 1)) for ns in row] for row in times]
    longest = max(range(len(times)), key=lambda place: sum(times[place]))
    mean = units.format_ns(sum(times[longest]) / len(times[longest]))
    middle = units.format_ns(median(ns for row in times for ns in row))
    who = _name(steps.rows[longest].ranks)
    summary = f"{title} longest: {who}, {mean} in the mean step; the median of all is {middle}"
    return HeatMap(
        name,
        title,
        tuple(_shades(levels)),
        units.format_ns(low),
        units.format_ns(high),
        tuple(tuple(map(units.format_ns, row)) for row in times),
        summary,
    )


def _shades(levels: Sequence[Sequence[int]]) -> list[Shade]:
    """The cells by level; neighbours of one level are drawn together."""
    paths: dict[int, list[str]] = {}
    for y, row in enumerate(levels):
        begin = 0
        for x in range(1, len(row) + 1):
            if x == len(row) or row[x] != row[begin]:
                rectangle = f"M{begin} {y}h{x - begin}v1h{begin - x}z"
                paths.setdefault(row[begin], []).append(rectangle)
                begin = x
    return [Shade(level, "".join(paths[level])) for level in sorted(paths) if level > 0]


def _name(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return f"{units.format_count(len(ranks))} ranks from {ranks[0]} to {ranks[-1]}"


def _note(steps: RankSteps) -> str:
    several = [row for row in steps.rows if len(row.ranks) > 1]
    parts = []
    if several:
        alone = len(steps.rows) - len(several)
        parts.append(
            f"The first {alone} rows are the ranks that work longest for a step, compared with the "
            "others; each further row is the median of several ranks."
        )
    if steps.per_column > 1:
        parts.append(f"Each column is the mean of {steps.per_column} steps.")
    return " ".join(parts)
