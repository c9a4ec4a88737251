"""Work whose results one branch reads, which is not the one that is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.trace import NULL

_SWITCH, _MERGE = regex(r"(?:Ref)?Switch"), regex(r"(?:Ref)?Merge")
# Of fewer steps, the branch that was not taken may be the usual one.
_FEWEST_STEPS = 3
_MOSTLY = 0.8  # of the executions in the steps; what is used more often may be meant to be ready


class Branch(NamedTuple):
    """Work of the steady steps that a condition makes useless.

    Args:
        rows: The operations; slices.
        condition: What decides, in words; the name of its scope in a graph.
        cost_ns: Time per step that is lost, ns.
        one_in: The results are used once in so many steps; 0 if unknown.
    """

    rows: AnyRows
    condition: str
    cost_ns: int
    one_in: int = 0


def find_branches(facts: Facts) -> list[Branch]:
    """All of them, by condition."""
    if len(facts.trace.discards):
        return list(_of_programs(facts))
    return list(_of_graph(facts)) if len(facts.trace.flows) else []


def _of_programs(facts: Facts) -> Iterator[Branch]:
    """Those of compiled programs, which compute both sides of a selection."""
    table = facts.trace.discards
    steady = facts.is_steady[table.slice]
    for key in np.unique(table.condition[steady]).tolist():
        own = steady & (table.condition == key)
        one_in = int(table.one_in[own].max())
        rows = [table.slice[own & (table.holds == holds)] for holds in (1, 0)]
        used, other = (_ns(facts, part) for part in rows)
        condition = facts.trace.string(key)
        if one_in > 1:
            cost = round(used * (1 - 1 / one_in) + other / one_in)
            yield Branch(rows[0], condition, cost, one_in)
        else:
            shorter = rows[1] if used >= other else rows[0]
            yield Branch(shorter, condition, min(used, other))


def _ns(facts: Facts, rows: AnyRows) -> int:
    return on_scale(facts, mean_within(facts, time_of(facts, rows)), "compute")


def _of_graph(facts: Facts) -> Iterator[Branch]:
    """Those of a graph: results that go only into the untaken branch of a `tf.cond`."""
    rows = _unread(facts)
    rows = rows[~facts.trace.matches(facts.trace.slices.name[rows], _SWITCH.fullmatch)]
    rows = rows[_is_rarely_read(facts, rows)]
    if len(rows):
        yield Branch(rows, "tf.cond", _ns(facts, rows))


def _is_rarely_read(facts: Facts, unread: AnyRows) -> Mask:
    """Whether nothing reads the result of a node in most of several steps; (rows,).

    Args:
        facts: Facts of the run.
        unread: Operations whose results end at a branch that was not taken; slices, (rows,).
    """
    scopes, every = facts.trace.slices.scope, steady_work(facts)
    size = len(facts.trace.strings)
    runs = np.bincount(scopes[every[scopes[every] != NULL]], minlength=size)
    ended = np.bincount(scopes[unread], minlength=size)
    is_rare = (runs >= _FEWEST_STEPS) & (ended >= _MOSTLY * runs)
    found: Mask = is_rare[scopes[unread]]
    return found


def _unread(facts: Facts) -> AnyRows:
    """Operations of a graph whose results end at a branch that is not taken, and these ends.

    The `Switch` at the entry of a branch runs in any case; what reads it only if it is taken. The
    `Merge` at the end runs as soon as the taken branch is done: it reads nothing that ends later.
    """
    slices, flows = facts.trace.slices, facts.trace.flows
    rows = steady_work(facts)
    rows = rows[slices.scope[rows] != NULL]
    switches = set(rows[facts.trace.matches(slices.name[rows], _SWITCH.fullmatch)].tolist())
    readers: dict[int, list[int]] = {}
    merges = facts.trace.matches(slices.name[flows.target], _MERGE.fullmatch)
    late = slices.start_ns[flows.target] < facts.trace.end_ns[flows.source]
    read = ~(merges & late)
    for source, target in zip(
        flows.source[read].tolist(), flows.target[read].tolist(), strict=True
    ):
        readers.setdefault(source, []).append(target)
    unread: set[int] = set()
    for row in reversed(rows[np.argsort(slices.start_ns[rows], kind="stable")].tolist()):
        targets = readers.get(row)
        is_end = row in switches and targets is None
        if is_end or (targets is not None and unread.issuperset(targets)):
            unread.add(row)
    return np.array(sorted(unread), dtype=np.int64)


__all__ = ["Branch", "find_branches"]
