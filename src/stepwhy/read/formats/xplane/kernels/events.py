"""Scans the events of an XPlane profile into columns, in one sweep over the bytes of the file.

It reads events as profilers write them. It notes the position of an event in any other form, and
the caller reads it with protobuf. It never reads outside of the data, even if lengths are wrong.

Source: tsl/profiler/protobuf/xplane.proto.
"""

import numpy as np
from numba import int32, int64, njit, typeof, types, void

from stepwhy.base.columns.kernels.numbering import INLINE, PLAIN, TEXT, number_of_text, readonly
from stepwhy.base.columns.kernels.tables import Texts
from stepwhy.read.formats.xplane.kernels.layout import (
    DONE,
    FULL,
    MISSING,
    UNREADABLE,
    Columns,
    IdTable,
    Lookups,
    Shared,
    Wire,
    new_state,
)
from stepwhy.read.formats.xplane.kernels.wire import byte_at, varint

_EVENT = _STAT = 0x22
_METADATA = _STAT_ID = 0x08
_OFFSET, _DURATION, _OCCURRENCES = 0x10, 0x18, 0x28
_UINT, _INT, _TEXT, _REFERENCE = 0x18, 0x20, 0x2A, 0x38
_DOUBLE, _BYTES, _PACKED = 0x11, 0x32, 0x42
_DOUBLE_BYTES = 9  # with the tag
_MORE = 0x80
_LARGEST_NS = 1 << 62
_NOTHING, _NUMBER, _CODE, _TABLE_FULL, _ODD = range(5)


_TAIL = 16  # bytes at the end of the data that are read one by one


@njit(**PLAIN)
def looked_up(table, key, missing):
    """Look up an id in an `IdTable`."""
    if 0 <= key < len(table.dense):
        return np.int64(table.dense[np.uint64(key)])
    low, high = 0, len(table.keys)
    while low < high:
        middle = (low + high) >> 1
        if table.keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    if low < len(table.keys) and table.keys[low] == key:
        return np.int64(table.values[low])
    return missing


_WIRE = types.NamedTuple((types.Array(types.uint8, 1, "C", readonly=True), TEXT), Wire)


@njit(types.UniTuple(int64, 2)(_WIRE, int64, int64, int64), cache=True, **PLAIN)
def walk_fields(wire, at, goal, tag):
    """Skip consecutive fields with a tag that end by a goal; how many, and the end of the last."""
    safe = len(wire.octets) - _TAIL
    count = 0
    while at < goal and byte_at(wire, at) == tag:
        size, body = varint(wire, at + 1, goal, safe)
        if body < 0 or size < 0 or size > goal - body:
            break
        at = body + size
        count += 1
    return count, at


@njit(**INLINE)
def _put_number(columns, which, row, value):
    if not columns.has_numbers[which]:
        columns.has_numbers[which] = True
        for other in range(columns.room[0]):
            columns.numbers[which, other] = MISSING
    columns.numbers[which, row] = value


@njit(**INLINE)
def _put_code(columns, which, row, code):
    columns.has_codes[which] = True
    columns.codes[which, row] = code


@njit(**INLINE)
def _is_whole(wire, tag, at, end, safe):
    """Whether the rest of a statistic is one value, as profilers write it; others may be damage."""
    if tag == _DOUBLE:
        return end - at == _DOUBLE_BYTES
    value, after = varint(wire, at + 1, end, safe)
    if tag == _TEXT or tag == _BYTES or tag == _PACKED:
        return after >= 0 and value == end - after
    return after == end and (tag == _INT or tag == _UINT or tag == _REFERENCE)


@njit(**INLINE)
def _statistic(wire, columns, lookups, texts, at, end, safe, row):
    """Store a statistic; its kind (`_NOTHING` to `_ODD`) and its position in the columns."""
    if at + 2 > end or byte_at(wire, at) != _STAT_ID:
        return _ODD, 0
    key = byte_at(wire, at + 1)
    at += 2
    if key >= _MORE:
        key, at = varint(wire, at - 1, end, safe)
        if at < 0:
            return _ODD, 0
    if at == end:
        return _NOTHING, 0
    tag = byte_at(wire, at)
    is_asked = 0 <= key < len(lookups.which) and lookups.which[np.uint64(key)]
    if not is_asked or tag == _DOUBLE or tag == _BYTES or tag == _PACKED:
        return (_NOTHING if _is_whole(wire, tag, at, end, safe) else _ODD), 0
    which = np.int64(lookups.which[np.uint64(key)]) - 1
    value, after = varint(wire, at + 1, end, safe)
    if after < 0:
        return _ODD, 0
    if tag == _TEXT:
        if value != end - after or end > safe:
            return _ODD, 0
        number = number_of_text(texts, wire.words, after, value)
        if number < 0:
            return _TABLE_FULL, 0
        _put_code(columns, which, row, -1 - number)
        return _CODE, which
    if after != end:
        return _ODD, 0
    if tag == _REFERENCE:
        _put_code(columns, which, row, looked_up(lookups.references, value, 0))
        return _CODE, which
    if tag == _INT or tag == _UINT:
        _put_number(columns, which, row, value)
        return _NUMBER, which
    return _ODD, 0


@njit(**PLAIN)
def _forget(columns, row, numbers, codes):
    """Undo what an event wrote to its row."""
    which = 0
    while numbers | codes:
        if numbers & 1:
            _put_number(columns, which, row, MISSING)
        if codes & 1:
            _put_code(columns, which, row, 0)
        numbers >>= 1
        codes >>= 1
        which += 1


