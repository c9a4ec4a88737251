"""Numbers of JSON as integers, exactly; see `json_text` for addresses and limits."""

from numba import njit

from stepwhy.native.kernels.json_text import (
    FAST,
    MINUS,
    MOST_DIGITS,
    NINE,
    POINT,
    QUOTE,
    ZERO,
    is_null,
)
from stepwhy.native.memory import byte_at

ABSENT = -(2**63)
"""No integer: the key is not there, or null."""
BEYOND = 2**62
"""No usable time: LARGEST_NS of the importers."""

_MOST_QUOTED = 15  # digits that a double holds as well
_FIVE = ord("5")
_E, _SMALL_E = map(ord, "Ee")


@njit(**FAST)
def _digits(p, limit, most):
    """Value of the digits at `p` and the address behind them; 0 where they are no plain integer."""
    first = byte_at(p)
    value = 0
    begin = p
    c = first
    while ZERO <= c <= NINE and p < limit:
        if p - begin == most:
            return 0, 0
        value = 10 * value + (c - ZERO)
        p += 1
        c = byte_at(p)
    if p == begin or (first == ZERO and p > begin + 1):
        return 0, 0
    return value, p


@njit(**FAST)
def integer(p, limit):
    """A plain integer, also in quotes, or null as ABSENT, and the address behind it; 0 if none."""
    if p >= limit:
        return 0, 0
    if is_null(p):
        return ABSENT, p + 4
    quoted = byte_at(p) == QUOTE
    if quoted:
        p += 1
    negative = byte_at(p) == MINUS
    if negative:
        p += 1
    value, p = _digits(p, limit, _MOST_QUOTED if quoted else MOST_DIGITS)
    if p == 0:
        return 0, 0
    c = byte_at(p)
    if quoted:
        if c != QUOTE:
            return 0, 0
        p += 1
    elif c == POINT or c == _E or c == _SMALL_E:
        return 0, 0
    return (-value if negative else value), p


@njit(**FAST)
def _rounds_up(p, limit, odd):
    """Whether decimals from `p` on round up (a half to even), and the address behind them."""
    first = byte_at(p)
    up = first > _FIVE
    half = first == _FIVE
    p += 1
    c = byte_at(p)
    while ZERO <= c <= NINE and p < limit:
        if half and c > ZERO:
            half = False
            up = True
        p += 1
        c = byte_at(p)
    return up or (half and odd), p


@njit(**FAST)
def nanoseconds(p, limit):
    """Microseconds as nanoseconds and the address behind them; 0 where they are no plain number."""
    if p >= limit:
        return 0, 0
    negative = byte_at(p) == MINUS
    if negative:
        p += 1
    value, p = _digits(p, limit, 16)
    if p == 0 or value >= BEYOND // 1000:
        return 0, 0
    value *= 1000
    if byte_at(p) == POINT:
        p += 1
        scale = 100
        c = byte_at(p)
        if c < ZERO or c > NINE:
            return 0, 0
        while ZERO <= c <= NINE and scale:
            value += (c - ZERO) * scale
            scale //= 10
            p += 1
            c = byte_at(p)
        if ZERO <= c <= NINE:
            up, p = _rounds_up(p, limit, (value & 1) == 1)
            if up:
                value += 1
            c = byte_at(p)
        if c == _E or c == _SMALL_E:
            return 0, 0
    else:
        c = byte_at(p)
        if c == _E or c == _SMALL_E:
            return 0, 0
    return (-value if negative else value), p
