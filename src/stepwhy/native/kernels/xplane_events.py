"""Events of an XPlane profile as columns, read from the bytes of the file in one sweep.

Only what a profiler writes is understood: an event in any other form is noted, and whoever called
reads it in another way. A sweep takes the address of int64 fields, those of `CONTROL` of
`stepwhy.importers.formats.xplane.sweep`. No byte outside of the data is read, whatever its lengths
say.

Source: tsl/profiler/protobuf/xplane.proto.
"""

from numba import njit

from stepwhy.native.kernels.interning import number_of_text
from stepwhy.native.kernels.wire import FAST, INLINE, varint
from stepwhy.native.memory import byte_at, half_at, put_half, put_word, word_at

# Why a sweep ended: at its goal, at something that is no event, or because a table is full.
DONE, STRANGE, FULL = range(3)

# Fields of the control block, in bytes.
(
    POSITION, GOAL, SAFE, ROW, ROOM, BASE_NS, NAMES, STARTS, DURATIONS,
    NAME_OF, COUNTS, ODD, ODD_COUNT, ODD_ROOM, WHICH, WHICH_COUNT, STATS, SHARED, SHARED_COUNT,
    ENTRIES, REFERENCES, TEXTS, TAG,
) = range(0, 8 * 23, 8)  # fmt: skip
# What is counted.
UNNAMED, SUMMED, UNTIMED = 0, 8, 16
# Of a wanted statistic: its columns of numbers and of texts, and whether they are filled.
NUMBERS, CODES, HAS_NUMBERS, HAS_CODES, STAT = 0, 8, 16, 24, 32
# Of a statistic that events of an entry share: which it is, its numbers and codes by entry.
SHARED_WHICH, SHARED_NUMBERS, SHARED_CODES, SHARED_STAT = 0, 8, 16, 24
# Of a table by id: one that is as long as the ids are large, and sorted ids beyond it.
DENSE, DENSE_COUNT, KEYS, VALUES, KEY_COUNT = 0, 8, 16, 24, 32

_EVENT = _STAT = 0x22
_METADATA = _STAT_ID = 0x08
_OFFSET, _DURATION, _OCCURRENCES = 0x10, 0x18, 0x28
_UINT, _INT, _TEXT, _REFERENCE = 0x18, 0x20, 0x2A, 0x38
_DOUBLE, _BYTES, _PACKED = 0x11, 0x32, 0x42
_MISSING = -(2**63)
_MORE = 0x80
_LARGEST_NS = 1 << 62
_WORD = 8  # bytes that an interned text must lie before the end of the data
_NOTHING, _NUMBER, _CODE, _TABLE_FULL, _ODD = range(5)


@njit(**FAST)
def looked_up(table, key, missing):
    """The int32 that a table has for an id."""
    if 0 <= key < word_at(table + DENSE_COUNT):
        return half_at(word_at(table + DENSE) + 4 * key)
    keys = word_at(table + KEYS)
    low, high = 0, word_at(table + KEY_COUNT)
    while low < high:
        middle = (low + high) >> 1
        if word_at(keys + 8 * middle) < key:
            low = middle + 1
        else:
            high = middle
    if low < word_at(table + KEY_COUNT) and word_at(keys + 8 * low) == key:
        return half_at(word_at(table + VALUES) + 4 * low)
    return missing


@njit(**FAST)
def walk_fields(control):
    """Pass over fields of a TAG from POSITION to the first that does not end by GOAL; how many."""
    at = word_at(control + POSITION)
    goal = word_at(control + GOAL)
    safe = word_at(control + SAFE)
    tag = word_at(control + TAG)
    count = 0
    while at < goal and byte_at(at) == tag:
        size, body = varint(at + 1, goal, safe)
        if body < 0 or size < 0 or size > goal - body:
            break
        at = body + size
        count += 1
    put_word(control + POSITION, at)
    return count


@njit(**FAST)
def _fill(address, count, value):
    for row in range(count):
        put_word(address + 8 * row, value)


@njit(**INLINE)
def _put_number(control, which, row, value):
    stat = word_at(control + STATS) + STAT * which
    column = word_at(stat + NUMBERS)
    if word_at(stat + HAS_NUMBERS) == 0:
        put_word(stat + HAS_NUMBERS, 1)
        _fill(column, word_at(control + ROOM), _MISSING)
    put_word(column + 8 * row, value)


@njit(**INLINE)
def _put_code(control, which, row, code):
    stat = word_at(control + STATS) + STAT * which
    put_word(stat + HAS_CODES, 1)
    put_half(word_at(stat + CODES) + 4 * row, code)


@njit(**INLINE)
def _statistic(control, at, end, safe, row):
    """Take over a statistic; what it was, and which."""
    if at + 2 > end or byte_at(at) != _STAT_ID:
        return _ODD, 0
    key = byte_at(at + 1)
    at += 2
    if key >= _MORE:
        key, at = varint(at - 1, end, safe)
        if at < 0:
            return _ODD, 0
    if at == end or key < 0 or key >= word_at(control + WHICH_COUNT):
        return _NOTHING, 0
    which = byte_at(word_at(control + WHICH) + key) - 1
    if which < 0:
        return _NOTHING, 0
    tag = byte_at(at)
    if tag == _DOUBLE or tag == _BYTES or tag == _PACKED:
        return _NOTHING, 0
    value, after = varint(at + 1, end, safe)
    if after < 0:
        return _ODD, 0
    if tag == _TEXT:
        if value != end - after or end > safe:
            return _ODD, 0
        number = number_of_text(word_at(control + TEXTS), after, value)
        if number < 0:
            return _TABLE_FULL, 0
        _put_code(control, which, row, -1 - number)
        return _CODE, which
    if after != end:
        return _ODD, 0
    if tag == _REFERENCE:
        _put_code(control, which, row, looked_up(word_at(control + REFERENCES), value, 0))
        return _CODE, which
    if tag == _INT or tag == _UINT:
        _put_number(control, which, row, value)
        return _NUMBER, which
    return _ODD, 0


