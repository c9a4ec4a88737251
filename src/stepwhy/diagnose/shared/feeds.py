"""Values that a session is fed with, and values that are fetched from it."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.session_parts import SessionParts, find_session_parts
from stepwhy.diagnose.shared.rule import Rule
from stepwhy.result import Finding
from stepwhy.trace import NULL

# ns; a run takes 0.1 to 0.3 ms before its first operation and after its last one, whatever is fed.
CALL_NS = 300_000
# ns; on a busy machine that takes up to 0.6 ms, so a lower cost may be part of the run itself.
LEAST_NS = 600_000

# Bytes per second, in the placeholder's type. A list was converted at 180 MB/s, an array cast at 2
# GB/s and copied at 6 GB/s on a quiet core; if it takes ten times
# as long, the cause is something else.
_SLOWEST_FED = {"items": 2e7, "cast": 2e8, "copy": 6e8}
# Variables were copied at 4 to 5 GB/s on a quiet core; if it takes ten times as long, the cause is
# something else.
_SLOWEST_FETCHED = dict.fromkeys(("items", "cast", "copy"), 4e8)


class SessionValue(msgspec.Struct, frozen=True):
    """A value that is fed or fetched, per mean steady step.

    Args:
        name: Name of its tensor in the graph.
        python_type: Type in Python, such as 'float64' or 'list of float'; '' if unknown.
        graph_type: Type of the placeholder of a fed value; '' if unknown.
        bytes: Size per step; None if unknown.
        is_constant: Whether it was the same in all of several recorded steps.
    """

    name: str
    python_type: str
    graph_type: str
    bytes: int | None
    is_constant: bool = False

    @property
    def kind(self) -> str:
        """How it is converted: 'items' one by one, 'cast' to another type, or 'copy'."""
        if " of " in self.python_type and not self.python_type.endswith("array"):
            return "items"
        is_cast = self.graph_type and self.graph_type not in self.python_type.split()
        return "cast" if is_cast else "copy"


def parts_or_reason(rule: Rule, facts: Facts) -> SessionParts | Finding:
    """Parts of the steps, or the finding that a diagnosis of sessions abstains with.

    Args:
        rule: Rule of the diagnosis.
        facts: Facts of the run.
    """
    if facts.trace.meta.framework not in {"tensorflow", ""}:
        return rule.not_applicable("The run does not use TensorFlow.")
    parts = find_session_parts(facts)
    if parts is not None:
        return parts
    marks = facts.trace.marks
    if len(marks) and (marks.graph_ns == NULL).all():
        return rule.not_applicable("The steps of the run are not runs of a session.")
    return rule.lacks("session-runs")


def session_values(facts: Facts, *, fed: bool) -> list[SessionValue]:
    """Values that the steps feed or fetch, largest first.

    Args:
        facts: Facts of the run.
        fed: Return the fed values; otherwise, the fetched ones.
    """
    trace, table = facts.trace, facts.trace.session_values
    inside = facts.steps.in_steady(trace.slices.start_ns[table.slice])
    sizes: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    marks: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row in ((table.fed == int(fed)) & inside).nonzero()[0]:
        names = (table.name[row], table.python_type[row], table.graph_type[row])
        name, python_type, graph_type = (trace.string(int(text)) for text in names)
        sizes[name, python_type, graph_type].append(int(table.bytes[row]))
        marks[name, python_type, graph_type].append(int(table.fingerprint[row]))
    found = [
        SessionValue(
            *key,
            bytes=None if NULL in parts else facts.mean_ns(sum(parts)),
            is_constant=min(facts.steady_count, len(parts)) > 1
            and len(set(marks[key])) == 1
            and NULL not in marks[key],
        )
        for key, parts in sizes.items()
    ]
    return sorted(found, key=lambda each: -(each.bytes or 0))


def feeding_ns(parts: SessionParts, fed: list[SessionValue]) -> float:
    """Time before the first operation, as far as the fed values explain it, ns."""
    return min(parts.before_ns - CALL_NS, _longest_ns(fed, _SLOWEST_FED))


def fetching_ns(parts: SessionParts, fetched: list[SessionValue]) -> float:
    """Time after the last operation, as far as the fetched values explain it, ns."""
    return min(parts.after_ns - CALL_NS, _longest_ns(fetched, _SLOWEST_FETCHED))


def _longest_ns(values: list[SessionValue], bytes_per_s: dict[str, float]) -> float:
    """Upper bound for the time to convert and copy values, ns; infinite if a size is unknown.

    Args:
        values: The values.
        bytes_per_s: The slowest rate of each `SessionValue.kind`.
    """
    if any(value.bytes is None for value in values):
        return float("inf")
    return sum((value.bytes or 0) / bytes_per_s[value.kind] * 1e9 for value in values)
