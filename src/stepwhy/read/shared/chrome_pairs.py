"""Pairs the begins and ends of ranges.

An end closes the range that was begun last, so that begins and ends of the same depth alternate.
Only if names contradict that, the records of a key are paired one by one.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.base.columns import chunks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Rows = NDArray[np.int32]

NO_NAME = 0
"""Number of the empty name: an end without a name closes the range that was begun last."""

# Few ranges of a key overlap without nesting; an end is searched among this many open ranges.
_DEEPEST_SEARCH = 64
_NONE = np.empty(0, dtype=np.int32)


class Pairs(NamedTuple):
    """Begins and their ends.

    Args:
        first: Positions of the begins; (pairs,).
        last: Positions of their ends; (pairs,).
        open: Number of begins without an end.
        unmatched: Number of ends without a begin.
    """

    first: Rows
    last: Rows
    open: int
    unmatched: int


def pair(key: Rows, begins: NDArray[np.bool_], name: Rows) -> Pairs:
    """Pair the begins and ends of each key.

    An end closes the innermost open begin of its key that has its name; without a name, or without
    such a begin, the innermost one.

    Args:
        key: Key of each record, ascending; records of a key are in the order of time; (records,).
        begins: Whether each record is a begin; (records,).
        name: Number of the name of each record; (records,).

    Returns:
        Pairs of positions in these columns, in any order.
    """
    parts = [
        _pair(low, key[low:high], begins[low:high], name[low:high])
        for low, high in whole_groups(key)
    ]
    return Pairs(
        np.concatenate([part.first for part in parts] or [_NONE]),
        np.concatenate([part.last for part in parts] or [_NONE]),
        sum(part.open for part in parts),
        sum(part.unmatched for part in parts),
    )


def whole_groups(key: NDArray[np.signedinteger[Any]]) -> Iterator[tuple[int, int]]:
    """Split records into chunks that contain all records of their keys.

    Args:
        key: Key of each record, ascending; (records,).
    """
    low = 0
    while low < len(key):
        at = min(low + chunks.CHUNK, len(key)) - 1
        high = int(np.searchsorted(key, key[at], side="right"))
        yield low, high
        low = high


def _pair(offset: int, key: Rows, begins: NDArray[np.bool_], name: Rows) -> Pairs:
    level, unmatched = _levels(key, begins)
    known = np.flatnonzero(~unmatched).astype(np.int32)
    # On each level of a key, begins and ends alternate.
    known = known[np.lexsort((level[known], key[known]))]
    ends = np.flatnonzero(~begins[known])
    first, last = known[ends - 1], known[ends]
    lost, left = int(unmatched.sum()), int(begins.sum()) - len(first)
    wrong = (name[last] != NO_NAME) & (name[last] != name[first])
    if wrong.any():
        contradicted = np.unique(key[last[wrong]])
        fine = ~np.isin(key[last], contradicted)
        repaired = [_pair_by_name(key, begins, name, int(k)) for k in contradicted]
        first = np.concatenate([first[fine], *(f for f, _ in repaired)])
        last = np.concatenate([last[fine], *(e for _, e in repaired)])
    return Pairs(first + np.int32(offset), last + np.int32(offset), left, lost)


def _levels(key: Rows, begins: NDArray[np.bool_]) -> tuple[Rows, NDArray[np.bool_]]:
    """Depth of every record among the ranges of its key, from 1, and the ends without a begin."""
    is_new = np.ones(len(key), dtype=bool)
    is_new[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(is_new)
    lengths = np.diff(starts, append=len(key))
    # A chunk of several keys is small; one key may have all records of a file.
    dtype = np.int32 if len(starts) == 1 else np.int64
    depth: NDArray[Any] = np.cumsum(np.where(begins, np.int8(1), np.int8(-1)), dtype=dtype)
    before = depth[starts] - np.where(begins[starts], 1, -1)
    depth -= np.repeat(before.astype(dtype), lengths)
    # Running minimum of the depth in each key: keys are shifted so that each is below those before.
    shift: NDArray[Any] = np.repeat(np.arange(len(starts), dtype=dtype), lengths)
    shift *= 2 * len(key) + 2
    lowest = np.minimum(depth, 0)
    lowest -= shift
    np.minimum.accumulate(lowest, out=lowest)
    lowest += shift
    unmatched = ~begins
    unmatched[1:] &= is_new[1:] | (lowest[1:] < lowest[:-1])
    depth -= lowest
    depth += ~begins
    return depth.astype(np.int32, copy=False), unmatched


def _pair_by_name(key: Rows, begins: NDArray[np.bool_], name: Rows, one: int) -> tuple[Rows, Rows]:
    """Begins and ends of one key, paired one by one."""
    first, last = array("i"), array("i")
    stack: list[tuple[int, int]] = []
    low, high = np.searchsorted(key, [one, one + 1]).tolist()
    for chunk in chunks.chunks(high - low):
        some = slice(low + chunk.start, low + chunk.stop)
        rows = zip(begins[some].tolist(), name[some].tolist(), strict=True)
        for at, (is_begin, number) in enumerate(rows, some.start):
            if is_begin:
                stack.append((at, number))
            elif stack:
                first.append(stack.pop(_closed_by(stack, number))[0])
                last.append(at)
    return np.asarray(first, dtype=np.int32), np.asarray(last, dtype=np.int32)


def _closed_by(stack: list[tuple[int, int]], name: int) -> int:
    """The open range that an end closes, as an index from the end of the stack."""
    if name != NO_NAME:
        for depth in range(1, min(len(stack), _DEEPEST_SEARCH) + 1):
            if stack[-depth][1] == name:
                return -depth
    return -1
