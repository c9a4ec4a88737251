"""One key of a record and its value: where what is known goes, all else is skipped.

Fields of a record lie in memory as int64, at `record` plus the offsets below.
"""

from numba import njit

from stepwhy.native.kernels.json_numbers import ABSENT, BEYOND, integer, nanoseconds
from stepwhy.native.kernels.json_text import (
    ESCAPED,
    FAST,
    OPEN_OBJECT,
    QUOTE,
    behind_value,
    is_null,
    string_end,
)
from stepwhy.native.memory import byte_at, put_word, word_at

# Integers, ABSENT where they are not told.
(CORRELATION, SEQUENCE, FORWARD, SIZE, BYTES, CHANGE, ADDRESS, ALLOCATED, RESERVED,
 DEVICE_TYPE, DEVICE_ID) = range(0, 8 * 11, 8)  # fmt: skip
_LAST_INTEGER = DEVICE_ID
# Times in ns, BEYOND where they are not told.
START, DUR = 88, 96
# Texts: where they begin, and behind each where they end.
CAT, NAME, STACK, PID, TID, DEVICE, STREAM = range(104, 104 + 16 * 7, 16)
_LAST_TEXT = STREAM + 8
# The phase's character; marks of all texts, of those that say what a record is; whether a name of
# a thread is that of a stream; whether there were arguments.
PHASE, MARKS, ESCAPES, STREAM_NAME, HAS_ARGS = range(_LAST_TEXT + 8, _LAST_TEXT + 48, 8)
SIZE_OF_RECORD = HAS_ARGS + 8


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
    """Forget the record before; `begin` is where the new one begins."""
    for field in range(0, _LAST_INTEGER + 8, 8):
        put_word(record + field, ABSENT)
    put_word(record + START, BEYOND)
    put_word(record + DUR, BEYOND)
    for field in range(CAT, _LAST_TEXT + 8, 8):
        put_word(record + field, begin)
    for field in range(PHASE, SIZE_OF_RECORD, 8):
        put_word(record + field, 0)


@njit(**FAST)
def _mark(record, marks):
    put_word(record + MARKS, word_at(record + MARKS) | marks)


@njit(**FAST)
def _skipped(record, p, limit):
    p, marks = behind_value(p, limit)
    _mark(record, marks)
    return p


@njit(**FAST)
def _integer(record, field, p, limit):
    value, p = integer(p, limit)
    put_word(record + field, value)
    return p


@njit(**FAST)
def _time(record, field, p, limit):
    value, p = nanoseconds(p, limit)
    put_word(record + field, value)
    return p


@njit(**FAST)
def _text(record, field, p, limit):
    """Keep what stands between quotes."""
    if p >= limit or byte_at(p) != QUOTE:
        return 0
    end, marks = string_end(p + 1, limit)
    _mark(record, marks)
    put_word(record + field, p + 1)
    put_word(record + field + 8, end)
    return end + 1 if end else 0


@njit(**FAST)
def _title(record, field, p, limit):
    """Keep a text that decides what the record is."""
    marks = word_at(record + MARKS)
    put_word(record + MARKS, 0)
    p = _text(record, field, p, limit)
    escapes = word_at(record + MARKS) & ESCAPED
    put_word(record + ESCAPES, word_at(record + ESCAPES) | escapes)
    _mark(record, marks)
    return p


@njit(**FAST)
def _token(record, field, p, limit):
    """Keep a text with its quotes, an integer or null as it is written."""
    if p >= limit:
        return 0
    put_word(record + field, p)
    if byte_at(p) == QUOTE:
        end, marks = string_end(p + 1, limit)
        _mark(record, marks)
        p = end + 1 if end else 0
    else:
        _, p = integer(p, limit)
    put_word(record + field + 8, p)
    return p


@njit(**FAST)
def _call_stack(record, p, limit, begin):
    if not is_null(p):
        return _text(record, STACK, p, limit)
    put_word(record + STACK, begin)
    put_word(record + STACK + 8, begin)
    return p + 4


