"""Groups of rows with equal values, and lookup of values by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import CHUNK, chunks, put, take
from stepwhy.columns.memory import give_back_after
from stepwhy.columns.narrow import narrowest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.integer[Any]] | NDArray[np.bool_]
    Rows = NDArray[np.int64]

# NumPy sorts integers of this many bits by their digits: ten times as fast as by comparing them.
_BY_DIGITS = 16


def by_code(codes: NDArray[Any]) -> tuple[Rows, Rows]:
    """The order in which rows with equal codes stand together, and where each group begins.

    Groups ascend by code, rows within a group ascend.

    Args:
        codes: Integers; (rows,).

    Returns:
        The order; (rows,). The place of the first row of each group in it; (groups,).
    """
    if not len(codes):
        none = np.empty(0, dtype=np.int64)
        return none, none
    low, high = int(codes.min()), int(codes.max())
    if high - low < 1 << _BY_DIGITS:
        codes = (codes - low).astype(np.uint8 if high - low < 1 << 8 else np.uint16)
    order = np.argsort(codes, kind="stable")
    return order, np.flatnonzero(_firsts(codes[order]))


def first_rows(codes: NDArray[Any]) -> Rows:
    """First row of each distinct code, by ascending code; (groups,)."""
    order, begins = by_code(codes)
    return order[begins]


def distinct(codes: NDArray[Any]) -> Rows:
    """Distinct codes, ascending; (groups,). As `np.unique`, see `numbered`."""
    if is_dense(codes):
        low, seen = _seen(codes)
        return np.flatnonzero(seen) + low
    ordered = np.sort(codes, kind="stable").astype(np.int64)
    return ordered[_firsts(ordered)]


def numbered(codes: NDArray[Any]) -> tuple[Rows, NDArray[np.int32]]:
    """Distinct codes, ascending, and the place of each row's code among them; (groups,), (rows,).

    As `np.unique` with its inverse, but without sorting where codes are small, and without the
    first call of that, which imports NumPy's masked arrays (0.03 s).

    Args:
        codes: Integers; (rows,).
    """
    give_back_after(len(codes))
    if is_dense(codes):
        low, seen = _seen(codes)
        number = np.cumsum(seen, dtype=np.int32) - 1
        place = np.empty(len(codes), dtype=np.int32)
        for part in chunks(len(codes)):
            place[part] = number[codes[part].astype(np.int64) - low]
        return np.flatnonzero(seen) + low, place
    order = np.argsort(codes, kind="stable")
    ordered = codes[order].astype(np.int64)
    first = _firsts(ordered)
    place = np.empty(len(codes), dtype=np.int32)
    place[order] = np.cumsum(first, dtype=np.int32) - 1
    return ordered[first], place


def _firsts(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether each of ascending codes differs from the one before; (codes,)."""
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return first


# Codes that leave out no more numbers than this, or than four for each row, have a table.
_TABLE = 1 << 16


def is_dense(codes: NDArray[Any]) -> bool:
    """Whether a table of all integers from the lowest code to the highest is small."""
    if not len(codes):
        return False
    return int(codes.max()) - int(codes.min()) <= max(_TABLE, 4 * len(codes))


def _seen(codes: NDArray[Any]) -> tuple[int, NDArray[np.bool_]]:
    """The lowest code, and of each from there whether it occurs; (codes,)."""
    low = int(codes.min())
    seen = np.zeros(int(codes.max()) - low + 1, dtype=bool)
    for part in chunks(len(codes)):
        seen[codes[part].astype(np.int64) - low] = True
    return low, seen


