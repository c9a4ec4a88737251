"""Which rows of some columns are alike, a piece of them at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Ints = NDArray[np.integer[Any]] | NDArray[np.bool_]

_PIECE = 1 << 16  # rows


def distinct(*columns: Ints) -> tuple[list[tuple[int, ...]], NDArray[np.int32]]:
    """The different rows, in the order in which they come, and which of them each row is.

    Meant for few different rows: each of them is a Python object.

    Args:
        columns: Equally long; (rows,) each.
    """
    numbers: dict[tuple[int, ...], int] = {}
    found = np.empty(len(columns[0]), dtype=np.int32)
    for first in range(0, len(found), _PIECE):
        part = [column[first : first + _PIECE] for column in columns]
        rows, group = _alike(part)
        values = zip(*(column[rows].tolist() for column in part), strict=True)
        ids = [numbers.setdefault(row, len(numbers)) for row in values]
        found[first : first + _PIECE] = np.asarray(ids, dtype=np.int32)[group]
    return list(numbers), found


def groups(*columns: Ints) -> NDArray[np.int64]:
    """A number for each row, the same for those that are alike; for many different rows; (rows,).

    Args:
        columns: Equally long; (rows,) each.
    """
    group = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        group = np.unique(group * len(values) + place, return_inverse=True)[1]
    return group


def grouped(
    groups: NDArray[np.signedinteger[Any]], count: int
) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
    """The rows of each group one after the other, ascending; all of them, and group by group.

    Args:
        groups: The group of each row; (rows,).
        count: How many groups there are.
    """
    order = np.empty(len(groups), dtype=np.int32)
    sizes = sum(np.bincount(groups[piece], minlength=count) for piece in pieces(len(groups)))
    ends = np.cumsum(np.broadcast_to(sizes, count))
    place = ends - sizes
    for piece in pieces(len(groups)):
        part = groups[piece]
        inside = np.argsort(part, kind="stable")
        found = np.bincount(part, minlength=count)
        ahead = place - (np.cumsum(found) - found)
        order[np.repeat(ahead, found) + np.arange(len(part))] = inside + piece.start
        place += found
    return order, np.split(order, ends[:-1])


def put(
    target: NDArray[Any], rows: NDArray[np.signedinteger[Any]], values: NDArray[Any] | bool
) -> None:
    """As `target[rows] = values`; NumPy would hold the rows with 64 bits.

    Args:
        target: What is written to; (any,).
        rows: Where; (rows,).
        values: What; (rows,), or one for all.
    """
    for piece in pieces(len(rows)):
        target[rows[piece]] = values if isinstance(values, bool) else values[piece]


def pieces(count: int) -> Iterator[slice]:
    """Slices that together are so many rows, in order."""
    return (slice(first, min(first + _PIECE, count)) for first in range(0, count, _PIECE))


def _alike(columns: list[Ints]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of each group of rows that are alike, in order, and the group of each row."""
    order = np.lexsort(columns[::-1])
    begins = np.zeros(len(order), dtype=bool)
    begins[:1] = True
    for column in columns:
        ordered = column[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    rows = order[begins]  # sorting is stable: the first of each
    number = np.empty(len(rows), dtype=np.int64)
    by_place = np.argsort(rows)
    number[by_place] = np.arange(len(rows))
    group = np.empty(len(order), dtype=np.int64)
    group[order] = number[np.cumsum(begins) - 1]
    return rows[by_place], group


__all__ = ["distinct", "grouped", "groups", "pieces", "put"]
