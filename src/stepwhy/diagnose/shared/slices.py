"""Slices of the steady steps by device work, graph node and name."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns import nesting
from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.diagnose.shared.measure import outermost
from stepwhy.trace import NULL, Kind, among


def steady_work(facts: Facts, *kinds: Kind) -> NDArray[np.int32]:
    """Work of the leading devices in the steady steps, of some kinds or of all; ascending rows."""
    rows = np.concatenate([np.empty(0, np.int32), *(a.rows for a in facts.leading)])
    rows = np.sort(rows[facts.is_steady[rows]], kind="stable")
    return rows[among(facts.trace.slices.kind[rows], kinds)] if kinds else rows


def scopes_among(facts: Facts, nodes: Collection[str], *kinds: Kind) -> Ints:
    """Slices of some graph nodes in the steady steps, by kind; (slices,)."""
    is_node = strings_among(facts, nodes)
    rows = facts.slices(*kinds, steady=True)
    found: Ints = rows[is_node[facts.trace.slices.scope[rows]]]
    return found


def named(facts: Facts, *names: str) -> AnyRows:
    """Operations and framework code on the host with some names, in the steady steps, ascending."""
    rows = facts.slices(Kind.OP, Kind.FRAMEWORK, steady=True)
    chosen: AnyRows = rows[strings_among(facts, names)[facts.trace.slices.name[rows]]]
    return chosen


def launched_ops(facts: Facts) -> AnyRows:
    """Operations in the steady steps that a driving thread launches, not another operation."""
    rows = facts.slices(Kind.OP, steady=True)
    rows = rows[outermost(facts, Kind.OP)[rows] == rows]
    chosen: AnyRows = rows[np.isin(facts.trace.slices.track[rows], facts.threads.all)]
    return chosen


def is_inside(facts: Facts, outer: AnyRows, rows: AnyRows) -> Mask:
    """Whether slices are some others, or lie within them; (rows,)."""
    is_outer = np.zeros(len(facts.trace.slices), dtype=np.bool_)
    is_outer[outer] = True
    found: Mask = nesting.nearest(facts.nesting, is_outer)[rows] != NULL
    return found


def strings_among(facts: Facts, texts: Collection[str]) -> Mask:
    """Mask of the strings that are among some texts, with False for NULL; (strings + 1,)."""
    found = np.zeros(len(facts.trace.strings) + 1, dtype=bool)
    found[facts.trace.strings_where(texts)] = True
    return found


def strings_of(facts: Facts, column: NDArray[np.int32], *kinds: Kind) -> list[int]:
    """Distinct strings in a column, for the slices of some kinds in the steady steps; ascending.

    Args:
        facts: Facts of the run.
        column: Column of strings; (slices,).
        kinds: Kinds of slices.
    """
    strings: list[int] = distinct(column[facts.slices(*kinds, steady=True)]).tolist()
    return [string for string in strings if string != NULL]


def ops_of_nodes(facts: Facts, *kinds: Kind) -> dict[int, int]:
    """Op type of each graph node that has slices of some kinds in the steady steps.

    Keys and values are string indices. If a node has several types, the highest index counts.
    """
    slices, rows = facts.trace.slices, facts.slices(*kinds, steady=True)
    rows = rows[slices.scope[rows] != NULL]
    rows = rows[np.lexsort((slices.name[rows], slices.scope[rows]))]
    return dict(zip(slices.scope[rows].tolist(), slices.name[rows].tolist(), strict=True))
