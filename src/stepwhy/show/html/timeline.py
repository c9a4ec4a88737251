"""The timeline of the page: its data as text, and what its script needs to know."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units
from stepwhy.base.patterns import regex
from stepwhy.result.timeline import DRAWN_CATEGORIES, TimelineRow
from stepwhy.show import words
from stepwhy.show.html.call_tree import TreeView, tree_view
from stepwhy.show.html.predicted import Predicted, predicted_steps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepwhy.result import Evidence, Finding, Result
    from stepwhy.result.timeline import ClockMatch, Gap, Timeline, TimelineRow, TimelineSeries

# Slices that are evidence of nothing, such as named ranges.
_OTHER_COLOUR = "#8f9aa5"
# A pale shade of communication.
_WAIT_COLOUR = "#d9c4de"
# What an edit changes, where the category of the breakdown has another name.
_CATEGORY_OF_EDIT = {
    "input": "input_wait", "kernels": "compute", "ops": "compute", "copies": "transfer",
    "syncs": "sync", "launches": "dispatch", "memory": "dispatch",
}  # fmt: skip
# The longest slice of these shows what the finding is about. Which computation is meant, or what
# is unexplained, only a name can tell.
_TELLING = (
    "communication", "transfer", "input_wait", "compile", "sync", "dispatch", "python", "storage",
)  # fmt: skip
# Between the names of one piece of evidence: 'a/Conv2D, a/Relu and 8 more'.
_SEPARATOR = regex(r", | and \d+ more$")
# A slower drift cannot be seen.
_WORTH_A_WORD = 5e-8
_LINE = regex(r"\S+\(\d+\)(: \S+)?")


class Category(msgspec.Struct, frozen=True):
    """Label and colour of what a slice is drawn as."""

    label: str
    colour: str


class Jump(msgspec.Struct, frozen=True):
    """Where *Show in the timeline* jumps for a finding.

    Args:
        id: Id of the finding.
        names: Operations, nodes or lines; the first one that is in the timeline is shown.
        category: Category to show if none of them occurs; -1 for none.
    """

    id: str
    names: tuple[str, ...]
    category: int


class Run(msgspec.Struct, frozen=True):
    """The whole run, for its charts.

    Args:
        steps: Number of steps in the columns.
        first, last: Numbers of the first and the last steady step.
        median_ns: Median of the steady steps.
        changes: Numbers of the first steps after lasting changes of the step time.
        rows: What was sampled.
    """

    steps: int
    first: int
    last: int
    median_ns: int
    changes: tuple[int, ...]
    rows: tuple[TimelineRow, ...]


class Header(msgspec.Struct, frozen=True):
    """What the script reads; see `web/src/header.ts`."""

    span_ns: int
    rows: tuple[TimelineRow, ...]
    categories: tuple[Category, ...]
    predicted: tuple[Predicted, ...]
    jumps: tuple[Jump, ...]
    shortest_ns: int
    warm_up: int
    run: Run | None


class TimelineView(msgspec.Struct, frozen=True):
    """What the template shows.

    Args:
        header: The header as JSON that may stand in a script element.
        columns: Name and base64 text of each column.
        predicted: The fixes to choose from.
        legend: Categories that can occur.
        notes: What is not drawn one by one, in sentences.
        gaps: Longest times in which the device did not compute.
        series: What was sampled, as text.
        run: What was sampled over the whole run, as text; None if it has no charts.
        problem: Why there is no timeline, in words; '' if there is one.
        tree: What the flame graph and the call tree show; None without them.
    """

    header: str
    columns: tuple[tuple[str, str], ...]
    predicted: tuple[Predicted, ...]
    legend: tuple[Category, ...]
    notes: tuple[str, ...]
    gaps: tuple[Gap, ...]
    series: tuple[SeriesRow, ...] = ()
    run: tuple[SeriesRow, ...] | None = None
    problem: str = ""
    tree: TreeView | None = None


def timeline_view(timeline: Timeline | None, result: Result) -> TimelineView | None:
    """Template data of the timeline; None if there is none."""
    if timeline is None or not (timeline.rows or timeline.problem):
        return None
    if timeline.problem:
        return TimelineView("", (), (), (), (), (), problem=timeline.problem)
    found = [finding for finding in result.findings if finding.verdict == "found"]
    categories = (
        *(Category(one.label, one.colour) for one in words.CATEGORY_WORDS.values()),
        Category("other", _OTHER_COLOUR),
        Category("waits for other ranks", _WAIT_COLOUR),
    )
    predicted = predicted_steps(timeline, result)
    header = Header(
        timeline.span_ns,
        timeline.rows,
        categories,
        predicted,
        tuple(_jump(one) for one in found),
        timeline.shortest_ns,
        timeline.warm_up,
        _run(timeline, result),
    )
    return TimelineView(
        header=_as_script(msgspec.json.encode(header).decode()),
        columns=tuple(
            (name, base64.b64encode(data).decode()) for name, data in timeline.columns.items()
        ),
        predicted=predicted,
        legend=categories if timeline.has_waits else categories[:-1],
        notes=tuple(_notes(timeline)),
        gaps=timeline.gaps,
        series=series_rows(timeline.rows),
        run=None if header.run is None else series_rows(header.run.rows),
        tree=tree_view(timeline, result),
    )


def _run(timeline: Timeline, result: Result) -> Run | None:
    """What the script needs for charts of the run; None if these are not the result's steps."""
    run, steps = timeline.run, result.steps
    traced = sum(window.steps for window in steps.traced)
    if run is None or run.count != len(steps.durations_ns) + traced:
        return None
    described = next((one for one in steps.stretches if one.described), None)
    first, last = (described.first_step, described.last_step) if described else (1, run.count)
    return Run(
        run.steps,
        first + steps.warm_up,
        last,
        steps.median_ns,
        tuple(one.first_step for one in steps.stretches[1:]),
        run.rows,
    )


