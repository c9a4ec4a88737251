"""Whether the cost of a finding may lie on a line of the program."""

from __future__ import annotations

from collections.abc import Iterable

from stepwhy.base.patterns import regex
from stepwhy.result import Finding, LineBreakdown, LineTime

MAIN_PART = 0.5  # of a cost; where less than this can be on the line, the cost is elsewhere

# The category of the breakdown that an edit shortens.
_CATEGORIES = {
    "input": ("input_wait",),
    "copies": ("transfer",),
    "syncs": ("sync",),
    "communication": ("communication",),
    "compile": ("compile",),
    "dispatch": ("dispatch",),
    "launches": ("dispatch",),
    "python": ("python",),
    "storage": ("storage",),
    "ops": ("compute", "dispatch"),
    "kernels": ("compute", "dispatch"),
}
_OPERATIONS = ("ops", "kernels")
_LINE = regex(r".+\(\d+\): .+")


def may_be_of(finding: Finding, row: LineTime, lines: LineBreakdown) -> bool:
    """Whether most of what a finding costs may be time of a line; True if it is not known where.

    Args:
        finding: The finding.
        row: The line.
        lines: The breakdown that it is a row of.
    """
    cost_ns, edit = finding.cost_ns_per_step, finding.edit
    if not cost_ns or any(one.where == row.line for one in finding.evidence):
        return True
    if _elsewhere_ns(finding, row.line) >= MAIN_PART * cost_ns:
        return False
    if edit is None or edit.what not in _CATEGORIES:
        return True
    most_ns = sum(row.categories.get(name, 0) for name in _CATEGORIES[edit.what])
    if edit.what in _OPERATIONS:
        most_ns = min(most_ns, _of_operations_ns(finding, row, lines))
    return most_ns >= MAIN_PART * cost_ns


def _elsewhere_ns(finding: Finding, line: str) -> float:
    """Time of the finding at other lines, ns."""
    return sum(
        float(one.value)
        for one in finding.evidence
        if one.unit == "ns" and one.where != line and _LINE.fullmatch(one.where)
    )


def _of_operations_ns(finding: Finding, row: LineTime, lines: LineBreakdown) -> int:
    """Most time that the line can spend in the operations that a finding is about, ns."""
    times = {one.where: float(one.value) for one in finding.evidence if one.unit == "ns"}
    named = {
        where
        for where in filter(None, times)
        if any(_is_among(one.name, (where,)) for other in lines.lines for one in other.operations)
    }
    # A finding may name kernels where lines have operations, or only some of its operations.
    if sum(times[where] for where in named) < MAIN_PART * (finding.cost_ns_per_step or 0):
        return row.time_ns
    known_ns = sum(one.time_ns for one in row.operations)
    own_ns = sum(one.time_ns for one in row.operations if _is_among(one.name, named))
    # Only the longest operations of a line are known by name.
    return own_ns + row.time_ns - known_ns


def _is_among(name: str, named: Iterable[str]) -> bool:
    """Whether an operation is one of some, or calls or is called by one: names contain others."""
    bare = name.rpartition("::")[2]
    return any(bare in other or other.rpartition("::")[2] in name for other in named)
