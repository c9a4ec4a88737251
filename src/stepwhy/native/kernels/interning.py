"""Numbers for texts and for pairs of numbers, in the order of their first sight.

Both are tables with open addressing: a slot holds the number plus one, 0 where it is free. Who owns
them keeps them at most half full. A table is told by the address of int64 fields in memory; one of
them is a random seed, so that no file can be made of texts whose hashes are equal.
"""

from numba import njit

from stepwhy.native.kernels.json_text import FAST
from stepwhy.native.memory import byte_at, put_byte, put_word, word_at

# Fields of the table of texts.
SLOTS, MASK, COUNT, ROOM, ENTRIES, ARENA, ARENA_USED, ARENA_ROOM, SEED = range(0, 72, 8)
# An entry of it: address of the text's copy, length, hash.
_ADDRESS, _LENGTH, _HASH, _ENTRY = 0, 8, 16, 24
# Fields of the table of pairs are the same but for its arena; an entry of it: both numbers, hash.

_FACTOR = 0x9E3779B97F4A7C1 * 8 + 5  # odd, and without a pattern
_SHIFT = 29


@njit(**FAST)
def _mixed(value, word):
    value = (value ^ word) * _FACTOR
    return value ^ (value >> _SHIFT)


@njit(**FAST)
def _low_bytes(word, count):
    return word & ((1 << (8 * count)) - 1)


@njit(**FAST)
def _hash(p, length, seed):
    value = _mixed(seed, length)
    end = p + length
    while p + 8 <= end:
        value = _mixed(value, word_at(p))
        p += 8
    if p < end:
        value = _mixed(value, _low_bytes(word_at(p), end - p))
    return _mixed(value, 0)


@njit(**FAST)
def _equal(a, b, length):
    end = a + length
    while a + 8 <= end:
        if word_at(a) != word_at(b):
            return False
        a += 8
        b += 8
    return a == end or _low_bytes(word_at(a) ^ word_at(b), end - a) == 0


@njit(**FAST)
def number_of_text(table, p, length):
    """The number of a text, -1 where there is no more room."""
    mask = word_at(table + MASK)
    slots = word_at(table + SLOTS)
    entries = word_at(table + ENTRIES)
    value = _hash(p, length, word_at(table + SEED))
    slot = value & mask
    while True:
        number = word_at(slots + 8 * slot) - 1
        if number < 0:
            break
        entry = entries + _ENTRY * number
        if word_at(entry + _HASH) == value and word_at(entry + _LENGTH) == length:
            if _equal(p, word_at(entry + _ADDRESS), length):
                return number
        slot = (slot + 1) & mask
    return _new_text(table, slot, p, length, value)


@njit(**FAST)
def _new_text(table, slot, p, length, value):
    number = word_at(table + COUNT)
    used = word_at(table + ARENA_USED)
    if number >= word_at(table + ROOM) or used + length + 8 > word_at(table + ARENA_ROOM):
        return -1
    copy = word_at(table + ARENA) + used
    for i in range(length):
        put_byte(copy + i, byte_at(p + i))
    entry = word_at(table + ENTRIES) + _ENTRY * number
    put_word(entry + _ADDRESS, copy)
    put_word(entry + _LENGTH, length)
    put_word(entry + _HASH, value)
    put_word(word_at(table + SLOTS) + 8 * slot, number + 1)
    put_word(table + COUNT, number + 1)
    put_word(table + ARENA_USED, used + length)
    return number


@njit(**FAST)
def number_of_pair(table, a, b):
    """The number of a pair, -1 where there is no more room."""
    mask = word_at(table + MASK)
    slots = word_at(table + SLOTS)
    entries = word_at(table + ENTRIES)
    # One after the other: a ^ b alone is equal for many pairs of consecutive numbers.
    value = _mixed(_mixed(_mixed(word_at(table + SEED), a), b), 0)
    slot = value & mask
    while True:
        number = word_at(slots + 8 * slot) - 1
        if number < 0:
            break
        entry = entries + _ENTRY * number
        if word_at(entry) == a and word_at(entry + 8) == b:
            return number
        slot = (slot + 1) & mask
    number = word_at(table + COUNT)
    if number >= word_at(table + ROOM):
        return -1
    entry = entries + _ENTRY * number
    put_word(entry, a)
    put_word(entry + 8, b)
    put_word(entry + _HASH, value)
    put_word(slots + 8 * slot, number + 1)
    put_word(table + COUNT, number + 1)
    return number
