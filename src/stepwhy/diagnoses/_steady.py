"""Slices of the steady steps, a piece of the trace at a time.

Rows of all slices of a large trace would take as much memory as its columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import chunks, rows_within
from stepwhy.columns.growing import collected
from stepwhy.passes.selection import chosen
from stepwhy.trace import NULL, among

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts
    from stepwhy.trace import Kind

    Rows = NDArray[np.signedinteger[Any]]
    """Rows of slices; (any,)."""


def steady_pieces(facts: Facts, *kinds: Kind) -> Iterator[NDArray[np.int64]]:
    """Slices of some kinds that start in a steady step, ascending, piece by piece."""
    return map(facts.in_steady, chosen(facts.trace, kinds))


def steady_rows(facts: Facts, *kinds: Kind) -> NDArray[np.int32]:
    """Slices of some kinds that start in a steady step, ascending; (slices,)."""
    return collected(steady_pieces(facts, *kinds))


def steady_work(facts: Facts, *kinds: Kind) -> Iterator[NDArray[np.int64]]:
    """What leading devices do in the steady steps, of some kinds, ascending, piece by piece."""
    slices = facts.trace.slices
    for part in chunks(len(slices)):
        busy = np.zeros(part.stop - part.start, dtype=bool)
        for activity in facts.leading:
            busy[rows_within(activity.rows, part) - part.start] = True
        if kinds:
            busy &= among(slices.kind[part], kinds)
        yield facts.in_steady(np.flatnonzero(busy) + part.start)


def scopes_among(facts: Facts, nodes: Collection[str], *kinds: Kind) -> NDArray[np.int32]:
    """Steady slices of some kinds whose graph node is one of the given; (slices,)."""
    scope, wanted = facts.trace.slices.scope, strings_among(facts, nodes)
    pieces = steady_pieces(facts, *kinds) if wanted.any() else ()
    return collected(rows[wanted[scope[rows]]] for rows in pieces)


def strings_among(facts: Facts, texts: Collection[str]) -> NDArray[np.bool_]:
    """Whether each string is one of the given, with a False for the null; (strings + 1,)."""
    found = np.zeros(len(facts.trace.strings) + 1, dtype=bool)
    found[facts.trace.strings_where(texts)] = True
    return found


def strings_of(facts: Facts, column: NDArray[np.int32], *kinds: Kind) -> list[int]:
    """The different strings in a column of the steady slices of some kinds, ascending.

    Args:
        facts: Facts of the run.
        column: The column; (slices,).
        kinds: The kinds.
    """
    found = np.zeros(len(facts.trace.strings) + 1, dtype=bool)
    nowhere = column.strides == (0,) and (column == NULL).all()
    for rows in () if nowhere else steady_pieces(facts, *kinds):
        found[column[rows]] = True
    strings: list[int] = np.flatnonzero(found[:-1]).tolist()
    return strings


def ops_of_nodes(facts: Facts, *kinds: Kind) -> dict[int, int]:
    """The op type of each graph node with steady slices of some kinds, as strings.

    Of several types the one whose string is last.
    """
    slices = facts.trace.slices
    names = np.full(len(facts.trace.strings) + 1, NULL, dtype=np.int32)
    for rows in steady_pieces(facts, *kinds) if facts.names_nodes else ():
        # Of the types that NumPy takes as they are: others cost ten times the time.
        scopes, ops = slices.scope[rows].astype(np.intp), slices.name[rows].astype(np.int32)
        np.maximum.at(names, scopes, ops)
    scopes = np.flatnonzero(names[:-1] != NULL)
    return dict(zip(scopes.tolist(), names[scopes].tolist(), strict=True))


__all__ = [
    "ops_of_nodes",
    "scopes_among",
    "steady_pieces",
    "steady_rows",
    "steady_work",
    "strings_among",
    "strings_of",
]
