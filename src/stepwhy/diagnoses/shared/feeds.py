"""Values that are fed to and fetched from the runs of a session."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from stepwhy.diagnoses.shared.rule import missing
from stepwhy.passes.session_parts import find_session_parts
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from stepwhy.diagnoses.shared.rule import Rule
    from stepwhy.findings import Finding
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.session_parts import SessionParts

# Before its first operation, and after its last one, a run takes 0.1 to 0.3 ms, whatever it is fed.
CALL_NS = 300_000


class Handed(msgspec.Struct, frozen=True):
    """A value that is fed or fetched, per mean steady step.

    Args:
        name: In the graph.
        given: 'float64', 'list of float'; '' when unknown.
        wanted: Type in the graph of what is fed; '' when unknown.
        bytes: Per step; None when unknown.
    """

    name: str
    given: str
    wanted: str
    bytes: int | None

    @property
    def kind(self) -> str:
        """What has to be done with it: 'items' one by one, 'cast', or 'copy' as it is."""
        if " of " in self.given and not self.given.endswith("array"):
            return "items"
        return "cast" if self.wanted and self.wanted not in self.given.split() else "copy"


def parts_or_reason(rule: Rule, facts: Facts) -> SessionParts | Finding:
    """The parts of the steps, or why a diagnosis of sessions cannot look.

    Args:
        rule: Of the diagnosis.
        facts: Facts of the run.
    """
    if facts.trace.meta.framework not in {"tensorflow", ""}:
        return rule.not_applicable("The run trains without TensorFlow.")
    parts = find_session_parts(facts)
    if parts is not None:
        return parts
    marks = facts.trace.marks
    if len(marks) and (marks.graph_ns == NULL).all():
        return rule.not_applicable("The steps of the run are not runs of a session.")
    return rule.no_data(missing("session-runs"))


def handed(facts: Facts, *, fed: bool) -> list[Handed]:
    """What is fed to the runs of a step, or fetched from them; the largest first.

    Args:
        facts: Facts of the run.
        fed: Whether what is fed is asked for.
    """
    trace, table = facts.trace, facts.trace.handed
    inside = facts.steps.in_steady(trace.slices.start_ns[table.slice])
    sizes: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row in ((table.fed == int(fed)) & inside).nonzero()[0]:
        names = (table.name[row], table.given[row], table.wanted[row])
        name, given, wanted = (trace.string(int(text)) for text in names)
        sizes[name, given, wanted].append(int(table.bytes[row]))
    found = [
        Handed(*key, None if NULL in parts else facts.mean_ns(sum(parts)))
        for key, parts in sizes.items()
    ]
    return sorted(found, key=lambda each: -(each.bytes or 0))


def longest_ns(values: list[Handed], bytes_per_s: dict[str, float]) -> float:
    """The longest that handing over some values can take, ns.

    Args:
        values: The values; one of unknown size has no bound.
        bytes_per_s: The slowest rate of each `Handed.kind`.
    """
    if any(value.bytes is None for value in values):
        return float("inf")
    return sum((value.bytes or 0) / bytes_per_s[value.kind] * 1e9 for value in values)
