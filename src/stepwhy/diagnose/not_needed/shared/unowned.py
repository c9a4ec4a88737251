"""Nodes of the backward pass that lead to no parameter of an optimizer."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.intervals import windows_at
from stepwhy.base.columns.nesting import outermost
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.not_needed.shared.backward_time import cost_per_step_ns, launched_within
from stepwhy.diagnose.shared.backward_nodes import is_node
from stepwhy.diagnose.shared.measure import steady, time_of
from stepwhy.trace import NULL

# Of a node with two products, of which one is not needed: both have as many multiplications.
_HALF = 0.5
_ACCUMULATES = "AccumulateGrad"
# Of a damaged log, a number may be of any length.
_RANGE = regex(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_COUNT = regex(r"\d{1,18}", re.ASCII)


class Unowned(msgspec.Struct, frozen=True):
    """What was seen in the steps in which graphs were walked.

    Args:
        unused: Slices of nodes that lead to no parameter of an optimizer; (nodes,).
        half: Slices of nodes of which one product is for such a parameter; (nodes,).
        nodes: Slices of all nodes in these steps; (nodes,).
        steps: Number of these steps.
        parameters: Modules with such parameters, and how many each has.
        dropped: Modules whose parameters have an optimizer, but whose gradients were cleared before
            it used them, and how many each has.
        line: Line of the program that runs the backward pass; '' if unknown.
        calls: Lines that call such modules, or the part of one that they are in.
        refusal: Why no graph was walked; '' if one was.
        left_out: Why a graph was not walked although others were; '' if all were.
    """

    unused: AnyRows
    half: AnyRows
    nodes: AnyRows
    steps: int
    parameters: tuple[tuple[str, int], ...] = ()
    dropped: tuple[tuple[str, int], ...] = ()
    line: str = ""
    calls: tuple[str, ...] = ()
    refusal: str = ""
    left_out: str = ""

    def cost_ns(self, facts: Facts) -> int:
        """Time of the mean step that they take, ns: their share of the backward pass."""
        unused, half, nodes = (
            _time_ns(facts, rows) for rows in (self.unused, self.half, self.nodes)
        )
        share = min((unused + _HALF * half) / max(nodes, 1), 1.0)
        if not share:
            return 0
        host = time_of(facts, _outer_nodes(facts))
        work = facts.in_steady(launched_within(facts, host))
        backward_ns = cost_per_step_ns(facts, host & steady(facts), work, facts.steady_count)
        return round(share * backward_ns)


def _time_ns(facts: Facts, nodes: AnyRows) -> int:
    """Time of some nodes: on accelerators, of their device work."""
    host = time_of(facts, nodes)
    rows = launched_within(facts, host) if facts.has_accelerator else nodes
    return time_of(facts, rows).total_ns


def _outer_nodes(facts: Facts) -> AnyRows:
    return outermost(facts.nesting, np.flatnonzero(is_node(facts)))


def find_unowned(facts: Facts) -> Unowned | None:
    """What the walks of graphs have found; None if none was recorded."""
    trace = facts.trace
    walks = rows_of_kinds(trace, "gradient-walk")
    if not len(walks):
        return None
    is_walked = trace.events.count[walks] != NULL
    walked, others = walks[is_walked], walks[~is_walked]
    # Why the first of the graphs that were not walked was not; '' without any.
    reasons = trace.events.reason[others[:1]].tolist()
    left_out = next((trace.string(why) or "of an unknown reason" for why in reasons), "")
    if not len(walked):
        return _refused(left_out)
    try:
        noted = [_noted(facts, walked, column) for column in ("name", "reason")]
    except ValueError:
        return _refused("the notes about it are damaged")
    nodes = _outer_nodes(facts)
    unused, half = (_are_among(facts, nodes, ranges) for ranges in noted)
    begins, ends = _spans(facts, trace.events.start_ns[walked])
    inside = windows_at(trace.slices.start_ns[nodes], begins, ends) != NULL
    return Unowned(
        nodes[_with_leaves(facts, nodes, unused)],
        nodes[half],
        nodes[inside],
        len(begins),
        _parameters(facts, "unowned-parameters"),
        _parameters(facts, "dropped-parameters"),
        _line(facts, walked),
        _calls(facts),
        left_out=left_out,
    )


def _line(facts: Facts, walks: AnyRows) -> str:
    """Line of the first walk that has found unused nodes, else of the first one; '' if unknown."""
    events, text = facts.trace.events, facts.trace.string
    found = [walk for walk in walks.tolist() if text(int(events.name[walk]))]
    sources = (int(events.source[walk]) for walk in (*found, *walks.tolist()))
    return next((text(source) for source in sources if source != NULL), "")


def _refused(why: str) -> Unowned:
    none = np.empty(0, dtype=np.int64)
    return Unowned(none, none, none, 1, refusal=why)


def _spans(facts: Facts, times_ns: Ints) -> tuple[Ints, Ints]:
    """From the first walk of each step to its end, ns; (steps,) each."""
    steps = facts.recorded_steps
    own = np.maximum(np.searchsorted(steps.starts, times_ns, side="right") - 1, 0)
    first = np.flatnonzero(np.append(True, own[1:] != own[:-1]))
    return times_ns[first], np.maximum(steps.ends[own[first]], times_ns[first])


def _noted(facts: Facts, walks: AnyRows, column: str) -> list[tuple[int, int]]:
    """The first and last of consecutive sequence numbers that some walks have noted.

    Raises:
        ValueError: A text is not like '3-17 19', or has more numbers than the graph has nodes.
    """
    events, found = facts.trace.events, []
    for walk in walks.tolist():
        ranges = _ranges(facts.trace.string(int(getattr(events, column)[walk])))
        if sum(last - first + 1 for first, last in ranges) > events.count[walk]:
            raise ValueError
        found += ranges
    return found


def _ranges(text: str) -> list[tuple[int, int]]:
    matches = [_RANGE.fullmatch(part) for part in text.split()]
    found = [(int(m[1]), int(m[2] or m[1])) for m in matches if m]
    if not all(matches) or any(first > last for first, last in found):
        raise ValueError
    return found


def _are_among(facts: Facts, nodes: AnyRows, ranges: list[tuple[int, int]]) -> Mask:
    """Whether the sequence number of each node is in one of some ranges; (nodes,)."""
    bounds = np.array(ranges, dtype=np.int64).reshape(-1, 2)
    firsts, lasts = np.sort(bounds[:, 0]), np.sort(bounds[:, 1])
    numbers = facts.trace.slices.sequence[nodes]
    begun = np.searchsorted(firsts, numbers, side="right")
    found: Mask = begun > np.searchsorted(lasts, numbers, side="left")
    return found


def _with_leaves(facts: Facts, nodes: AnyRows, unused: Mask) -> Mask:
    """The mask, also set where a gradient is added to a parameter right after such a node."""
    slices = facts.trace.slices
    adds = facts.trace.matches(slices.name[nodes], lambda name: _ACCUMULATES in name)
    order = np.lexsort((nodes, slices.track[nodes]))
    found = unused.copy()
    previous = False
    for place in order.tolist():
        previous = bool(previous if adds[place] else unused[place])
        found[place] = previous
    return found


def _calls(facts: Facts) -> tuple[str, ...]:
    events = facts.trace.events
    lines = dict.fromkeys(events.source[rows_of_kinds(facts.trace, "unowned-call")].tolist())
    return tuple(facts.trace.string(line) for line in lines if line != NULL)


def _parameters(facts: Facts, kind: str) -> tuple[tuple[str, int], ...]:
    events, text = facts.trace.events, facts.trace.string
    rows = rows_of_kinds(facts.trace, kind)
    counts = {text(int(events.name[row])): text(int(events.reason[row])) for row in rows}
    return tuple((name, int(count)) for name, count in counts.items() if _COUNT.fullmatch(count))