def _as_script(json: str) -> str:
    """JSON without the characters that could end a script element or begin a comment in it."""
    return json.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _jump(finding: Finding) -> Jump:
    names = [name for fact in finding.evidence for name in _names(fact)]
    what = finding.edit.what if finding.edit else ""
    category = _CATEGORY_OF_EDIT.get(what, what)
    place = DRAWN_CATEGORIES.index(category) if category in _TELLING else -1
    return Jump(finding.id, tuple(dict.fromkeys(names)), place)


def _names(fact: Evidence) -> Iterator[str]:
    """Operations, nodes and source lines that a piece of evidence names."""
    for part in _SEPARATOR.split(fact.where):
        yield from filter(None, (part, part.partition(" (")[0]))
    if fact.unit == "" and _LINE.fullmatch(str(fact.value)):
        yield str(fact.value)


def _notes(timeline: Timeline) -> list[str]:
    notes = []
    if timeline.merged:
        merged = units.format_count(timeline.merged)
        total = units.format_count(timeline.slices)
        notes.append(
            f"To keep the page small, {merged} of {total} slices, all shorter than "
            f"{units.format_ns(timeline.shortest_ns)}, are drawn together with their neighbours."
        )
    if timeline.unplaced:
        label = words.CATEGORY_WORDS[timeline.unplaced].label
        notes.append(
            f"The breakdown above contains more {label} than the timeline: stack samples of "
            "untraced steps show how much there is, but not when."
        )
    notes += _about_ranks(timeline)
    if timeline.aligned:
        notes.append("The clocks of the ranks do not agree; each rank begins at its first step.")
    if timeline.left_out:
        left_out = units.format_count(timeline.left_out)
        notes.append(
            f"{left_out} more counters are not shown; 'stepwhy export' writes all of them."
        )
    return notes


def _about_ranks(timeline: Timeline) -> list[str]:
    """Which ranks are drawn, and how well their times can be compared."""
    notes = []
    drawn, every = timeline.ranks
    if drawn < every:
        notes.append(
            f"{drawn} of {units.format_count(every)} ranks are drawn: those that the others wait "
            "for longest."
        )
    if timeline.match is not None:
        notes.append(_about_clocks(timeline.match))
    elif every > 1 and not timeline.aligned:
        notes.append(
            "Times of the ranks are drawn as their machines recorded them: collectives do not show "
            "how well these clocks agree."
        )
    return notes


def _about_clocks(match: ClockMatch) -> str:
    error = units.format_ns(match.spread_ns)
    if not match.differs:
        return f"The clocks of the ranks agree: collectives end on all of them within {error}."
    parts = [f"by up to {units.format_ns(match.offset_ns)}"]
    if match.drift >= _WORTH_A_WORD:
        parts.append(f"and by {1e6 * match.drift:.1f} µs per second")
    return (
        f"The clocks of the ranks differ {' '.join(parts)}. They are aligned by collectives, which "
        f"end on all ranks together: times of different ranks can be compared within {error}."
    )


class SeriesRow(msgspec.Struct, frozen=True):
    """One row of the table, all in words.

    Args:
        name: What was sampled, with the process or device.
        least, most: The smallest and the largest value.
        capacity: The largest possible value; '' if it is unknown.
        samples: Number of samples.
    """

    name: str
    least: str
    most: str
    capacity: str
    samples: str


def series_rows(rows: Iterable[TimelineRow]) -> tuple[SeriesRow, ...]:
    """Those rows of a timeline that show sampled values."""
    return tuple(_row(row, row.series) for row in rows if row.series is not None)


def _row(row: TimelineRow, series: TimelineSeries) -> SeriesRow:
    return SeriesRow(
        name=f"{row.group} · {row.title}" if row.group else row.title,
        least=_amount(series.least, series),
        most=_amount(series.most, series),
        capacity="" if series.capacity is None else _amount(series.capacity, series),
        samples=units.format_count(series.samples),
    )


def _amount(stored: int, series: TimelineSeries) -> str:
    """A value with its unit; the same as `amount` in `web/src/format.ts`."""
    value = stored * series.scale
    if series.unit == "bytes":
        return units.format_bytes(value)
    if series.unit == "bytes/s":
        return f"{units.format_bytes(value)}/s"
    number = units.format_count(value) if value == round(value) else f"{value:.3g}"
    return f"{number} {series.unit}".rstrip()
