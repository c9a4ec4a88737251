"""Columns of a timeline: integers of variable length, compressed.

Source: DWARF 5, section 7.6 (LEB128); Protocol Buffers, "Encoding" (zigzag).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.show.timeline.samples import UNKNOWN
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.show.timeline.samples import Sampled
    from stepwhy.show.timeline.slices import Drawn

    Ints = NDArray[np.int64]

# 64 bits in groups of seven.
_MOST_BYTES = 10


def columns_of(slices: Drawn, sampled: Sequence[Sampled], begin: int) -> dict[str, bytes]:
    """All columns but the labels; see `stepwhy.result.timeline.Timeline`.

    Args:
        slices: The slices; labels are places in the list of labels.
        sampled: The samples of each row that has them.
        begin: When the timeline begins, ns.
    """
    # Time since the slice before it in its lane ended, or since the beginning.
    before = np.full(len(slices), begin, dtype=np.int64)
    same = slices.strip[1:] == slices.strip[:-1]
    before[1:][same] = slices.end_ns[:-1][same]
    gaps = slices.start_ns - before
    launch = slices.launch
    # Differences to the last known one, folded to positive numbers.
    known = np.flatnonzero(launch != NULL)
    launches = np.zeros(len(launch), dtype=np.int64)
    launches[known] = zigzag(np.diff(launch[known], prepend=0)) + 1
    columns = {
        "gap": gaps,
        "duration": slices.end_ns - slices.start_ns,
        "category": slices.category,
        "label": slices.label,
        "merged": slices.merged,
        "bytes": slices.size + 1,
        "launch": launches,
        **sample_columns(sampled, begin),
    }
    return {name: packed(column) for name, column in columns.items()}


def sample_columns(sampled: Sequence[Sampled], begin: int) -> dict[str, Ints]:
    """The two columns of samples, row by row; (values,).

    Args:
        sampled: The samples of each row.
        begin: Time from which they count, ns.
    """
    times = [np.diff(one.times_ns, prepend=begin) for one in sampled]
    sample_time = np.concatenate(times) if times else np.empty(0, dtype=np.int64)
    # Values, folded to positive numbers; 0 for unknown.
    values = np.concatenate([np.empty(0, dtype=np.int64), *(one.values for one in sampled)])
    known = values != UNKNOWN
    sample_values: Ints = np.where(known, zigzag(np.where(known, values, 0)) + 1, 0)
    return {"sample_time": sample_time, "sample_value": sample_values}


def packed(values: NDArray[np.int64]) -> bytes:
    """Integers as LEB128, compressed by zlib.

    Args:
        values: Not negative; (values,).
    """
    return zlib.compress(varints(values), 6)


def varints(values: NDArray[np.int64]) -> bytes:
    """Integers as LEB128: seven bits per byte, lowest first; all but the last have the top bit set.

    Args:
        values: Not negative; (values,).
    """
    left = values.astype(np.uint64)
    length = np.ones(len(left), dtype=np.int64)
    for bits in range(7, 7 * _MOST_BYTES, 7):
        length += left >= np.uint64(1 << bits) if bits < 64 else 0
    end = np.cumsum(length)
    encoded = np.zeros(int(end[-1]) if len(end) else 0, dtype=np.uint8)
    begin = end - length
    for place in range(int(length.max(initial=0))):
        rows = np.flatnonzero(length > place)
        low = (left[rows] & np.uint64(0x7F)).astype(np.uint8)
        low[length[rows] > place + 1] |= 0x80
        encoded[begin[rows] + place] = low
        left[rows] >>= np.uint64(7)
    return encoded.tobytes()


def zigzag(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Signed integers as unsigned ones, small if they are near zero; (values,)."""
    folded: NDArray[np.int64] = (values << 1) ^ (values >> 63)
    return folded
