"""Reads one key of a record and its value, and skips keys that the importer does not use.

A record is an array of int64; the names below are its indices.
"""

from numba import njit

from stepwhy.importers.formats.kineto.kernels.numbers import ABSENT, BEYOND, integer, nanoseconds
from stepwhy.importers.formats.kineto.kernels.text import (
    ESCAPED,
    FAST,
    OPEN_OBJECT,
    QUOTE,
    after_value,
    byte_at,
    is_null,
    string_end,
    word_at,
)

# Integers, ABSENT if missing.
(CORRELATION, SEQUENCE, FORWARD, SIZE, BYTES, CHANGE, ADDRESS, ALLOCATED, RESERVED,
 DEVICE_TYPE, DEVICE_ID) = range(11)  # fmt: skip
_LAST_INTEGER = DEVICE_ID
# Times in ns, BEYOND if missing.
START, DUR = 11, 12
# Texts: the position of the first byte; the next field is the position after the last one.
CAT, NAME, STACK, PID, TID, DEVICE, STREAM = range(13, 13 + 2 * 7, 2)
_LAST_TEXT = STREAM + 1
# The phase, a character; marks of all texts; marks of the texts that decide what the record is;
# whether a thread is named after a stream; whether arguments were read.
PHASE, MARKS, ESCAPES, STREAM_NAME, HAS_ARGS = range(_LAST_TEXT + 1, _LAST_TEXT + 6)


def word_of(text, begin=0):
    """Eight bytes of a key as they are loaded, the others zero."""
    return int.from_bytes(text[begin : begin + 8].encode().ljust(8, b"\0"), "little")


_STREAM_NAME_BEGINS = word_of('"stream ')
# Short keys with the quote behind them.
_PH, _TS, _CAT, _PID, _TID, _DUR, _NAME, _ARGS = (
    word_of(key + '"') for key in ("ph", "ts", "cat", "pid", "tid", "dur", "name", "args")
)
_SIZE, _ADDR, _BYTES, _CHANGE, _DEVICE, _STREAM = (
    word_of(key + '"') for key in ("size", "Addr", "bytes", "Bytes", "device", "stream")
)
_TWO, _THREE, _FOUR, _FIVE, _SIX = ((1 << (8 * (n + 1))) - 1 for n in (2, 3, 4, 5, 6))
# Longer keys: their first eight bytes, and the rest with the quote behind it.
_CORRELATION, _CORRELATION_2 = word_of("correlation"), word_of('correlation"', 8)
_SEQUENCE, _SEQUENCE_2 = word_of("Sequence number"), word_of('Sequence number"', 8)
_FORWARD, _FORWARD_2 = word_of("Fwd thread id"), word_of('Fwd thread id"', 8)
_STACK, _STACK_2 = word_of("Call stack"), word_of('Call stack"', 8)
_TYPE, _TYPE_2 = word_of("Device Type"), word_of('Device Type"', 8)
_ID, _ID_2 = word_of("Device Id"), word_of('Device Id"', 8)
_ALLOCATED, _ALLOCATED_2 = word_of("Total Allocated"), word_of('Total Allocated"', 8)
_RESERVED, _RESERVED_2 = word_of("Total Reserved"), word_of('Total Reserved"', 8)


@njit(**FAST)
def clear(record, begin):
    """Reset all fields before a record that begins at a position."""
    for field in range(_LAST_INTEGER + 1):
        record[field] = ABSENT
    record[START] = BEYOND
    record[DUR] = BEYOND
    for field in range(CAT, _LAST_TEXT + 1):
        record[field] = begin
    for field in range(PHASE, HAS_ARGS + 1):
        record[field] = 0


@njit(**FAST)
def _mark(record, marks):
    record[MARKS] = record[MARKS] | marks


@njit(**FAST)
def _skipped(text, record, p, limit):
    p, marks = after_value(text, p, limit)
    _mark(record, marks)
    return p


@njit(**FAST)
def _integer(text, record, field, p, limit):
    value, p = integer(text, p, limit)
    record[field] = value
    return p


@njit(**FAST)
def _time(text, record, field, p, limit):
    value, p = nanoseconds(text, p, limit)
    record[field] = value
    return p


@njit(**FAST)
def _text(text, record, field, p, limit):
    """Note where a string begins and ends, without its quotes."""
    if p >= limit or byte_at(text, p) != QUOTE:
        return 0
    end, marks = string_end(text, p + 1, limit)
    _mark(record, marks)
    record[field] = p + 1
    record[field + 1] = end
    return end + 1 if end else 0


@njit(**FAST)
def _title(text, record, field, p, limit):
    """The same for a string that decides what the record is."""
    marks = record[MARKS]
    record[MARKS] = 0
    p = _text(text, record, field, p, limit)
    escapes = record[MARKS] & ESCAPED
    record[ESCAPES] = record[ESCAPES] | escapes
    _mark(record, marks)
    return p