def looked_up(
    keys: NDArray[Any], values: NDArray[Any], wanted: NDArray[Any], missing: int
) -> NDArray[Any]:
    """The value of each of some keys; (wanted,).

    Args:
        keys: Integers; of equal ones, the first counts; (keys,).
        values: Their values; (keys,).
        wanted: Keys to look up; (wanted,).
        missing: Value of those that are not among the keys.
    """
    if not len(keys):
        return np.full(len(wanted), missing)
    if len(wanted) > CHUNK and _ascend(keys) and _ascend(wanted):
        return _looked_up_in_order(keys, values, wanted, missing)
    if is_dense(keys):
        low, high = int(keys.min()), int(keys.max())
        table = np.full(high - low + 1, missing, dtype=values.dtype)
        put(table, keys[::-1] - low, values[::-1])  # the last value written stays
        found = np.full(len(wanted), missing, dtype=values.dtype)
        for chunk in chunks(len(wanted)):
            is_known = (wanted[chunk] >= low) & (wanted[chunk] <= high)
            found[chunk][is_known] = table[wanted[chunk][is_known] - low]
        return found
    order = np.argsort(keys, kind="stable")
    place = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == wanted, values[place], missing)


def _ascend(codes: NDArray[Any]) -> bool:
    """Whether each code is larger than the one before."""
    return bool((codes[1:] > codes[:-1]).all())


def _looked_up_in_order(
    keys: NDArray[Any], values: NDArray[Any], wanted: NDArray[Any], missing: int
) -> NDArray[Any]:
    """Run `looked_up` with ascending keys, a chunk of them at a time."""
    give_back_after(len(wanted))
    found = np.empty(len(wanted), dtype=values.dtype)
    for chunk in chunks(len(wanted)):
        ends = np.clip(wanted[chunk][[0, -1]], keys[0], keys[-1]).astype(keys.dtype)
        first, last = np.searchsorted(keys, ends[0]), np.searchsorted(keys, ends[1], side="right")
        found[chunk] = looked_up(keys[first:last], values[first:last], wanted[chunk], missing)
    return found


def rows_with(chosen: NDArray[np.bool_], codes: Ints, is_wanted: NDArray[np.bool_]) -> Rows:
    """Chosen rows whose code is wanted, ascending.

    Args:
        chosen: Whether each row is chosen; overwritten; (rows,).
        codes: The code of each; (rows,).
        is_wanted: Whether each code is wanted; (codes,).
    """
    for chunk in chunks(len(chosen)):
        rows = np.flatnonzero(chosen[chunk])
        chosen[chunk][rows] = is_wanted[codes[chunk][rows]]
    return np.flatnonzero(chosen)


def group_rows(*columns: Ints) -> tuple[Rows, NDArray[np.int32]]:
    """Group rows that are equal in all columns; groups are in the order of their first rows.

    Args:
        columns: Equally long; (rows,) each.

    Returns:
        The first row of each group; (groups,). The group of each row; (rows,).
    """
    group = numbered(columns[0])[1]
    for column in columns[1:]:
        values, place = numbered(column)
        if len(values) > 1:
            code = group.astype(narrowest(0, (int(group.max(initial=0)) + 1) * len(values)))
            code *= len(values)
            code += place
            group = numbered(code)[1]
    first = np.empty(int(group.max(initial=-1)) + 1, dtype=np.int64)
    for chunk in reversed([*chunks(len(group))]):
        # The last value written stays.
        first[group[chunk][::-1]] = np.arange(chunk.start, chunk.stop)[::-1]
    give_back_after(len(group))
    order = np.argsort(first)
    new_group = np.empty(len(first), dtype=np.int32)
    new_group[order] = np.arange(len(first))
    return first[order], take(new_group, group)


def distinct_rows(*columns: Ints) -> tuple[list[tuple[int, ...]], NDArray[np.int32]]:
    """Distinct rows in the order in which they first occur, and which of them each row is.

    Args:
        columns: Equally long; (rows,) each. Few rows differ: each is returned as an object.
    """
    first, group = group_rows(*columns)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    return list(rows), group


def rows_by_group(
    groups: NDArray[np.signedinteger[Any]], count: int
) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
    """Rows sorted by group, ascending within a group: all of them, and split by group.

    Args:
        groups: The group of each row, from 0 on; (rows,).
        count: Number of groups.
    """
    order = by_code(groups)[0].astype(np.int32)
    ends = np.cumsum(np.bincount(groups, minlength=count))
    return order, np.split(order, ends[:-1])


__all__ = [
    "by_code",
    "distinct",
    "distinct_rows",
    "first_rows",
    "group_rows",
    "is_dense",
    "looked_up",
    "numbered",
    "rows_by_group",
    "rows_with",
]
