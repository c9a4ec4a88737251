"""Which begin an end belongs to, of many at once.

Ends close what was begun last, so that the depth of a record says which begin and end belong
together: of one depth they take turns. Only where their names contradict that, the records of one
key are looked at one by one.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Rows = NDArray[np.int32]

NO_NAME = 0
"""The number of the name of an end that has none: it closes whatever was begun last."""

# Ranges of one key that overlap without nesting are few; beyond this many the names are noise.
_DEEPEST_SEARCH = 64
# Records that are looked at together, if there are not more of one key.
_CHUNK = 1 << 16
_NONE = np.empty(0, dtype=np.int32)


class Pairs(NamedTuple):
    """Begins and their ends.

    Args:
        first: The begins; (pairs,).
        last: Their ends; (pairs,).
        open: Begins without an end.
        homeless: Ends without a begin.
    """

    first: Rows
    last: Rows
    open: int
    homeless: int


def pair(key: Rows, begins: NDArray[np.bool_], name: Rows) -> Pairs:
    """Pairs of begins and ends of one key.

    An end closes the innermost open begin of its key that has its name; without a name, or without
    such a begin, the innermost one.

    Args:
        key: What holds records together: ascending, and of one key in the order of time;
            (records,).
        begins: Whether each is a begin; (records,).
        name: Number of its name; (records,).

    Returns:
        Pairs of positions in these, in no order that matters.
    """
    parts = [
        _pair(low, key[low:high], begins[low:high], name[low:high])
        for low, high in whole_groups(key)
    ]
    return Pairs(
        np.concatenate([part.first for part in parts] or [_NONE]),
        np.concatenate([part.last for part in parts] or [_NONE]),
        sum(part.open for part in parts),
        sum(part.homeless for part in parts),
    )


def whole_groups(key: NDArray[np.signedinteger[Any]]) -> Iterator[tuple[int, int]]:
    """Where to cut so that all records of a key stay together; few at a time, for their memory.

    Args:
        key: Ascending; (records,).
    """
    low = 0
    while low < len(key):
        at = min(low + _CHUNK, len(key)) - 1
        high = int(np.searchsorted(key, key[at], side="right"))
        yield low, high
        low = high


def _pair(offset: int, key: Rows, begins: NDArray[np.bool_], name: Rows) -> Pairs:
    level, homeless = _levels(key, begins)
    known = np.flatnonzero(~homeless).astype(np.int32)
    # Of one key and level, begins and ends take turns, the begin before its end.
    known = known[np.lexsort((level[known], key[known]))]
    ends = np.flatnonzero(~begins[known])
    first, last = known[ends - 1], known[ends]
    lost, left = int(homeless.sum()), int(begins.sum()) - len(first)
    wrong = (name[last] != NO_NAME) & (name[last] != name[first])
    if wrong.any():
        contradicted = np.unique(key[last[wrong]])
        fine = ~np.isin(key[last], contradicted)
        told = [_by_name(key, begins, name, int(k)) for k in contradicted]
        first = np.concatenate([first[fine], *(f for f, _ in told)])
        last = np.concatenate([last[fine], *(e for _, e in told)])
    return Pairs(first + np.int32(offset), last + np.int32(offset), left, lost)


def _levels(key: Rows, begins: NDArray[np.bool_]) -> tuple[Rows, NDArray[np.bool_]]:
    """How deep every range is in others of its key, 1 outside; and which ends have no begin."""
    is_new = np.ones(len(key), dtype=bool)
    is_new[1:] = key[1:] != key[:-1]
    starts = np.flatnonzero(is_new)
    lengths = np.diff(starts, append=len(key))
    # One key may have all records of a file; several are few.
    dtype = np.int32 if len(starts) == 1 else np.int64
    depth: NDArray[Any] = np.cumsum(np.where(begins, np.int8(1), np.int8(-1)), dtype=dtype)
    before = depth[starts] - np.where(begins[starts], 1, -1)
    depth -= np.repeat(before.astype(dtype), lengths)
    # The least depth so far, in each key anew: every key is put below all before it.
    shift: NDArray[Any] = np.repeat(np.arange(len(starts), dtype=dtype), lengths)
    shift *= 2 * len(key) + 2
    lowest = np.minimum(depth, 0)
    lowest -= shift
    np.minimum.accumulate(lowest, out=lowest)
    lowest += shift
    homeless = ~begins
    homeless[1:] &= is_new[1:] | (lowest[1:] < lowest[:-1])
    depth -= lowest
    depth += ~begins
    return depth.astype(np.int32, copy=False), homeless


def _by_name(key: Rows, begins: NDArray[np.bool_], name: Rows, one: int) -> tuple[Rows, Rows]:
    """Begins and ends of one key, paired one by one."""
    first, last = array("i"), array("i")
    stack: list[tuple[int, int]] = []
    low, high = np.searchsorted(key, [one, one + 1]).tolist()
    for at, is_begin, called in _records(begins, name, low, high):
        if is_begin:
            stack.append((at, called))
        elif stack:
            first.append(stack.pop(_begun_by(stack, called))[0])
            last.append(at)
    return np.asarray(first, dtype=np.int32), np.asarray(last, dtype=np.int32)


def _records(
    begins: NDArray[np.bool_], name: Rows, low: int, high: int
) -> Iterator[tuple[int, bool, int]]:
    for start in range(low, high, _CHUNK):
        end = min(start + _CHUNK, high)
        yield from zip(
            range(start, end), begins[start:end].tolist(), name[start:end].tolist(), strict=True
        )


def _begun_by(stack: list[tuple[int, int]], name: int) -> int:
    """Which of the open ranges an end closes: an index from the end of the stack."""
    if name != NO_NAME:
        for depth in range(1, min(len(stack), _DEEPEST_SEARCH) + 1):
            if stack[-depth][1] == name:
                return -depth
    return -1


__all__ = ["NO_NAME", "Pairs", "pair"]
