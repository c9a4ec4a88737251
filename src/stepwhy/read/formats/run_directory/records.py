"""Types of the records in a run directory, which may be damaged or hostile.

Readers skip or report records that are not JSON or not UTF-8, nest too deeply, have another type,
or hold numbers outside of these bounds.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

LARGEST: Final = 1 << 62
"""Largest time since the epoch in ns (the year 2116), duration, size or count."""

Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(LARGEST >> 1), le=LARGEST)]
"""A number of a record; the difference of any two fits into 64 bits."""

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""A duration, a size or a count of a record."""

Flag: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2)]
"""No, yes, or in part."""

DAMAGED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of decoding a damaged record."""

_MOST_DIGITS: Final = 9


class _Versioned(msgspec.Struct):
    schema: str


def is_later(data: bytes, schema: str) -> bool:
    """Whether a JSON record is of a later version of its format, in which its members may differ.

    Args:
        data: The record.
        schema: The version that is read, 'stepwhy.name/1'.
    """
    try:
        found = msgspec.json.decode(data, type=_Versioned).schema
    except DAMAGED:
        return False
    name, _, version = found.partition("/")
    known_name, _, known = schema.partition("/")
    is_number = version.isdecimal() and len(version) <= _MOST_DIGITS
    return name == known_name and is_number and int(version) > int(known)


def bounded(value: int) -> int:
    """A sum or product of such numbers, clipped to 64 bits."""
    return max(-LARGEST, min(value, LARGEST))
