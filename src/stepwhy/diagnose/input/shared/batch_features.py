"""Time of lines in the step that compute from the batch alone, such as a spectrogram."""

from __future__ import annotations

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.by_line import line_breakdown
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.diagnose.shared.measure import Group
from stepwhy.trace import NULL

# Source: `stepwhy.record.watchers.batch_lines` and `stepwhy.record.torch.batch_lines`.
_EVENT = "batch-line"
_WORK = ("compute", "dispatch")


def batch_features(facts: Facts) -> list[Group]:
    """Lines whose operations read neither weights nor random numbers, and their time, ns per step.

    The longest comes first; empty if no such line is known, or if the input pipeline draws random
    numbers: then the batch is new in each epoch, and so is what is computed from it.
    """
    events = facts.trace.events
    changing = events.reason[rows_of_kinds(facts.trace, "changing-lines")]
    if (changing != NULL).any() or (facts.trace.stages.random == 1).any():
        return []
    known = set(events.source[rows_of_kinds(facts.trace, _EVENT)].tolist()) - {NULL}
    lines = facts.derived(line_breakdown) if known else None
    if lines is None:
        return []
    names = {facts.trace.string(name) for name in known}
    found = (
        Group(row.line, 1, sum(row.categories.get(category, 0) for category in _WORK))
        for row in lines.lines
        if row.kind == "line" and row.line in names
    )
    return sorted((one for one in found if one.total_ns), key=lambda one: -one.total_ns)
