"""Reads one key of a record and its value, and skips keys that the importer does not use.

A record is an array of int64; the names below are its indices.
"""

import numpy as np
from numba import njit

from stepwhy.read.formats.kineto.kernels.numbers import ABSENT, BEYOND, integer, nanoseconds
from stepwhy.read.formats.kineto.kernels.text import (
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


def _mask(count):
    """The lowest bytes of a word."""
    return (1 << 8 * count) - 1 if count < 8 else -1


def _key(text, field):
    """A key and its quote as two words, each after the mask of its bytes; then its field."""
    key = text + '"'
    first, rest = min(len(key), 8), max(len(key) - 8, 0)
    return _mask(first), word_of(key), _mask(rest), word_of(key, 8), field


_FIELDS = np.array(
    [
        _key("ph", PHASE),
        _key("ts", START),
        _key("cat", CAT),
        _key("pid", PID),
        _key("tid", TID),
        _key("dur", DUR),
        _key("name", NAME),
    ]
)
_ARGUMENTS = np.array(
    [
        _key("device", DEVICE),
        _key("stream", STREAM),
        _key("bytes", BYTES),
        _key("Bytes", CHANGE),
        _key("name", STREAM_NAME),
        _key("size", SIZE),
        _key("Addr", ADDRESS),
        _key("correlation", CORRELATION),
        _key("Sequence number", SEQUENCE),
        _key("Fwd thread id", FORWARD),
        _key("Call stack", STACK),
        _key("Device Type", DEVICE_TYPE),
        _key("Device Id", DEVICE_ID),
        _key("Total Allocated", ALLOCATED),
        _key("Total Reserved", RESERVED),
    ]
)
_ARGS_MASK, _ARGS, *_ = _key("args", HAS_ARGS)
_NO_FIELD = -1


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
def _call_stack(text, record, p, limit):
    if not is_null(text, p):
        return _text(text, record, STACK, p, limit)
    record[STACK] = p
    record[STACK + 1] = p
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
def _field_of(keys, text, key):
    """The field of a key, `_NO_FIELD` if it is not among the keys."""
    word, rest = word_at(text, key), word_at(text, key + 8)
    for row in range(len(keys)):
        if word & keys[row, 0] == keys[row, 1] and rest & keys[row, 2] == keys[row, 3]:
            return keys[row, 4]
    return _NO_FIELD


@njit(**FAST)
def _read(text, record, field, p, limit):
    """Read the value of a field at `p`; the position after it, or 0."""
    if field == _NO_FIELD:
        return _skipped(text, record, p, limit)
    if field <= _LAST_INTEGER:
        return _integer(text, record, field, p, limit)
    if field <= DUR:
        return _time(text, record, field, p, limit)
    if field <= NAME:
        return _title(text, record, field, p, limit)
    if field == STACK:
        return _call_stack(text, record, p, limit)
    if field == PHASE:
        return _phase(text, record, p)
    if field == STREAM_NAME:
        return _name_of_thread(text, record, p, limit)
    return _token(text, record, field, p, limit)


@njit(**FAST)
def read_value(text, record, key, p, limit, in_args):
    """Read the value at `p` of the field or argument at `key`; the position after it, or 0."""
    field = _field_of(_ARGUMENTS if in_args else _FIELDS, text, key)
    return _read(text, record, field, p, limit)


@njit(**FAST)
def begins_arguments(text, record, key, p):
    """Whether an object of arguments begins here, the first one of its record."""
    if word_at(text, key) & _ARGS_MASK != _ARGS or byte_at(text, p) != OPEN_OBJECT:
        return False
    if record[HAS_ARGS]:
        return False
    record[HAS_ARGS] = 1
    return True


@njit(**FAST)
def is_odd_arguments(text, record, key, p):
    """Whether the key is `args`, but its value is no object, or not the first one."""
    if word_at(text, key) & _ARGS_MASK != _ARGS:
        return False
    return record[HAS_ARGS] == 1 or not is_null(text, p)
