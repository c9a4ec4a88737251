"""The breakdown by line of the program, and sampled lines, in words that all reports share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base import units
from stepwhy.base.text import one_line
from stepwhy.read.kernel_names.short import short_name
from stepwhy.show import words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepwhy.result import LineBreakdown, LineModule, LineTime, Result

SHOWN, MOST = 3, 30
"""Most lines in a report, and in one that shows everything; `stepwhy ops` lists them all."""

# A line with a larger share of the step says too little without the operations that it runs.
_MOST_OF_STEP = 0.8
_NAMED = 2  # operations
_MODULES = 6  # or operations, of a line with most of the step
_LEAST_REST = 0.01  # of the line's time
# Of the time of a line; smaller parts are not worth a name.
_LEAST_NAMED = 0.1
_ALL = 0.99  # needs no number

_NO_LINE = {
    "communication": "(communication between devices, which no single line causes)",
    "uncredited": "(line not known)",
}
_SOURCES = {
    "clock": "",
    "record": "",
    "samples": "From stack samples: a backward pass counts for the line that starts it.",
}
_PHASES = {"unknown": "compute", "other": "compute", "input": "input"}
_THREADS = {
    "driver": "The driving thread spends",
    "worker": "Workers spend",
    "thread": "Other threads spend",
}
_MOST_LINES = 3  # of those that were sampled, per role


class LinePart(msgspec.Struct, frozen=True):
    """A part of a line's time.

    Args:
        name: Phase of computation, or category, in words.
        kind: 'phase' or 'category'.
        key: Its name in the result.
        time_ns: Its time per step.
    """

    name: str
    kind: str
    key: str
    time_ns: int


def lines_title(result: Result) -> str:
    """Heading of the breakdown by line."""
    return f"Where in your program the {words.whole(result)} goes"


def line_name(line: LineTime) -> str:
    """'file(line): function', or what else the time belongs to."""
    return one_line(line.line) if line.kind == "line" else _NO_LINE[line.kind]


def parts(line: LineTime) -> list[LinePart]:
    """The time of a line by phase of computation and by category, longest first; it is closed."""
    named: Counter[tuple[str, str, str]] = Counter()
    for phase, ns in line.phases.items():
        name = _PHASES.get(phase, phase)
        named[name, "phase", "unknown" if name == "compute" else phase] += ns
    # Phases may be unknown for some of it.
    named["compute", "phase", "unknown"] += line.categories.get("compute", 0) - named.total()
    for category, ns in line.categories.items():
        if category != "compute":
            named[words.CATEGORY_WORDS[category].label, "category", category] += ns
    return [LinePart(*key, ns) for key, ns in named.most_common() if ns > 0]


def what_it_does(line: LineTime, *, with_operations: bool = True) -> str:
    """Phases, waits and operations of a line, with their shares of its time; '' if unknown."""
    if line.kind == "communication":
        return ""
    described = ", ".join(_shares({part.name: part.time_ns for part in parts(line)}, line.time_ns))
    operations = ", ".join(operation_shares(line)[:_NAMED]) if with_operations else ""
    return " · ".join(filter(None, (described, operations)))


def _shares(times: Mapping[str, int], whole_ns: int) -> list[str]:
    """'backward 60 %', without small parts; no number if it is all of it."""
    most = max(times.values(), default=0)
    if most >= _ALL * whole_ns:
        return [next(name for name, ns in times.items() if ns == most)]
    named = {name: ns for name, ns in times.items() if ns >= _LEAST_NAMED * whole_ns}
    return [f"{name} {words.share(ns, whole_ns)}" for name, ns in named.items()]


def operation_times(line: LineTime) -> list[tuple[str, int]]:
    """Operations that a line runs, whatever their phase, with their times, longest first."""
    times: Counter[str] = Counter()
    for operation in line.operations:
        times[one_line(short_name(operation.name))] += operation.time_ns
    return times.most_common()


def operation_shares(line: LineTime) -> list[str]:
    """Operations with their shares of the line's time, without small ones."""
    least = _LEAST_NAMED * line.time_ns
    return [
        f"{name} {words.share(ns, line.time_ns)}"
        for name, ns in operation_times(line)
        if ns >= least
    ]


def inside(line: LineTime) -> list[tuple[str, int]]:
    """What a line runs that takes most of the step: modules with operations, else operations."""
    if line.modules:
        named = [(_module_name(one), one.time_ns) for one in line.modules[:_MODULES]]
        rest = "(other modules)"
    else:
        named = operation_times(line)[:_MODULES]
        rest = "(other operations, and between operations)"
    rest_ns = line.time_ns - sum(ns for _, ns in named)
    return named + ([(rest, rest_ns)] if rest_ns >= _LEAST_REST * line.time_ns else [])


