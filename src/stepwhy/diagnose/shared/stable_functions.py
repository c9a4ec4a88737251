"""Time of functions of a data set that return the same for an element in each epoch."""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import Group
from stepwhy.trace import NULL

# Source: `stepwhy.record.torch.item_functions`.
_EVENT = "stable-functions"
_LINE = regex(r"(?P<file>.*)\(\d+\): (?P<function>.*)")
OF_FUNCTIONS = "share of the step in functions that return the same for an element in each epoch"
"""Evidence of `repeated-preprocessing`, with the line that takes longest."""


def stable_lines(facts: Facts) -> list[Group]:
    """Lines of such functions, and their time in the mean step while it waits for its batch, ns.

    The longest comes first; empty if no function is known to be one, or no line is known.
    """
    events, functions = facts.trace.events, set[str]()
    for row in rows_of_kinds(facts.trace, _EVENT).tolist():
        if events.reason[row] != NULL:
            functions.update(facts.trace.string(int(events.reason[row])).split("\n"))
    lines = facts.derived(line_breakdown) if functions else None
    if lines is None:
        return []
    found = (
        Group(row.line, 1, row.categories.get("input_wait", 0))
        for row in lines.lines
        if row.kind == "line" and _function(row.line) in functions
    )
    return sorted((one for one in found if one.total_ns), key=lambda one: -one.total_ns)


def could_be_kept(facts: Facts) -> bool:
    """Whether results of the data set could be kept from epoch to epoch."""
    return len(rows_of_kinds(facts.trace, "epoch")) > 1 and bool(stable_lines(facts))


def _function(line: str) -> str:
    match = _LINE.fullmatch(line)
    return f"{match['file']}: {match['function']}" if match else line