@njit(**FAST)
def _phase(record, p):
    """One plain character between quotes."""
    phase = byte_at(p + 1)
    put_word(record + PHASE, phase)
    plain = byte_at(p) == QUOTE and byte_at(p + 2) == QUOTE and phase != QUOTE
    return p + 3 if plain and 32 < phase < 127 else 0


@njit(**FAST)
def _name_of_thread(record, p, limit):
    """Whether the argument `name` is that of a stream."""
    named = p < limit and word_at(p) == _STREAM_NAME_BEGINS
    put_word(record + STREAM_NAME, 1 if named else 0)
    p, marks = behind_value(p, limit)
    _mark(record, marks)
    put_word(record + ESCAPES, word_at(record + ESCAPES) | (marks & ESCAPED))
    return p


@njit(**FAST)
def read_argument(record, key, p, limit):
    """Read the value at `p` of an argument, whose key is at `key`; the address behind it, or 0."""
    word = word_at(key)
    if word & _SIX == _DEVICE:
        return _token(record, DEVICE, p, limit)
    if word & _SIX == _STREAM:
        return _token(record, STREAM, p, limit)
    if word & _FIVE == _BYTES:
        return _integer(record, BYTES, p, limit)
    if word & _FIVE == _CHANGE:
        return _integer(record, CHANGE, p, limit)
    if word & _FOUR == _NAME:
        return _name_of_thread(record, p, limit)
    if word & _FOUR == _SIZE:
        return _integer(record, SIZE, p, limit)
    if word & _FOUR == _ADDR:
        return _integer(record, ADDRESS, p, limit)
    return _read_long_argument(record, word, word_at(key + 8), p, limit)


@njit(**FAST)
def _read_long_argument(record, word, rest, p, limit):
    """The same for keys of more than eight characters."""
    if word == _CORRELATION and rest & _THREE == _CORRELATION_2:
        return _integer(record, CORRELATION, p, limit)
    if word == _SEQUENCE and rest == _SEQUENCE_2:
        return _integer(record, SEQUENCE, p, limit)
    if word == _FORWARD and rest & _FIVE == _FORWARD_2:
        return _integer(record, FORWARD, p, limit)
    if word == _STACK and rest & _TWO == _STACK_2:
        return _call_stack(record, p, limit, p)
    if word == _TYPE and rest & _THREE == _TYPE_2:
        return _integer(record, DEVICE_TYPE, p, limit)
    if word == _ID and rest & ((1 << 16) - 1) == _ID_2:
        return _integer(record, DEVICE_ID, p, limit)
    if word == _ALLOCATED and rest == _ALLOCATED_2:
        return _integer(record, ALLOCATED, p, limit)
    if word == _RESERVED and rest & _SIX == _RESERVED_2:
        return _integer(record, RESERVED, p, limit)
    return _skipped(record, p, limit)


@njit(**FAST)
def read_field(record, key, p, limit):
    """Read the value at `p` of a record's key; the address behind it, or 0."""
    word = word_at(key)
    if word & _TWO == _PH:
        return _phase(record, p)
    if word & _TWO == _TS:
        return _time(record, START, p, limit)
    if word & _THREE == _CAT:
        return _title(record, CAT, p, limit)
    if word & _THREE == _PID:
        return _token(record, PID, p, limit)
    if word & _THREE == _TID:
        return _token(record, TID, p, limit)
    if word & _THREE == _DUR:
        return _time(record, DUR, p, limit)
    if word & _FOUR == _NAME:
        return _title(record, NAME, p, limit)
    return _skipped(record, p, limit)


@njit(**FAST)
def begins_arguments(record, key, p):
    """Whether this is the object of the arguments, the first one of its record."""
    if word_at(key) & _FOUR != _ARGS or byte_at(p) != OPEN_OBJECT:
        return False
    if word_at(record + HAS_ARGS):
        return False
    put_word(record + HAS_ARGS, 1)
    return True


@njit(**FAST)
def is_odd_arguments(record, key, p):
    """Whether this is a key of arguments, but no object, or not the first one."""
    if word_at(key) & _FOUR != _ARGS:
        return False
    return word_at(record + HAS_ARGS) == 1 or not is_null(p)
