"""Step time of the runs of a program by date or commit, as geometry for an inline SVG."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from stepwhy.apps.serve.summaries import copies
from stepwhy.apps.serve.times import date_text
from stepwhy.base.units import format_ns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.apps.serve.filters import Axis
    from stepwhy.apps.serve.summaries import Entry

WIDTH, HEIGHT = 720, 120
_MARGIN = 10  # so that dots at the edges are whole
_MOST_CHARTS = 6
# The axis begins at zero unless all runs are within this ratio; then their differences are small.
_ALIKE = 1.5
# Medians within this ratio are one line of text, as `stepwhy compare` tells no smaller change.
_FLAT = 1.03
_MOST_GROUPS = 100
_COMMIT_DIGITS = 10


class Dot(msgspec.Struct, frozen=True):
    """One run: its median step, with a line from the 10th to the 90th percentile."""

    x: float
    y: float
    low_y: float
    high_y: float
    id: str
    text: str


class Group(msgspec.Struct, frozen=True):
    """Runs at one place of the axis, for the table.

    Args:
        label: Date or commit.
        runs: Number of runs.
        median: Median of their median steps, as text.
    """

    label: str
    runs: int
    median: str


class Trend(msgspec.Struct, frozen=True):
    """The chart of one program.

    Args:
        program: Its name.
        dots: Its runs, from left to right.
        commands: Number of different commands among them.
        groups: The same as a table, at most 100 rows, newest last.
        top, bottom: Values at the edges, as text.
        from_zero: Whether the axis begins at zero.
        flat: Lowest and highest median step, as text, if they hardly differ; '' if they do.
        first, last: Labels of the ends of the axis.
        median_y: Height of the median of all runs.
    """

    program: str
    dots: tuple[Dot, ...]
    commands: int
    groups: tuple[Group, ...]
    top: str
    bottom: str
    from_zero: bool
    flat: str
    first: str
    last: str
    median_y: float
    width: int = WIDTH
    height: int = HEIGHT


def trends(entries: Sequence[Entry], axis: Axis) -> tuple[list[Trend], int]:
    """Charts of the programs with at least two timed runs, most runs first.

    Args:
        entries: The entries, in any order.
        axis: 'date', or 'commit': runs of one commit share a place, in the order in which the
            commits first ran, and runs without one are left out.

    Returns:
        At most six charts, and the number of timed runs that are in none. Copies of a run do not
        count.
    """
    copied = copies(entries)
    runs_with_times = (e for e in entries if e.summary.median_ns is not None and e.summary.program)
    timed = [entry for entry in runs_with_times if entry.path not in copied]
    programs: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in sorted(timed, key=lambda e: (e.summary.time_ns, e.path)):
        if axis == "date" or entry.summary.commit:
            programs[entry.summary.program].append(entry)
    runs = sorted(programs.items(), key=lambda item: (-len(item[1]), item[0]))
    charts = [_trend(name, own, axis) for name, own in runs if len(own) > 1][:_MOST_CHARTS]
    return charts, len(timed) - sum(len(chart.dots) for chart in charts)


def _trend(program: str, entries: Sequence[Entry], axis: Axis) -> Trend:
    labels = [_label(entry, axis) for entry in entries]
    groups: defaultdict[str, list[Entry]] = defaultdict(list)
    for number, (entry, label) in enumerate(zip(entries, labels, strict=True)):
        groups[label if axis == "commit" else str(number)].append(entry)
    values = [_median(entry) for entry in entries]
    # An outlier of a 90th percentile would flatten the chart.
    top = max(
        *(e.summary.p90_ns or 0 for e in entries if (e.summary.p90_ns or 0) <= 2 * _median(e)),
        *values,
    )
    from_zero = max(values) > _ALIKE * min(values)
    bottom = 0.0 if from_zero else 0.9 * min(values)
    scale = _Scale(bottom, 1.02 * top)
    places = _places(len(groups))
    dots = tuple(
        _dot(entry, place, scale)
        for place, own in zip(places, groups.values(), strict=True)
        for entry in own
    )
    rows = [
        Group(_label(own[0], axis), len(own), format_ns(median(map(_median, own))))
        for own in groups.values()
    ]
    return Trend(
        program,
        dots,
        commands=len({entry.summary.command for entry in entries}),
        groups=tuple(rows[-_MOST_GROUPS:]),
        top=format_ns(scale.top),
        bottom=format_ns(bottom) if bottom else "0",
        from_zero=from_zero,
        flat=_flat(values),
        first=rows[0].label,
        last=rows[-1].label,
        median_y=scale.y(median(values)),
    )


def _flat(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    if high > _FLAT * low:
        return ""
    texts = dict.fromkeys((format_ns(low), format_ns(high)))
    return " to ".join(texts)


class _Scale(msgspec.Struct, frozen=True):
    """Step times at the bottom and at the top of the chart, ns."""

    bottom: float
    top: float

    def y(self, value: float) -> float:
        """Distance from the top, within the chart."""
        share = (value - self.bottom) / ((self.top - self.bottom) or 1)
        inside = min(max(share, 0.0), 1.0)
        return round(_MARGIN + (HEIGHT - 2 * _MARGIN) * (1 - inside), 1)


def _places(count: int) -> list[float]:
    if count == 1:
        return [WIDTH / 2]
    step = (WIDTH - 2 * _MARGIN) / (count - 1)
    return [round(_MARGIN + number * step, 2) for number in range(count)]


def _dot(entry: Entry, x: float, scale: _Scale) -> Dot:
    summary = entry.summary
    commit = f", commit {summary.commit[:_COMMIT_DIGITS]}" if summary.commit else ""
    text = f"{entry.name}: {format_ns(_median(entry))}, {date_text(summary.time_ns)}{commit}"
    return Dot(
        x,
        scale.y(_median(entry)),
        low_y=scale.y(summary.p10_ns or _median(entry)),
        high_y=scale.y(summary.p90_ns or _median(entry)),
        id=entry.id,
        text=text,
    )


def _median(entry: Entry) -> int:
    return entry.summary.median_ns or 0


def _label(entry: Entry, axis: Axis) -> str:
    if axis == "commit":
        return entry.summary.commit[:_COMMIT_DIGITS]
    return date_text(entry.summary.time_ns)
