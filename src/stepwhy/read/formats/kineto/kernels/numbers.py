"""Numbers of JSON as integers, exactly; see `text` for positions and limits."""

from numba import njit

from stepwhy.read.formats.kineto.kernels.text import (
    FAST,
    MINUS,
    MOST_DIGITS,
    NINE,
    POINT,
    QUOTE,
    ZERO,
    byte_at,
    is_null,
)

ABSENT = -(2**63)
"""Integer of a key that is missing or null."""
BEYOND = 2**62
"""Time that is missing or unusable; the importer's LARGEST_NS."""

_MOST_QUOTED = 15  # digits that a double holds as well
_FIVE = ord("5")
_E, _SMALL_E = map(ord, "Ee")


@njit(**FAST)
def _digits(text, p, limit, most):
    """Value of the digits at `p` and the position after them, 0 if they are not an integer."""
    first = byte_at(text, p)
    value = 0
    begin = p
    c = first
    while ZERO <= c <= NINE and p < limit:
        if p - begin == most:
            return 0, 0
        value = 10 * value + (c - ZERO)
        p += 1
        c = byte_at(text, p)
    if p == begin or (first == ZERO and p > begin + 1):
        return 0, 0
    return value, p


@njit(**FAST)
def integer(text, p, limit):
    """An integer, with or without quotes, or ABSENT for null; and the position after it, or 0."""
    if p >= limit:
        return 0, 0
    if is_null(text, p):
        return ABSENT, p + 4
    quoted = byte_at(text, p) == QUOTE
    if quoted:
        p += 1
    negative = byte_at(text, p) == MINUS
    if negative:
        p += 1
    value, p = _digits(text, p, limit, _MOST_QUOTED if quoted else MOST_DIGITS)
    if p == 0:
        return 0, 0
    c = byte_at(text, p)
    if quoted:
        if c != QUOTE:
            return 0, 0
        p += 1
    elif c == POINT or c == _E or c == _SMALL_E:
        return 0, 0
    return (-value if negative else value), p


@njit(**FAST)
def _rounds_up(text, p, limit, odd):
    """Whether the decimals from `p` round up (half to even), and the position after them."""
    first = byte_at(text, p)
    up = first > _FIVE
    half = first == _FIVE
    p += 1
    c = byte_at(text, p)
    while ZERO <= c <= NINE and p < limit:
        if half and c > ZERO:
            half = False
            up = True
        p += 1
        c = byte_at(text, p)
    return up or (half and odd), p


@njit(**FAST)
def nanoseconds(text, p, limit):
    """Microseconds as nanoseconds, and the position after them, 0 if they are no plain number."""
    if p >= limit:
        return 0, 0
    negative = byte_at(text, p) == MINUS
    if negative:
        p += 1
    value, p = _digits(text, p, limit, 16)
    if p == 0 or value >= BEYOND // 1000:
        return 0, 0
    value *= 1000
    if byte_at(text, p) == POINT:
        p += 1
        scale = 100
        c = byte_at(text, p)
        if c < ZERO or c > NINE:
            return 0, 0
        while ZERO <= c <= NINE and scale:
            value += (c - ZERO) * scale
            scale //= 10
            p += 1
            c = byte_at(text, p)
        if ZERO <= c <= NINE:
            up, p = _rounds_up(text, p, limit, (value & 1) == 1)
            if up:
                value += 1
            c = byte_at(text, p)
        if c == _E or c == _SMALL_E:
            return 0, 0
    else:
        c = byte_at(text, p)
        if c == _E or c == _SMALL_E:
            return 0, 0
    return (-value if negative else value), p
