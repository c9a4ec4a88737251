"""Exact conversion of times in microseconds, as JSON text, to integer nanoseconds.

A double cannot represent the microseconds since 1970 with their fraction, so the digits are read as
text. A whole column is read at once: the texts are joined and their decimal points removed. The
remaining integers differ from nanoseconds by a power of ten each.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# Longer times (146 years) in nanoseconds may overflow int64 once a file's clock offset is added.
LARGEST_NS = 2**62
# Not valid JSON, so that no file contains them.
ABSENT = msgspec.Raw(b"-00")
"""Text of a time that is absent or null."""
UNUSABLE = msgspec.Raw(b"+")
"""Text of a time that is not a finite number."""

_PLAIN_CHARACTERS = b"0123456789.-,"
_PLAIN = regex(rb"-?\d+(\.\d{1,3})?\Z")
_QUOTED = regex(rb'"(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)"\Z')
_NUMBER = regex(rb"-?\d")
_TO_NS = np.asarray([1000, 100, 10, 1], dtype=np.int64)  # by number of decimals
_COMMA, _POINT, _MINUS, _ZERO = b",.-0"


class NotNumbersError(ValueError):
    """A time is neither a number nor null."""


def read_times(
    texts: Sequence[msgspec.Raw | bytes],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Nanoseconds of numbers of microseconds.

    Args:
        texts: JSON numbers, null, numbers in quotes, ABSENT or UNUSABLE.

    Returns:
        Nanoseconds, and a mask of the absent times; both of shape (texts,). Times with more than
        three decimals are rounded to even. Absent times are 0. Times that are too large or
        unusable have an absolute value of at least `LARGEST_NS`.

    Raises:
        NotNumbersError: A text is something else.
    """
    if not texts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    joined = b",".join(texts)
    if b'"' in joined:
        texts = [_unquote(t) for t in texts]
        joined = b",".join(texts)
    odd: dict[int, int | None] = {}
    if joined.translate(None, _PLAIN_CHARACTERS):
        odd = {i: _odd_ns(bytes(t)) for i, t in enumerate(texts) if not _PLAIN.match(t)}
        joined = b",".join([ABSENT if i in odd else t for i, t in enumerate(texts)])
    ns, absent, longer = _read_plain(joined + b",")
    for i in longer.tolist():
        ns[i] = _decimal_ns(bytes(texts[i]))
    for i, value in odd.items():
        ns[i] = value or 0
        absent[i] = value is None
    return ns, absent


def is_time(text: msgspec.Raw) -> bool:
    """Whether `read_times` can read a text: a number, also in quotes, or null."""
    return bool(_NUMBER.match(text) or _QUOTED.match(text)) or bytes(text) == b"null"


def usable(start_ns: NDArray[np.int64], dur_ns: NDArray[np.int64] | np.int64) -> NDArray[np.bool_]:
    """Whether each record has a plausible start and a non-negative, plausible duration.

    Args:
        start_ns: Starts; (records,).
        dur_ns: Durations; (records,), or one duration for all.
    """
    known: NDArray[np.bool_] = (np.abs(start_ns) < LARGEST_NS) & (start_ns + dur_ns < LARGEST_NS)
    return known & (dur_ns >= 0) & (dur_ns < LARGEST_NS)


def _read_plain(
    joined: bytes,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Nanoseconds of comma-terminated numbers, a mask of ABSENT, rows with over three decimals."""
    characters = np.frombuffer(joined, dtype=np.uint8)
    ends = np.flatnonzero(characters == _COMMA)
    starts = np.concatenate([[0], ends[:-1] + 1])
    absent = (characters[starts] == _MINUS) & (characters[starts + 1] == _ZERO)
    absent[absent] = characters[starts[absent] + 2] == _ZERO
    decimals = np.zeros(len(ends), dtype=np.int64)
    points = np.flatnonzero(characters == _POINT)
    owner = np.searchsorted(ends, points)
    decimals[owner] = ends[owner] - points - 1
    # Digits beyond int64 read as its limit.
    digits = np.fromstring(joined.replace(b".", b""), dtype=np.int64, sep=",")
    scale = _TO_NS[np.minimum(decimals, 3)]
    digits = np.clip(digits, -(LARGEST_NS // scale) - 1, LARGEST_NS // scale + 1)
    return digits * scale, absent, np.flatnonzero(decimals > 3)


def _unquote(text: msgspec.Raw | bytes) -> msgspec.Raw | bytes:
    """A number without the quotes around it, if any."""
    found = _QUOTED.match(text)
    return text if found is None else found[1]


def _odd_ns(text: bytes) -> int | None:
    """Nanoseconds of a number in an unusual notation, None if absent."""
    if text in {b"null", bytes(ABSENT)}:
        return None
    if text == bytes(UNUSABLE):
        return LARGEST_NS
    if not _NUMBER.match(text):
        raise NotNumbersError(text)
    return _decimal_ns(text)


def _decimal_ns(text: bytes) -> int:
    try:
        value = Decimal(text.decode())
    except InvalidOperation:  # an exponent of twenty digits
        return LARGEST_NS
    if value and value.adjusted() > 18:  # larger than any time, and perhaps than any memory
        return LARGEST_NS
    ns = int(value.scaleb(3).to_integral_value()) if value.adjusted() > -9 else 0
    return max(-LARGEST_NS, min(ns, LARGEST_NS))


def text_of(value: Any) -> msgspec.Raw:
    """The JSON text of a decoded time; a string that contains a number counts as that number.

    Raises:
        msgspec.ValidationError: It is not a number.
    """
    if isinstance(value, str) and value.isascii() and _QUOTED.match(b'"%b"' % value.encode()):
        return msgspec.Raw(value.encode())  # with more digits than can be converted, too
    number = msgspec.convert(value, int | float | None, strict=False)
    if number is None:
        return ABSENT
    if isinstance(value, str) and _NUMBER.match(value.encode()):
        return msgspec.Raw(value.encode())
    if isinstance(number, int):
        return msgspec.Raw(b"%d" % number) if abs(number) < LARGEST_NS else UNUSABLE
    return msgspec.Raw(repr(number).encode()) if isfinite(number) else UNUSABLE