@njit(**FAST)
def _token(text, record, field, p, limit):
    """Note where a string with its quotes, an integer or null begins and ends."""
    if p >= limit:
        return 0
    record[field] = p
    if byte_at(text, p) == QUOTE:
        end, marks = string_end(text, p + 1, limit)
        _mark(record, marks)
        p = end + 1 if end else 0
    else:
        _, p = integer(text, p, limit)
    record[field + 1] = p
    return p


@njit(**FAST)
def _call_stack(text, record, p, limit, begin):
    if not is_null(text, p):
        return _text(text, record, STACK, p, limit)
    record[STACK] = begin
    record[STACK + 1] = begin
    return p + 4


@njit(**FAST)
def _phase(text, record, p):
    """One plain character between quotes."""
    phase = byte_at(text, p + 1)
    record[PHASE] = phase
    plain = byte_at(text, p) == QUOTE and byte_at(text, p + 2) == QUOTE and phase != QUOTE
    return p + 3 if plain and 32 < phase < 127 else 0


@njit(**FAST)
def _name_of_thread(text, record, p, limit):
    """Note whether the argument `name` names a stream."""
    named = p < limit and word_at(text, p) == _STREAM_NAME_BEGINS
    record[STREAM_NAME] = 1 if named else 0
    p, marks = after_value(text, p, limit)
    _mark(record, marks)
    record[ESCAPES] = record[ESCAPES] | (marks & ESCAPED)
    return p


@njit(**FAST)
def read_argument(text, record, key, p, limit):
    """Read the value at `p` of the argument whose key is at `key`; the position after it, or 0."""
    word = word_at(text, key)
    if word & _SIX == _DEVICE:
        return _token(text, record, DEVICE, p, limit)
    if word & _SIX == _STREAM:
        return _token(text, record, STREAM, p, limit)
    if word & _FIVE == _BYTES:
        return _integer(text, record, BYTES, p, limit)
    if word & _FIVE == _CHANGE:
        return _integer(text, record, CHANGE, p, limit)
    if word & _FOUR == _NAME:
        return _name_of_thread(text, record, p, limit)
    if word & _FOUR == _SIZE:
        return _integer(text, record, SIZE, p, limit)
    if word & _FOUR == _ADDR:
        return _integer(text, record, ADDRESS, p, limit)
    return _read_long_argument(text, record, word, word_at(text, key + 8), p, limit)


@njit(**FAST)
def _read_long_argument(text, record, word, rest, p, limit):
    """The same for keys of more than eight characters."""
    if word == _CORRELATION and rest & _THREE == _CORRELATION_2:
        return _integer(text, record, CORRELATION, p, limit)
    if word == _SEQUENCE and rest == _SEQUENCE_2:
        return _integer(text, record, SEQUENCE, p, limit)
    if word == _FORWARD and rest & _FIVE == _FORWARD_2:
        return _integer(text, record, FORWARD, p, limit)
    if word == _STACK and rest & _TWO == _STACK_2:
        return _call_stack(text, record, p, limit, p)
    if word == _TYPE and rest & _THREE == _TYPE_2:
        return _integer(text, record, DEVICE_TYPE, p, limit)
    if word == _ID and rest & ((1 << 16) - 1) == _ID_2:
        return _integer(text, record, DEVICE_ID, p, limit)
    if word == _ALLOCATED and rest == _ALLOCATED_2:
        return _integer(text, record, ALLOCATED, p, limit)
    if word == _RESERVED and rest & _SIX == _RESERVED_2:
        return _integer(text, record, RESERVED, p, limit)
    return _skipped(text, record, p, limit)


@njit(**FAST)
def read_field(text, record, key, p, limit):
    """Read the value at `p` of the field whose key is at `key`; the position after it, or 0."""
    word = word_at(text, key)
    if word & _TWO == _PH:
        return _phase(text, record, p)
    if word & _TWO == _TS:
        return _time(text, record, START, p, limit)
    if word & _THREE == _CAT:
        return _title(text, record, CAT, p, limit)
    if word & _THREE == _PID:
        return _token(text, record, PID, p, limit)
    if word & _THREE == _TID:
        return _token(text, record, TID, p, limit)
    if word & _THREE == _DUR:
        return _time(text, record, DUR, p, limit)
    if word & _FOUR == _NAME:
        return _title(text, record, NAME, p, limit)
    return _skipped(text, record, p, limit)


@njit(**FAST)
def begins_arguments(text, record, key, p):
    """Whether an object of arguments begins here, the first one of its record."""
    if word_at(text, key) & _FOUR != _ARGS or byte_at(text, p) != OPEN_OBJECT:
        return False
    if record[HAS_ARGS]:
        return False
    record[HAS_ARGS] = 1
    return True


@njit(**FAST)
def is_odd_arguments(text, record, key, p):
    """Whether the key is `args`, but its value is no object, or not the first one."""
    if word_at(text, key) & _FOUR != _ARGS:
        return False
    return record[HAS_ARGS] == 1 or not is_null(text, p)