@njit(**PLAIN)
def _share(columns, shared, row, entry, numbers, codes):
    """Give an event the statistics of its entry that it does not have itself."""
    for place in range(len(shared.which)):
        which = shared.which[place]
        if not numbers >> which & 1:
            value = shared.numbers[place, entry]
            if value != MISSING:
                _put_number(columns, which, row, value)
        if not codes >> which & 1:
            code = shared.codes[place, entry]
            if code:
                _put_code(columns, which, row, code)


@njit(**PLAIN)
def _name(columns, names, row, entry):
    """Store the name of an event; returns whether it has one."""
    name = names[entry] if entry >= 0 else np.int32(0)
    columns.name[row] = name
    return name != 0


@njit(**PLAIN)
def _time(columns, base_ns, row, offset, duration):
    """Store the time of an event, given in ps after `base_ns`; returns whether it is usable."""
    start = base_ns + offset // 1000
    # A sum that overflows is negative, and so unusable.
    end = base_ns + (offset + duration) // 1000
    columns.start_ns[row] = start
    columns.dur_ns[row] = end - start
    return 0 <= start <= end < _LARGEST_NS


@njit(**PLAIN)
def _note_odd(state, odd, at, row):
    """Note an event that the caller has to read; returns whether there was room."""
    count = state.odd
    if count == len(odd):
        return False
    odd[count, 0] = at
    odd[count, 1] = row
    state.odd = count + 1
    return True


@njit(**INLINE)
def _event(wire, base_ns, state, columns, lookups, texts, at, end, safe, row):
    """Read an event; returns its kind, `_NOTHING` to `_ODD`; `_NUMBER` if it was stored."""
    entry_id = 0
    offset = 0
    duration = 0
    occurrences = 0
    numbers = 0
    codes = 0
    result = _NUMBER
    while at < end and result == _NUMBER:
        tag = byte_at(wire, at)
        value, at = varint(wire, at + 1, end, safe)
        if at < 0:
            result = _ODD
        elif tag == _STAT:
            if value < 0 or value > end - at:
                result = _ODD
            else:
                found, which = _statistic(wire, columns, lookups, texts, at, at + value, safe, row)
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
        entry = looked_up(lookups.entries, entry_id, -1)
        result = _NOTHING
        if not _name(columns, lookups.names, row, entry):
            state.unnamed += 1
        elif occurrences != 0:
            state.summed += 1
        elif not _time(columns, base_ns, row, offset, duration):
            state.untimed += 1
        else:
            _share(columns, lookups.shared, row, entry, numbers, codes)
            return _NUMBER
    _forget(columns, row, numbers, codes)
    return result


_FEW = np.empty(0, dtype=np.int64)
_IDS = IdTable.of(_FEW, _FEW.astype(np.int32), 0)
_SIGNATURE = int64(
    _WIRE,
    int64,
    int64,
    typeof(new_state()),
    typeof(Columns.empty(2, 2, 2)),
    typeof(Lookups(np.zeros(2, np.uint8), _IDS, _FEW.astype(np.int32), _IDS, Shared.of({}, 2))),
    typeof(Texts(b"").arrays),
)


@njit(_SIGNATURE, cache=True, **PLAIN)
def scan_events(wire, goal, base_ns, states, columns, lookups, texts):
    """Read events that `walk_fields` has skipped, from the position of a state up to a goal.

    Args:
        wire: The file.
        goal: Position at which to stop.
        base_ns: Start of the line.
        states: A `STATE`; updated.
        columns: Columns to fill.
        lookups: Tables of what events refer to.
        texts: Arrays of `Texts`.

    Returns:
        DONE, UNREADABLE or FULL.
    """
    state = states[0]
    at, row = state.position, state.row
    safe = len(wire.octets) - _TAIL
    room = columns.room[0]
    status = DONE
    while at < goal:
        size, body = varint(wire, at + 1, goal, safe)
        is_event = byte_at(wire, at) == _EVENT and body >= 0 and 0 <= size <= goal - body
        if row >= room or not is_event:
            status = UNREADABLE
            break
        end = body + size
        found = _event(wire, base_ns, state, columns, lookups, texts, body, end, safe, row)
        if found == _TABLE_FULL:
            status = FULL
            break
        if found == _ODD and not _note_odd(state, columns.odd, at, row):
            status = UNREADABLE
            break
        if found == _NUMBER:
            row += 1
        at = end
    state.position = at
    state.row = row
    return status


_READ_TIMES = readonly(int64)


@njit(void(readonly(int32), _READ_TIMES, _READ_TIMES, int32[::1]), cache=True, **PLAIN)
def enclose_events(line, start_ns, dur_ns, outer):
    """Find the innermost event that is still open when each one starts, -1 for none.

    The first candidate is the previous event. If it has ended, the next candidate is the event that
    encloses it, because all events between the two have ended as well.

    Args:
        line: Thread of every event, ascending; (events,).
        start_ns: Starts; ascending on each thread, longest first; (events,).
        dur_ns: Durations; (events,).
        outer: Receives the row of the enclosing event; (events,).
    """
    for row in range(len(line)):
        at = row - 1
        if at >= 0 and line[at] != line[row]:
            at = -1
        start = start_ns[row]
        while at >= 0 and start_ns[at] + dur_ns[at] <= start:
            at = np.int64(outer[at])
        outer[row] = at
