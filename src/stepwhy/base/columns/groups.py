"""Groups of rows with equal values, and lookup of values by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import CHUNK, chunks, put, take
from stepwhy.base.columns.memory import give_back_after
from stepwhy.base.columns.narrow import narrowest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Rows

    Ints = NDArray[np.integer[Any]] | NDArray[np.bool_]

# NumPy uses radix sort for integers of up to this many bits, which is ten times as fast.
_RADIX_BITS = 16
# With fewer queries than one in this many keys, a search costs less than a table of the keys.
_FEW_QUERIES = 32


def by_code(codes: NDArray[Any]) -> tuple[Rows, Rows]:
    """Sort rows by code; rows with equal codes keep their order.

    Args:
        codes: Integers; (rows,).

    Returns:
        Rows in that order, (rows,), and the position in it at which each group of equal codes
        begins, (groups,).
    """
    if not len(codes):
        none = np.empty(0, dtype=np.int64)
        return none, none
    low, high = int(codes.min()), int(codes.max())
    if high - low < 1 << _RADIX_BITS:
        codes = (codes - low).astype(np.uint8 if high - low < 1 << 8 else np.uint16)
    order = np.argsort(codes, kind="stable")
    return order, np.flatnonzero(_firsts(codes[order]))


def first_rows(codes: NDArray[Any]) -> Rows:
    """First row of each distinct code, by ascending code; (groups,)."""
    order, begins = by_code(codes)
    return order[begins]


def distinct(codes: NDArray[Any]) -> Rows:
    """Distinct codes, ascending; (distinct,). Faster than `np.unique`, see `numbered`."""
    if is_dense(codes):
        low, seen = _seen(codes)
        return np.flatnonzero(seen) + low
    ordered = np.sort(codes, kind="stable").astype(np.int64)
    return ordered[_firsts(ordered)]


def count_distinct(codes: NDArray[Any]) -> int:
    """Number of distinct codes."""
    return int(np.count_nonzero(_seen(codes)[1])) if is_dense(codes) else len(distinct(codes))


def numbered(codes: NDArray[Any]) -> tuple[Rows, NDArray[np.int32]]:
    """Distinct codes, ascending, and the position of each row's code among them.

    The same as `np.unique(codes, return_inverse=True)`, but it does not sort dense codes, and does
    not import NumPy's masked arrays (0.03 s).

    Args:
        codes: Integers; (rows,).

    Returns:
        The codes, (distinct,), and the positions, (rows,).
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
    """Mask of sorted codes that differ from the one before; (codes,)."""
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return first


# Largest range of codes for which a lookup table is used, unless there are many rows.
_TABLE = 1 << 16


def is_dense(codes: NDArray[Any]) -> bool:
    """Whether a lookup table over the range of the codes is small."""
    if not len(codes):
        return False
    return int(codes.max()) - int(codes.min()) <= max(_TABLE, 4 * len(codes))


def _seen(codes: NDArray[Any]) -> tuple[int, NDArray[np.bool_]]:
    """The lowest code, and whether each integer from there on occurs; (range,)."""
    low = int(codes.min())
    seen = np.zeros(int(codes.max()) - low + 1, dtype=bool)
    for part in chunks(len(codes)):
        seen[codes[part].astype(np.int64) - low] = True
    return low, seen


def looked_up(
    keys: NDArray[Any], values: NDArray[Any], queries: NDArray[Any], missing: int
) -> NDArray[Any]:
    """Look up values by key; (queries,).

    Args:
        keys: Integers; the first of equal keys counts; (keys,).
        values: Value of every key; (keys,).
        queries: Keys to look up; (queries,).
        missing: Result for keys that do not exist.
    """
    if not len(keys):
        return np.full(len(queries), missing)
    if len(queries) > CHUNK and _ascend(keys) and _ascend(queries):
        return _looked_up_in_order(keys, values, queries, missing)
    if len(queries) * _FEW_QUERIES < len(keys) and _ascend(keys):
        place = np.minimum(np.searchsorted(keys, queries), len(keys) - 1)
        return np.where(keys[place] == queries, values[place], missing)
    if is_dense(keys):
        low, high = int(keys.min()), int(keys.max())
        table = np.full(high - low + 1, missing, dtype=values.dtype)
        put(table, keys[::-1] - low, values[::-1])  # the last value written stays
        found = np.full(len(queries), missing, dtype=values.dtype)
        for chunk in chunks(len(queries)):
            is_known = (queries[chunk] >= low) & (queries[chunk] <= high)
            found[chunk][is_known] = table[queries[chunk][is_known] - low]
        return found
    order = np.argsort(keys, kind="stable")
    place = order[np.minimum(np.searchsorted(keys, queries, sorter=order), len(keys) - 1)]
    return np.where(keys[place] == queries, values[place], missing)


def _ascend(codes: NDArray[Any]) -> bool:
    """Whether the codes ascend strictly."""
    return bool((codes[1:] > codes[:-1]).all())


def _looked_up_in_order(
    keys: NDArray[Any], values: NDArray[Any], queries: NDArray[Any], missing: int
) -> NDArray[Any]:
    """Run `looked_up` a chunk at a time; both `keys` and `queries` ascend."""
    give_back_after(len(queries))
    found = np.empty(len(queries), dtype=values.dtype)
    for chunk in chunks(len(queries)):
        ends = np.clip(queries[chunk][[0, -1]], keys[0], keys[-1]).astype(keys.dtype)
        first, last = np.searchsorted(keys, ends[0]), np.searchsorted(keys, ends[1], side="right")
        found[chunk] = looked_up(keys[first:last], values[first:last], queries[chunk], missing)
    return found


def keep_codes(chosen: NDArray[np.bool_], codes: Ints, chosen_codes: NDArray[np.bool_]) -> None:
    """Remove from a mask the rows whose code is not in another mask.

    Args:
        chosen: Mask of rows; changed in place; (rows,).
        codes: Code of every row, counted from 0; (rows,).
        chosen_codes: Mask of codes; (codes,).
    """
    for chunk in chunks(len(chosen)):
        # NumPy needs half the time in this mode.
        chosen[chunk] &= np.take(chosen_codes, codes[chunk], mode="clip")


def group_rows(*columns: Ints) -> tuple[Rows, NDArray[np.int32]]:
    """Group rows that are equal in all columns; groups are in the order of their first rows.

    Args:
        columns: Columns of equal length; (rows,) each.

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
    """Distinct rows in the order of their first occurrence, and the position of each row in them.

    Args:
        columns: Columns of equal length; (rows,) each. There should be few distinct rows, because
            each becomes a tuple.
    """
    first, group = group_rows(*columns)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    return list(rows), group


def rows_by_group(
    groups: NDArray[np.signedinteger[Any]], count: int
) -> tuple[NDArray[np.int32], list[NDArray[np.int32]]]:
    """Rows sorted by group, ascending within each, as one array and split by group.

    Args:
        groups: Group of every row, counted from 0; (rows,).
        count: Number of groups.
    """
    order = by_code(groups)[0].astype(np.int32)
    ends = np.cumsum(np.bincount(groups, minlength=count))
    return order, np.split(order, ends[:-1])
