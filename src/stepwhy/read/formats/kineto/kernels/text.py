"""Reads JSON values strictly; the general decoder reads whatever is not plain JSON.

A text is an array from `base.columns.kernels.tables.words_of`: `text[p]` holds the eight bytes
from position p on. All positions are int64. 64 bytes can be read from each position up to `limit`,
and no function reads further. A function returns position 0 for input that it cannot read.
"""

from numba import njit

from stepwhy.base.columns.kernels.numbering import INLINE as FAST
from stepwhy.base.columns.kernels.numbering import word_at

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
MOST_DIGITS = 18  # every integer of so many digits fits in int64


_ONES = 0x0101010101010101
_TOPS = 0x8080808080808080 - (1 << 64)  # the highest bit of each byte
_QUOTES, _BACKSLASHES, _SPACES = QUOTE * _ONES, BACKSLASH * _ONES, _SPACE * _ONES


@njit(**FAST)
def byte_at(text, p):
    """The byte at a position."""
    return word_at(text, p) & 0xFF


@njit(**FAST)
def _string_marks(word):
    """The bytes of a word that end a plain run of a string: quote, backslash, control character.

    The lowest mark is exact, and the higher ones may be wrong. Source: "Bit Twiddling Hacks",
    Sean Eron Anderson, on finding a zero byte in a word.
    """
    quote = word ^ _QUOTES
    escape = word ^ _BACKSLASHES
    found = ((quote - _ONES) & ~quote) | ((escape - _ONES) & ~escape)
    return (found | ((word - _SPACES) & ~word)) & _TOPS


@njit(**FAST)
def after_space(text, p, limit):
    """The first position that is not white space."""
    c = byte_at(text, p)
    while (c == _SPACE or c == _NEWLINE or c == _TAB or c == _RETURN) and p < limit:
        p += 1
        c = byte_at(text, p)
    return p


@njit(**FAST)
def _hex_digit(c):
    return ZERO <= c <= NINE or 65 <= (c & ~32) <= 70


@njit(**FAST)
def _after_escape(text, p):
    """The position after an escape sequence, 0 for half a surrogate pair."""
    c = byte_at(text, p + 1)
    if c == _U:
        for i in range(2, 6):
            if not _hex_digit(byte_at(text, p + i)):
                return 0
        if (byte_at(text, p + 2) & ~32) == 68 and byte_at(text, p + 3) >= 56:
            return 0
        return p + 6
    if c == QUOTE or c == BACKSLASH or c == _N or c == _SLASH:
        return p + 2
    if c == _T or c == _R or c == _B or c == _F:
        return p + 2
    return 0


@njit(**FAST)
def string_end(text, p, limit):
    """The closing quote of the string whose first character is at `p`, and its marks."""
    marks = 0
    while p < limit:
        word = word_at(text, p)
        found = _string_marks(word)
        if found == 0:
            if word & _TOPS:
                marks |= HIGH
            p += 8
            continue
        below = (found - 1) & ~found
        if word & _TOPS & below:
            marks |= HIGH
        # Number of bytes below the lowest mark.
        p += (((below & _ONES) * _ONES >> 56) & 0xFF) - 1
        c = byte_at(text, p)
        if c == QUOTE:
            return p, marks
        if c < _CONTROL:
            return 0, marks
        p = _after_escape(text, p)
        if p == 0:
            return 0, marks
        marks |= ESCAPED
    return 0, marks


@njit(**FAST)
def _after_digits(text, p, limit):
    c = byte_at(text, p)
    while ZERO <= c <= NINE and p < limit:
        p += 1
        c = byte_at(text, p)
    return p


@njit(**FAST)
def _after_whole(text, p, limit):
    """The position after an integer part, 0 if it is empty or has a leading zero."""
    if byte_at(text, p) == ZERO:
        return p + 1
    end = _after_digits(text, p, limit)
    return end if end > p else 0


