"""Ids for texts and for pairs of numbers; `kernels.tables` describes the tables."""

import numpy as np
from numba import njit, typeof, types

from stepwhy.base.columns.kernels.tables import COUNT, SEED, words_of

try:
    from numba.core.options import DefaultOptions
except ImportError:
    DefaultOptions = None

PLAIN = {"error_model": "numpy", "nogil": True}
"""Options of all kernels."""

# Private to numba: compile without its runtime (NRT), which counts references to arrays whenever
# a function receives or drops one. Kernels allocate nothing, so they need no counts. The Kineto
# scanner reads 800 MB/s without and 67 MB/s with them. Without this option, kernels still work.
if hasattr(DefaultOptions, "_nrt"):
    PLAIN["_nrt"] = False

INLINE = {**PLAIN, "forceinline": True}
"""Options of small functions; a real call would return pairs of results through memory."""


def readonly(kind):
    """The type of an array that a kernel only reads; it accepts writable arrays, too."""
    return types.Array(kind, 1, "C", readonly=True)


TEXT = typeof(words_of(bytes(16)))
"""Type of what `words_of` returns."""

_FACTOR = 0x9E3779B97F4A7C1 * 8 + 5  # odd, and without a pattern
_SHIFT = 29
_HASH = 2


@njit(**INLINE)
def word_at(text, p):
    """The eight bytes from a position on; an unsigned index needs no test for a negative one."""
    return text[np.uint64(p)].word


@njit(**INLINE)
def _mixed(value, word):
    value = (value ^ word) * _FACTOR
    return value ^ (value >> _SHIFT)


@njit(**INLINE)
def _low_bytes(word, count):
    return word & ((1 << (8 * count)) - 1)


@njit(**INLINE)
def _hash(text, p, length, seed):
    value = _mixed(seed, length)
    end = p + length
    while p + 8 <= end:
        value = _mixed(value, word_at(text, p))
        p += 8
    if p < end:
        value = _mixed(value, _low_bytes(word_at(text, p), end - p))
    return _mixed(value, 0)


@njit(**INLINE)
def _equal(text, a, b, length):
    end = a + length
    while a + 8 <= end:
        if word_at(text, a) != word_at(text, b):
            return False
        a += 8
        b += 8
    return a == end or _low_bytes(word_at(text, a) ^ word_at(text, b), end - a) == 0


@njit(**INLINE)
def _new(table, slot, first, second, value):
    """The id of a new entry, -1 if the table is full."""
    number = table.state[COUNT]
    if number >= len(table.entries):
        return -1
    table.entries[np.uint64(number), 0] = first
    table.entries[np.uint64(number), 1] = second
    table.entries[np.uint64(number), _HASH] = value
    table.slots[np.uint64(slot)] = number + 1
    table.state[COUNT] = number + 1
    return number


@njit(**INLINE)
def number_of_text(table, text, p, length):
    """The id of a text at a position, -1 if the table is full."""
    slots, entries = table.slots, table.entries
    mask = len(slots) - 1
    value = _hash(text, p, length, table.state[SEED])
    slot = value & mask
    while True:
        number = slots[np.uint64(slot)] - 1
        if number < 0:
            return _new(table, slot, p, length, value)
        if entries[np.uint64(number), _HASH] == value and entries[np.uint64(number), 1] == length:
            if _equal(text, p, entries[np.uint64(number), 0], length):
                return number
        slot = (slot + 1) & mask


@njit(**INLINE)
def number_of_pair(table, a, b):
    """The id of a pair of numbers, -1 if the table is full."""
    slots, entries = table.slots, table.entries
    mask = len(slots) - 1
    # Mixed one after the other, because a ^ b is equal for many pairs of consecutive numbers.
    value = _mixed(_mixed(_mixed(table.state[SEED], a), b), 0)
    slot = value & mask
    while True:
        number = slots[np.uint64(slot)] - 1
        if number < 0:
            return _new(table, slot, a, b, value)
        if entries[np.uint64(number), 0] == a and entries[np.uint64(number), 1] == b:
            return number
        slot = (slot + 1) & mask