def _module_name(one: LineModule) -> str:
    operations: Counter[str] = Counter()
    for operation in one.operations:
        operations[one_line(short_name(operation.name))] += operation.time_ns
    shares = [
        f"{name} {words.share(ns, one.time_ns)}"
        for name, ns in operations.most_common(_NAMED)
        if ns >= _LEAST_NAMED * one.time_ns
    ]
    if not one.module:  # in which hardly any operations run
        by_label = {words.CATEGORY_WORDS[c].label: ns for c, ns in one.categories.items()}
        shares = _shares(dict(Counter(by_label).most_common()), one.time_ns)
    return " · ".join(filter(None, (one_line(one.module) or "(in no module)", ", ".join(shares))))


def is_most(line: LineTime, wall_ns: int) -> bool:
    """Whether a line takes so much of the step that its operations are worth rows."""
    return line.kind == "line" and line.time_ns > _MOST_OF_STEP * wall_ns


def chosen(breakdown: LineBreakdown, most: int) -> tuple[LineTime, ...]:
    """The longest lines, and what is longer than the last of them but belongs to no line."""
    lines = [place for place, row in enumerate(breakdown.lines) if row.kind == "line"]
    end = lines[most - 1] + 1 if len(lines) >= most else len(breakdown.lines)
    return breakdown.lines[:end]


def rest_sentence(breakdown: LineBreakdown, shown: Sequence[LineTime]) -> str:
    """How much the rows take that are not shown, and how the lines are known, if that matters.

    Args:
        breakdown: All rows.
        shown: The first ones.
    """
    rest = breakdown.lines[len(shown) :]
    return " ".join(filter(None, (_rest(breakdown, rest), _SOURCES[breakdown.source])))


def _rest(breakdown: LineBreakdown, rest: Sequence[LineTime]) -> str:
    count = sum(row.kind == "line" for row in rest)
    texts = [f"{units.format_count(count)} other line{'s' * (count != 1)}"] if count else []
    named = {"communication": "communication", "uncredited": "time without a known line"}
    texts += [named[row.kind] for row in rest if row.kind != "line"]
    if not texts:
        return ""
    total = sum(row.time_ns for row in rest)
    verb = "take" if len(texts) > 1 or count > 1 else "takes"
    return f"{' and '.join(texts).capitalize()} {verb} {words.share(total, breakdown.wall_ns)}."


def largest_lines(result: Result) -> list[str]:
    """The lines that take most of the step, each with its share."""
    if result.lines is None:
        return []
    lines = [row for row in result.lines.lines if row.kind == "line"][:SHOWN]
    wall = result.lines.wall_ns
    return [f"{line_name(row)} ({words.share(row.time_ns, wall)})" for row in lines]


def unknown_share(result: Result) -> float:
    """Share of the step for which no line is known, 0..1; 1 if none is."""
    if result.lines is None or not result.lines.wall_ns:
        return 1.0
    rest = sum(row.time_ns for row in result.lines.lines if row.kind == "uncredited")
    return rest / result.lines.wall_ns


def sampled_lines(result: Result) -> list[tuple[str, list[tuple[str, str]]]]:
    """Lines in which threads spend time: per role, start of the sentence and (share, line)."""
    lines = result.host.lines if result.host is not None else ()
    sentences = []
    for role, beginning in _THREADS.items():
        if role == "driver" and result.lines is not None:
            continue  # the breakdown by line says it
        own = [line for line in lines if line.role == role][:_MOST_LINES]
        if own:
            places = [(units.format_fraction(line.share), one_line(line.line)) for line in own]
            sentences.append((beginning, places))
    return sentences


def is_hottest_listed(result: Result) -> bool:
    """Whether the report already names the hottest line of the driving thread with its share."""
    if result.lines is not None:
        return True
    hottest = result.breakdown.hottest_line
    beginning = _THREADS["driver"]
    places = dict(sampled_lines(result)).get(beginning, [])
    return any(line == one_line(hottest) for _, line in places)


__all__ = [
    "MOST",
    "SHOWN",
    "LinePart",
    "chosen",
    "inside",
    "is_hottest_listed",
    "is_most",
    "largest_lines",
    "line_name",
    "lines_title",
    "operation_shares",
    "operation_times",
    "parts",
    "rest_sentence",
    "sampled_lines",
    "unknown_share",
    "what_it_does",
]
