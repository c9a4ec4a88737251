"""Pack columns of integers: the bytes of small differences, plane by plane, compress well."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from stepwhy.base.columns.types import Ints


# Kind, width in bytes, number of values, first value, least value or difference.
_HEADER = struct.Struct("<BBIqq")
_VALUES, _DIFFERENCES = 0, 1
_MOST = 1 << 24  # values; a damaged header could name any number
# Differences of such values fit into 64 bits.
_FAR = 1 << 62


class BadColumnError(ValueError):
    """The bytes are no packed column."""


def pack(values: Ints) -> bytes:
    """Pack a column, so that `unpack` returns it.

    Args:
        values: The column; (rows,), int64.
    """
    values = np.ascontiguousarray(values, dtype=np.int64)
    if not len(values):
        return _HEADER.pack(_VALUES, 0, 0, 0, 0)
    least, most = int(values.min()), int(values.max())
    plain = _width(most - least)
    if max(abs(least), abs(most)) < _FAR and len(values) > 1:
        steps = np.diff(values)
        low = int(steps.min())
        if (width := _width(int(steps.max()) - low)) < plain:
            return _packed(_DIFFERENCES, width, int(values[0]), low, steps)
    return _packed(_VALUES, plain, 0, least, values)


def _packed(kind: int, width: int, first: int, low: int, numbers: Ints) -> bytes:
    """The header, and each byte of all numbers, beginning with the lowest."""
    header = _HEADER.pack(kind, width, len(numbers), first, low)
    above = numbers.astype(np.uint64) - np.uint64(low % (1 << 64))
    planes = above.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return header + planes.T.tobytes()


def _width(span: int) -> int:
    """Number of bytes of numbers from 0 to this one."""
    return (span.bit_length() + 7) // 8


def unpack(data: bytes) -> Ints:
    """The column that was packed; (rows,).

    Args:
        data: Its bytes.

    Raises:
        BadColumnError: They are no packed column.
    """
    try:
        kind, width, count, first, low = _HEADER.unpack_from(data)
    except struct.error:
        raise BadColumnError from None
    if count > _MOST or width > 8 or len(data) != _HEADER.size + width * count:
        raise BadColumnError
    planes = np.frombuffer(data, np.uint8, offset=_HEADER.size).reshape(width, count)
    above = np.zeros((count, 8), dtype=np.uint8)
    above[:, :width] = planes.T
    numbers = above.view("<u8")[:, 0].astype(np.uint64) + np.uint64(low % (1 << 64))
    found = numbers.astype(np.int64)
    if kind == _VALUES:
        return found
    values = np.empty(count + 1, dtype=np.int64)
    values[0] = first
    np.cumsum(found, out=values[1:])
    values[1:] += first
    return values
