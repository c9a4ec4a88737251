"""Distances of all pairs of vectors that are made of their differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.operands import shapes_of
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.measure import Group
from stepwhy.diagnose.shared.program import is_pytorch
from stepwhy.diagnose.shared.slices import launched_ops
from stepwhy.diagnose.shared.work_lines import groups_at_lines, groups_of_events
from stepwhy.trace import NULL, Kind, Phase

# Source: `stepwhy.record.watchers.batch_lines`; values of `argument_uses.compares_pairs`.
_EVENT = "pair-line"
_SQUARED = 2
_LEAST_FEATURES = 8  # of a vector; with fewer, a product is hardly faster
_LEAST_RANK = 3  # of differences: both sides of a pair, and the features
PASSES_ON = regex(
    r"aten::(view|view_as|reshape|flatten|unflatten|squeeze|unsqueeze|expand|expand_as|broadcast_to"
    r"|slice|select|narrow|chunk|split|unbind|t|transpose|permute|movedim|detach|alias)"
)
"""Operations that compute nothing, or copy at most; a compiler fuses what is on both sides."""
_SUBTRACTS = regex(r"aten::(sub|subtract)")
# What makes squared distances of differences; all else needs these as they are.
_SQUARES = regex(r"aten::(pow|square|mul|norm|linalg_norm|linalg_vector_norm)")
_ADDS_UP = regex(r"aten::(sum|mean)")
_WEIGHTS = "aten::mul of different shapes"


def pair_differences(facts: Facts) -> list[Group]:
    """Lines that make and reduce such differences, and their time per step in ns, longest first."""
    if is_pytorch(facts):
        return groups_at_lines(facts, _of_pytorch(facts))
    if facts.trace.meta.framework == "jax":
        table = facts.trace.argument_uses
        rows = distinct(table.slice[table.compares_pairs == _SQUARED])
        steady: AnyRows = facts.in_steady(rows)
        return groups_at_lines(facts, steady)
    return groups_of_events(facts, _EVENT)


def _of_pytorch(facts: Facts) -> AnyRows:
    """Operations on such differences, forward and backward; slices, ascending."""
    trace, shapes = facts.trace, shapes_of(facts.trace)
    rows: AnyRows = facts.slices(Kind.OP, steady=True)
    rows = rows[(shapes[rows] != NULL) & (facts.phases[rows] != Phase.OPTIMIZER)]
    sizes = {key: tuple(_sizes(trace.string(key))) for key in distinct(shapes[rows]).tolist()}
    differences = {_repeated(one) for one in sizes.values()} - {()}
    if not differences:
        return rows[:0]
    forward: defaultdict[tuple[int, ...], set[str]] = defaultdict(set)
    launched, chosen = set(launched_ops(facts).tolist()), []
    for row in rows.tolist():
        shapes_read = sizes[int(shapes[row])]
        read = differences.intersection(shapes_read)
        name = trace.string(int(trace.slices.name[row]))
        made = _repeated(shapes_read) if _SUBTRACTS.fullmatch(name) else ()
        if made or read:
            chosen.append((row, {made} if made else read))
        is_reader = row in launched and not (made or PASSES_ON.fullmatch(name))
        if is_reader and facts.phases[row] == Phase.FORWARD:
            for one in read:
                forward[one].add(_WEIGHTS if _is_weighted(name, shapes_read) else name)
    meant = {one for one in differences if _are_squared(forward[one])}
    return np.array([row for row, read in chosen if read & meant], dtype=rows.dtype)


def _is_weighted(name: str, shapes: tuple[tuple[int, ...], ...]) -> bool:
    """Whether an operation multiplies by something other than what it reads."""
    return name == "aten::mul" and len(set(shapes[:2])) > 1


def _are_squared(readers: set[str]) -> bool:
    """Whether the operations that read some differences square them, and at most add them up."""
    others = {name for name in readers if not _SQUARES.fullmatch(name)}
    return others < readers and all(map(_ADDS_UP.fullmatch, others))


def _sizes(shapes: str) -> Iterator[tuple[int, ...]]:
    """Sizes of the arguments of an operation, such as '64x1x16,1x64x16,'."""
    for one in shapes.replace("+", ",").split(","):
        if one and one.replace("x", "").isdigit():
            yield tuple(map(int, one.split("x")))


def _repeated(arguments: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """The shape of a result for which two arguments are each repeated; () for others."""
    if len(arguments) < 2:
        return ()
    one, other = arguments[:2]
    pairs = list(zip_longest(one[::-1], other[::-1], fillvalue=1))
    if len(pairs) < _LEAST_RANK or pairs[0][0] != pairs[0][1] or pairs[0][0] < _LEAST_FEATURES:
        return ()
    is_repeated = [(a == 1 < b, b == 1 < a) for a, b in pairs[1:]]
    if not (any(a for a, _ in is_repeated) and any(b for _, b in is_repeated)):
        return ()
    return tuple(max(pair) for pair in pairs)[::-1]
