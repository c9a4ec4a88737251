"""The closed breakdown of a step by line of the program.

Each category of the breakdown is divided among the lines that cause it. What no line can be
credited with is a row of its own, and so are collectives.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.lines.driver_lines import carried_parts
from stepwhy.analyse.lines.line_modules import MOST, line_modules
from stepwhy.analyse.lines.line_shares import NOBODY, Owner, credited
from stepwhy.analyse.lines.slice_lines import traced_lines
from stepwhy.analyse.lines.timed_lines import timed_parts
from stepwhy.result import CATEGORIES, LineBreakdown, LineOperation, LineTime
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepwhy.analyse.facts import Facts

    RowKind = Literal["line", "communication", "uncredited"]

# Operations of a line that a result names.
_OPERATIONS = 5


class _Row(msgspec.Struct):
    """What a row of the result adds up; times in ns of the mean step."""

    categories: Counter[str] = msgspec.field(default_factory=Counter)
    phases: Counter[str] = msgspec.field(default_factory=Counter)
    operations: Counter[Owner] = msgspec.field(default_factory=Counter)


def line_breakdown(facts: Facts) -> LineBreakdown | None:
    """The mean steady step by line; None if the trace names none, or explains no time."""
    if not _names_lines(facts) or facts.breakdown["unexplained"] == facts.wall_ns:
        return None
    rows: defaultdict[tuple[RowKind, str], _Row] = defaultdict(_Row)
    counts: Counter[Owner] = Counter()
    for category in CATEGORIES:
        found = credited(facts, category)
        counts.update(found.counts)
        times = _divided(facts.breakdown[category], found.shares)
        for owner, time_ns in times.items():
            if time_ns:
                _add(rows[_key(owner, category)], owner, category, time_ns)
    if not any(kind == "line" for kind, _ in rows):
        return None
    lines = [_line(*key, row, counts, facts.steady_count) for key, row in rows.items()]
    lines.sort(key=lambda line: (-line.time_ns, line.kind, line.line))
    if lines[0].kind == "line" and lines[0].time_ns > MOST * facts.wall_ns:
        modules = line_modules(facts, lines[0].line, lines[0].categories)
        lines[0] = replace(lines[0], modules=modules)
    return LineBreakdown(facts.wall_ns, tuple(lines), _source(facts))


def _names_lines(facts: Facts) -> bool:
    """Whether anything in the trace may name a line."""
    trace = facts.trace
    return bool(len(trace.line_times) or len(trace.samples) or (trace.slices.source != NULL).any())


def _key(owner: Owner, category: str) -> tuple[RowKind, str]:
    """The row of the result that time of a category belongs to."""
    if category == "communication":
        return "communication", ""
    return ("uncredited", "") if owner == NOBODY else ("line", owner.line)


def _divided(total_ns: int, shares: Mapping[Owner, float]) -> dict[Owner, int]:
    """A time in whole ns by share; what rounding leaves goes to the largest."""
    scale = sum(shares.values())
    times = {owner: int(total_ns * share / scale) for owner, share in shares.items()}
    largest = max(times, key=lambda owner: (times[owner], owner))
    times[largest] += total_ns - sum(times.values())
    return times


def _add(row: _Row, owner: Owner, category: str, time_ns: int) -> None:
    row.categories[category] += time_ns
    if category == "compute":
        row.phases[owner.phase.name.lower()] += time_ns
    if owner.operation:
        row.operations[owner] += time_ns


def _line(kind: RowKind, text: str, row: _Row, counts: Mapping[Owner, int], steps: int) -> LineTime:
    """One row of the result, with its longest operations."""
    longest = sorted(row.operations.items(), key=lambda item: (-item[1], item[0]))[:_OPERATIONS]
    return LineTime(
        text,
        kind,
        row.categories.total(),
        {c: row.categories[c] for c in CATEGORIES if row.categories[c]},
        dict(sorted(row.phases.items())),
        tuple(_operations(longest, counts, steps)),
    )


def _operations(
    longest: Iterable[tuple[Owner, int]], counts: Mapping[Owner, int], steps: int
) -> list[LineOperation]:
    return [
        LineOperation(
            owner.operation, owner.phase.name.lower(), counts[owner] / max(steps, 1), time_ns
        )
        for owner, time_ns in longest
    ]


def _source(facts: Facts) -> Literal["clock", "record", "samples"]:
    """How the lines are known."""
    if facts.derived(carried_parts) is not None:
        return "clock"
    if (facts.derived(traced_lines) != NULL).any():
        return "record"
    return "samples" if facts.derived(timed_parts) is None else "clock"