@njit(**FAST)
def _forget(control, row, numbers, codes):
    """Take back what an event left in the columns of its row."""
    which = 0
    while numbers | codes:
        if numbers & 1:
            _put_number(control, which, row, _MISSING)
        if codes & 1:
            _put_code(control, which, row, 0)
        numbers >>= 1
        codes >>= 1
        which += 1


@njit(**FAST)
def _share(control, row, entry, numbers, codes):
    """Give an event the statistics of its entry that it has not itself."""
    shared = word_at(control + SHARED)
    for _ in range(word_at(control + SHARED_COUNT)):
        which = word_at(shared + SHARED_WHICH)
        of_numbers = word_at(shared + SHARED_NUMBERS)
        of_codes = word_at(shared + SHARED_CODES)
        if of_numbers and not numbers >> which & 1:
            value = word_at(of_numbers + 8 * entry)
            if value != _MISSING:
                _put_number(control, which, row, value)
        if of_codes and not codes >> which & 1:
            code = half_at(of_codes + 4 * entry)
            if code:
                _put_code(control, which, row, code)
        shared += SHARED_STAT


@njit(**FAST)
def _count(control, what):
    counts = word_at(control + COUNTS)
    put_word(counts + what, word_at(counts + what) + 1)


@njit(**FAST)
def _name(control, row, entry):
    """Store the name of an event; whether it has one."""
    name = half_at(word_at(control + NAME_OF) + 4 * entry) if entry >= 0 else 0
    put_half(word_at(control + NAMES) + 4 * row, name)
    return name != 0


@njit(**FAST)
def _time(control, row, offset, duration):
    """Store when an event was, in picoseconds from the start of its line; whether that can be."""
    base = word_at(control + BASE_NS)
    start = base + offset // 1000
    # Sums that leave the range of the integers come out negative, and so unusable.
    end = base + (offset + duration) // 1000
    put_word(word_at(control + STARTS) + 8 * row, start)
    put_word(word_at(control + DURATIONS) + 8 * row, end - start)
    return 0 <= start <= end < _LARGEST_NS


@njit(**FAST)
def _note_odd(control, at, row):
    """Note an event that is read in another way; whether there was room."""
    count = word_at(control + ODD_COUNT)
    if count == word_at(control + ODD_ROOM):
        return False
    put_word(word_at(control + ODD) + 16 * count, at)
    put_word(word_at(control + ODD) + 16 * count + 8, row)
    put_word(control + ODD_COUNT, count + 1)
    return True


@njit(**INLINE)
def _event(control, at, end, safe, row):
    """Read an event; what it is: see `_NOTHING` and the others."""
    entry_id = 0
    offset = 0
    duration = 0
    occurrences = 0
    numbers = 0
    codes = 0
    result = _NUMBER
    while at < end and result == _NUMBER:
        tag = byte_at(at)
        value, at = varint(at + 1, end, safe)
        if at < 0:
            result = _ODD
        elif tag == _STAT:
            if value < 0 or value > end - at:
                result = _ODD
            else:
                found, which = _statistic(control, at, at + value, safe, row)
                if found == _NUMBER:
                    numbers |= 1 << which
                elif found == _CODE:
                    codes |= 1 << which
                elif found != _NOTHING:
                    result = found
                at += value
        elif tag == _METADATA:
            entry_id = value
        elif tag == _OFFSET:
            offset = value
        elif tag == _DURATION:
            duration = value
        elif tag == _OCCURRENCES:
            occurrences = value
        else:
            result = _ODD
    if result == _NUMBER:
        entry = looked_up(word_at(control + ENTRIES), entry_id, -1)
        result = _NOTHING
        if not _name(control, row, entry):
            _count(control, UNNAMED)
        elif occurrences != 0:
            _count(control, SUMMED)
        elif not _time(control, row, offset, duration):
            _count(control, UNTIMED)
        else:
            _share(control, row, entry, numbers, codes)
            return _NUMBER
    _forget(control, row, numbers, codes)
    return result


@njit(**FAST)
def scan_events(control):
    """Read events from POSITION to GOAL, which `walk_fields` has passed, into rows from ROW on."""
    at = word_at(control + POSITION)
    goal = word_at(control + GOAL)
    safe = word_at(control + SAFE)
    row = word_at(control + ROW)
    room = word_at(control + ROOM)
    status = DONE
    while at < goal:
        size, body = varint(at + 1, goal, safe)
        if row >= room or byte_at(at) != _EVENT or body < 0 or size < 0 or size > goal - body:
            status = STRANGE
            break
        found = _event(control, body, body + size, safe, row)
        if found == _TABLE_FULL:
            status = FULL
            break
        if found == _ODD and not _note_odd(control, at, row):
            status = STRANGE
            break
        if found == _NUMBER:
            row += 1
        at = body + size
    put_word(control + POSITION, at)
    put_word(control + ROW, row)
    return status
