"""The records of a run directory, which may come from a stranger or from a full disk.

A record that is not what it should be is skipped or reported by its reader: it is not JSON, not
UTF-8, nested without end, of another type, or holds numbers that no clock or counter shows.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

LARGEST: Final = 1 << 62
"""Of a time since the epoch in ns (the year 2116), a duration, a size or a count."""

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(LARGEST >> 1), le=LARGEST)]
"""A number of a record; the difference of any two fits into 64 bits."""

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""A duration, a size or a count of a record."""

Flag: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2)]
"""No, yes, or in part."""

DAMAGED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding a damaged record raises."""


def bounded(value: int) -> int:
    """A sum or product of numbers of records, kept within 64 bits."""
    return max(-LARGEST, min(value, LARGEST))


__all__ = ["DAMAGED", "LARGEST", "Amount", "Flag", "Int", "bounded"]
