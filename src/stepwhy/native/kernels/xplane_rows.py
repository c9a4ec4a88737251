"""Rows of events that belong together: which encloses which, and which are alike.

Columns are addresses; starts and durations are int64, all others int32.
"""

from numba import njit

from stepwhy.native.kernels.wire import FAST
from stepwhy.native.memory import byte_at, half_at, put_half, word_at

_FACTOR = -7046029254386353131  # odd, and without a pattern
_WIDE, _NARROW = 8, 4
# Fields of `group_rows`: columns by address and width, the table of groups, twice as long as there
# is room for, the first row of each group, and the group of each row; all but columns int32.
COLUMNS, COLUMN_COUNT, ROWS, SLOTS, MASK, FIRST, ROOM, GROUP = range(0, 64, 8)


@njit(**FAST)
def enclose_events(line, start_ns, dur_ns, rows, outer):
    """Find the innermost event that is still open when each one starts, -1 for none.

    What an event encloses lies between it and the candidate that is over: the next candidate is
    what encloses that one.
    """
    for row in range(rows):
        at = row - 1
        if at >= 0 and half_at(line + 4 * at) != half_at(line + 4 * row):
            at = -1
        start = word_at(start_ns + 8 * row)
        while at >= 0 and word_at(start_ns + 8 * at) + word_at(dur_ns + 8 * at) <= start:
            at = half_at(outer + 4 * at)
        put_half(outer + 4 * row, at)
    return 0


@njit(**FAST)
def nearest_events(outer, holds, rows, found):
    """Find the innermost event around each one for which something holds, -1 for none."""
    for row in range(rows):
        at = half_at(outer + 4 * row)
        if at >= 0 and not byte_at(holds + at):
            at = half_at(found + 4 * at)
        put_half(found + 4 * row, at)
    return 0


@njit(**FAST)
def _value(column, row):
    """Of a row in a column that is told by its address and width."""
    address = word_at(column)
    width = word_at(column + 8)
    if width == _WIDE:
        return word_at(address + 8 * row)
    if width == _NARROW:
        return half_at(address + 4 * row)
    return byte_at(address + row)


@njit(**FAST)
def _hash(columns, end, row):
    value = 0
    while columns < end:
        value = (value ^ _value(columns, row)) * _FACTOR
        value ^= (value >> 29) & 0x7FFFFFFFF
        columns += 16
    return value


@njit(**FAST)
def _alike(columns, end, row, other):
    while columns < end:
        if _value(columns, row) != _value(columns, other):
            return False
        columns += 16
    return True


@njit(**FAST)
def group_rows(control):
    """Number rows that agree in all columns in the order of their first sight.

    Args:
        control: Address of the fields below.

    Returns:
        How many groups there are, -1 for more than there is room for.
    """
    columns = word_at(control + COLUMNS)
    end = columns + 16 * word_at(control + COLUMN_COUNT)
    slots = word_at(control + SLOTS)
    mask = word_at(control + MASK)
    first = word_at(control + FIRST)
    group = word_at(control + GROUP)
    groups = 0
    for row in range(word_at(control + ROWS)):
        slot = _hash(columns, end, row) & mask
        number = half_at(slots + 4 * slot) - 1
        while number >= 0 and not _alike(columns, end, row, half_at(first + 4 * number)):
            slot = (slot + 1) & mask
            number = half_at(slots + 4 * slot) - 1
        if number < 0:
            if groups == word_at(control + ROOM):
                return -1
            number = groups
            groups += 1
            put_half(first + 4 * number, row)
            put_half(slots + 4 * slot, groups)
        put_half(group + 4 * row, number)
    return groups