@njit(**FAST)
def after_number(text, p, limit):
    """The position after a number, 0 if there is none."""
    if byte_at(text, p) == MINUS:
        p += 1
    p = _after_whole(text, p, limit)
    if p == 0:
        return 0
    if byte_at(text, p) == POINT:
        end = _after_digits(text, p + 1, limit)
        if end == p + 1:
            return 0
        p = end
    c = byte_at(text, p)
    if c == _E or c == _SMALL_E:
        p += 1
        c = byte_at(text, p)
        if c == _PLUS or c == MINUS:
            p += 1
        end = _after_digits(text, p, limit)
        if end == p:
            return 0
        p = end
    return p


@njit(**FAST)
def is_null(text, p):
    """Whether the value at a position is null."""
    return (word_at(text, p) & _FOUR_BYTES) == _NULL


@njit(**FAST)
def after_scalar(text, p, limit):
    """The position after a number, true, false or null; 0 for anything else."""
    if p >= limit:
        return 0
    c = byte_at(text, p)
    if c == MINUS or ZERO <= c <= NINE:
        return after_number(text, p, limit)
    word = word_at(text, p) & _FOUR_BYTES
    if word == _TRUE or word == _NULL:
        return p + 4
    if word == _FALS and byte_at(text, p + 4) == _SMALL_E:
        return p + 5
    return 0


@njit(**FAST)
def after_key(text, p, limit):
    """The position of the value after a key and its colon, and the marks of the key."""
    if p >= limit or byte_at(text, p) != QUOTE:
        return 0, 0
    p, marks = string_end(text, p + 1, limit)
    if p == 0:
        return 0, marks
    p = after_space(text, p + 1, limit)
    if byte_at(text, p) != COLON:
        return 0, marks
    return after_space(text, p + 1, limit), marks


@njit(**FAST)
def _after_flat(text, p, limit):
    """The position after a string or scalar, and its marks."""
    if byte_at(text, p) != QUOTE:
        return after_scalar(text, p, limit), 0
    p, marks = string_end(text, p + 1, limit)
    return (p + 1 if p else 0), marks


@njit(**FAST)
def _after_closing(text, p, limit, depth, objects):
    """The position after closing brackets, 0 if one does not match; and the levels still open."""
    while depth:
        p = after_space(text, p, limit)
        c = byte_at(text, p)
        if c == COMMA or p >= limit:
            break
        if c != (CLOSE_OBJECT if objects & 1 else CLOSE_LIST):
            return 0, depth, objects
        p += 1
        depth -= 1
        objects >>= 1
    return p, depth, objects


@njit(**FAST)
def _after_nested(text, p, limit):
    """The position after a list or an object, and the marks of all strings in it."""
    marks = 0
    depth = 0
    objects = 0  # a bit per level, the lowest is the innermost
    while p < limit:
        c = byte_at(text, p)
        is_first = c == OPEN_OBJECT or c == OPEN_LIST
        if is_first:
            if depth == _DEEPEST:
                return 0, marks
            depth += 1
            objects = 2 * objects + (1 if c == OPEN_OBJECT else 0)
            p = after_space(text, p + 1, limit)
            c = byte_at(text, p)
            is_first = c != CLOSE_OBJECT and c != CLOSE_LIST
        else:
            p, more = _after_flat(text, p, limit)
            marks |= more
            if p == 0:
                return 0, marks
        if not is_first:
            p, depth, objects = _after_closing(text, p, limit, depth, objects)
            if p == 0 or depth == 0:
                return p, marks
            p = after_space(text, p + 1, limit)
        if objects & 1:
            p, more = after_key(text, p, limit)
            marks |= more
            if p == 0:
                return 0, marks
    return 0, marks


@njit(**FAST)
def after_value(text, p, limit):
    """The position after any value, and the marks of its strings."""
    if p >= limit:
        return 0, 0
    c = byte_at(text, p)
    if c == QUOTE:
        p, marks = string_end(text, p + 1, limit)
        return (p + 1 if p else 0), marks
    if c == OPEN_LIST or c == OPEN_OBJECT:
        return _after_nested(text, p, limit)
    return after_scalar(text, p, limit), 0
