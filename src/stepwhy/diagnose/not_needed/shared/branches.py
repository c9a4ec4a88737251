"""Work whose results one branch reads, which is not the one that is taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lines.slice_lines import slice_lines
from stepwhy.analyse.steps.stalls import rows_of_kinds
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import mean_within, on_scale, time_of
from stepwhy.diagnose.shared.slices import steady_work
from stepwhy.trace import NULL

_MAPPED = "batched-branches"
_SWITCH, _MERGE = regex(r"(?:Ref)?Switch"), regex(r"(?:Ref)?Merge")
_LINES = regex(r"(.+?)\((\d{1,6}(?:[,-]\d{1,6})*)\)")
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
        bounds: Least and most time that may be lost, ns; it depends on which branch is taken how
            often. (0, 0) where `cost_ns` is certain.
        line: The line of a condition that `vmap` has made a selection of.
    """

    rows: AnyRows
    condition: str
    cost_ns: int
    one_in: int = 0
    bounds: tuple[int, int] = (0, 0)
    line: str = ""


def find_branches(facts: Facts) -> list[Branch]:
    """All of them, by condition."""
    if facts.trace.meta.framework == "jax":
        return [*_of_programs(facts), *_of_mapped(facts)]
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


def _of_mapped(facts: Facts) -> Iterator[Branch]:
    """Conditions of each example of a mapped function, for which all branches run.

    Of each example one branch is needed: for all of them the longest one at most, the shortest one
    at least, and the mean if each is taken equally often. What is at lines that several branches
    share belongs to none; functions that one of them calls may be called elsewhere, too, so that
    their time is not certain. What is at the line of the condition copies and selects operands for
    each example, such as weights.
    """
    events, text, work = facts.trace.events, facts.trace.string, steady_work(facts)
    lines = facts.derived(slice_lines)[work]
    known = {key: _place(text(key)) for key in np.unique(lines).tolist() if key != NULL}
    for row in rows_of_kinds(facts.trace, _MAPPED).tolist():
        line = text(int(events.source[row]))
        noted = text(int(events.reason[row])).split("; ")
        branches = [[_places(each) for each in one.partition(" + ")[::2]] for one in noted]
        places = Counter(one for own, inner in branches for one in own | inner)
        alone = {one for one, count in places.items() if count == 1}
        wanted = [{_place(line)} - places.keys()]
        wanted += [own & alone for own, _ in branches] + [inner & alone for _, inner in branches]
        parts = [
            work[np.isin(lines, [key for key, place in known.items() if place in each])]
            for each in wanted
        ]
        selecting, *taken = (_ns(facts, part) for part in parts)
        own = taken[: len(branches)]
        both = [one + other for one, other in zip(own, taken[len(branches) :], strict=True)]
        most = selecting + sum(both) - min(both, default=0)
        cost = selecting + sum(both) - round(sum(both) / max(len(both), 1))
        bounds = selecting + sum(own) - max(own, default=0), most
        yield Branch(np.concatenate(parts), f"{len(own)} branches", cost, 0, bounds, line)


def _places(text: str) -> set[str]:
    """Lines as they are noted, 'train.py(3,7-12)net.py(5)', one by one, such as 'train.py(3)'."""
    found = set()
    for file, ranges in _LINES.findall(text):
        for each in ranges.split(","):
            first, _, last = each.partition("-")
            found |= {f"{file}({n})" for n in range(int(first), int(last or first) + 1)}
    return found


def _place(line: str) -> str:
    """File and line of a line, without the function, which not all records name alike."""
    return line.partition(": ")[0]


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
