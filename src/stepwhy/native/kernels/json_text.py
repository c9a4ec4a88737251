"""JSON values in memory, read strictly: what is not plain JSON is left to slower readers.

Everything is an address as int64. `limit` is the last address from which 64 bytes can be read;
nothing is read beyond `limit` + 64. An address of 0 as a result says: not understood.
"""

from numba import njit

from stepwhy.native.memory import byte_at, high_marks, string_marks, trailing_zeros, word_at

# Without forced inlining every value of two goes through memory: half as fast.
FAST = {"error_model": "numpy", "nogil": True, "forceinline": True}

ESCAPED = 1
HIGH = 2
"""Marks of a text: it has escapes; it has bytes that are not ASCII."""

QUOTE, BACKSLASH, COMMA, COLON, MINUS, POINT, ZERO, NINE = map(ord, '"\\,:-.09')
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = map(ord, "[]{}")
_SPACE, _TAB, _NEWLINE, _RETURN = map(ord, " \t\n\r")
_U, _E, _SMALL_E, _PLUS, _T, _F, _N, _A, _D = map(ord, "uEe+tfnad")
_CONTROL = 32
_B, _R, _SLASH = map(ord, "br/")
_DEEPEST = 62  # levels of nesting, a bit each
_TRUE, _NULL, _FALS = (int.from_bytes(word, "little") for word in (b"true", b"null", b"fals"))
_FOUR_BYTES = 0xFFFFFFFF
MOST_DIGITS = 18  # of an integer that surely fits


@njit(**FAST)
def behind_space(p, limit):
    """The first address that holds no white space."""
    c = byte_at(p)
    while (c == _SPACE or c == _NEWLINE or c == _TAB or c == _RETURN) and p < limit:
        p += 1
        c = byte_at(p)
    return p


@njit(**FAST)
def _hex_digit(c):
    return ZERO <= c <= NINE or 65 <= (c & ~32) <= 70


@njit(**FAST)
def _behind_escape(p):
    """The address behind a backslash and what belongs to it, 0 for halves of surrogate pairs."""
    c = byte_at(p + 1)
    if c == _U:
        for i in range(2, 6):
            if not _hex_digit(byte_at(p + i)):
                return 0
        if (byte_at(p + 2) & ~32) == 68 and byte_at(p + 3) >= 56:
            return 0
        return p + 6
    if c == QUOTE or c == BACKSLASH or c == _N or c == _SLASH:
        return p + 2
    if c == _T or c == _R or c == _B or c == _F:
        return p + 2
    return 0


@njit(**FAST)
def string_end(p, limit):
    """The closing quote of a string whose first character is at `p`, and its marks."""
    marks = 0
    while p < limit:
        found = string_marks(p)
        high = high_marks(p)
        if found == 0:
            if high:
                marks |= HIGH
            p += 32
            continue
        at = trailing_zeros(found)
        if high & ((1 << at) - 1):
            marks |= HIGH
        p += at
        c = byte_at(p)
        if c == QUOTE:
            return p, marks
        if c < _CONTROL:
            return 0, marks
        p = _behind_escape(p)
        if p == 0:
            return 0, marks
        marks |= ESCAPED
    return 0, marks


@njit(**FAST)
def _behind_digits(p, limit):
    c = byte_at(p)
    while ZERO <= c <= NINE and p < limit:
        p += 1
        c = byte_at(p)
    return p


@njit(**FAST)
def _behind_whole(p, limit):
    """Behind the digits before the point, 0 where there are none or a leading zero."""
    if byte_at(p) == ZERO:
        return p + 1
    end = _behind_digits(p, limit)
    return end if end > p else 0


@njit(**FAST)
def behind_number(p, limit):
    """Behind a number, 0 where there is none."""
    if byte_at(p) == MINUS:
        p += 1
    p = _behind_whole(p, limit)
    if p == 0:
        return 0
    if byte_at(p) == POINT:
        end = _behind_digits(p + 1, limit)
        if end == p + 1:
            return 0
        p = end
    c = byte_at(p)
    if c == _E or c == _SMALL_E:
        p += 1
        c = byte_at(p)
        if c == _PLUS or c == MINUS:
            p += 1
        end = _behind_digits(p, limit)
        if end == p:
            return 0
        p = end
    return p


@njit(**FAST)
def is_null(p):
    """Whether a null stands here."""
    return (word_at(p) & _FOUR_BYTES) == _NULL


@njit(**FAST)
def behind_scalar(p, limit):
    """Behind a number, true, false or null; 0 where there is none."""
    if p >= limit:
        return 0
    c = byte_at(p)
    if c == MINUS or ZERO <= c <= NINE:
        return behind_number(p, limit)
    word = word_at(p) & _FOUR_BYTES
    if word == _TRUE or word == _NULL:
        return p + 4
    if word == _FALS and byte_at(p + 4) == _SMALL_E:
        return p + 5
    return 0


@njit(**FAST)
def behind_key(p, limit):
    """Behind a key and its colon, at the value; and the marks of the key."""
    if p >= limit or byte_at(p) != QUOTE:
        return 0, 0
    p, marks = string_end(p + 1, limit)
    if p == 0:
        return 0, marks
    p = behind_space(p + 1, limit)
    if byte_at(p) != COLON:
        return 0, marks
    return behind_space(p + 1, limit), marks


@njit(**FAST)
def _behind_flat(p, limit):
    """Behind a value that holds no others, and its marks."""
    if byte_at(p) != QUOTE:
        return behind_scalar(p, limit), 0
    p, marks = string_end(p + 1, limit)
    return (p + 1 if p else 0), marks


@njit(**FAST)
def _behind_closing(p, limit, depth, objects):
    """Behind all that closes at `p`, 0 where that was not opened; and the levels that are left."""
    while depth:
        p = behind_space(p, limit)
        c = byte_at(p)
        if c == COMMA or p >= limit:
            break
        if c != (CLOSE_OBJECT if objects & 1 else CLOSE_LIST):
            return 0, depth, objects
        p += 1
        depth -= 1
        objects >>= 1
    return p, depth, objects


@njit(**FAST)
def _behind_nested(p, limit):
    """Behind a list or an object, and the marks of all that is in it."""
    marks = 0
    depth = 0
    objects = 0  # a bit per level, the lowest is the innermost
    while p < limit:
        c = byte_at(p)
        is_first = c == OPEN_OBJECT or c == OPEN_LIST
        if is_first:
            if depth == _DEEPEST:
                return 0, marks
            depth += 1
            objects = 2 * objects + (1 if c == OPEN_OBJECT else 0)
            p = behind_space(p + 1, limit)
            c = byte_at(p)
            is_first = c != CLOSE_OBJECT and c != CLOSE_LIST
        else:
            p, more = _behind_flat(p, limit)
            marks |= more
            if p == 0:
                return 0, marks
        if not is_first:
            p, depth, objects = _behind_closing(p, limit, depth, objects)
            if p == 0 or depth == 0:
                return p, marks
            p = behind_space(p + 1, limit)
        if objects & 1:
            p, more = behind_key(p, limit)
            marks |= more
            if p == 0:
                return 0, marks
    return 0, marks


@njit(**FAST)
def behind_value(p, limit):
    """Behind any value, and the marks of its texts."""
    if p >= limit:
        return 0, 0
    c = byte_at(p)
    if c == QUOTE:
        p, marks = string_end(p + 1, limit)
        return (p + 1 if p else 0), marks
    if c == OPEN_LIST or c == OPEN_OBJECT:
        return _behind_nested(p, limit)
    return behind_scalar(p, limit), 0
