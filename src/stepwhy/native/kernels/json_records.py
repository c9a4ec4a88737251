"""Records of a Chrome trace as columns, read from the text of the file in one sweep.

Only plain records are understood, but these are all that a profiler writes: whatever else JSON
allows (escaped keys, exponents in times, a list where a number should be) ends the sweep before
the record that holds it, and whoever called reads on in another way.

The sweep takes the address of int64 fields (`CONTROL` of `stepwhy.importers.kineto.sweep`) and of
columns; rows count only when what follows their record is a comma and another record, or the end of
the list.
"""

from numba import njit

from stepwhy.native.kernels.interning import number_of_pair, number_of_text
from stepwhy.native.kernels.json_numbers import ABSENT, BEYOND, integer, nanoseconds
from stepwhy.native.kernels.json_text import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COMMA,
    ESCAPED,
    FAST,
    HIGH,
    OPEN_OBJECT,
    QUOTE,
    behind_key,
    behind_space,
    behind_value,
    is_null,
    string_end,
)
from stepwhy.native.memory import byte_at, put_half, put_word, word_at

# Why a sweep ended: at its goal, at the end of the list, at a record that is not plain, or because
# a table is full.
DONE, LIST, ODD, FULL = range(4)

# Fields of the control block, in bytes.
(
    POSITION, GOAL, LIMIT, HIGH_SEEN, HINT, ARROWS, METADATA, OTHERS,
    SLICES, SLICES_ROOM, CHANGES, CHANGES_ROOM, TEXTS, PAIRS,
    COLUMNS, CHANGE_COLUMNS, BASE, LAST,
) = range(0, 8 * 18, 8)  # fmt: skip
# Columns of slices: addresses of int64 or int32 in this order.
(
    START, DUR, CORRELATION, SEQUENCE, FORWARD, SIZE, OFFSET, LENGTH, TITLE, THREAD, STREAM, STACK,
) = range(0, 8 * 12, 8)  # fmt: skip
_NARROW = LENGTH  # from here on int32
# Columns of changes of memory, all int64 but the last ones.
(
    AT, CHANGE, BLOCK, ALLOCATED, RESERVED, DEVICE_TYPE, DEVICE_ID, WHERE, EXTENT, PLACE,
) = range(0, 8 * 10, 8)  # fmt: skip


def _key(text):
    """The first eight bytes of a key as they are loaded."""
    return int.from_bytes(text[:8].encode().ljust(8, b"\0"), "little")


def _rest(text):
    return int.from_bytes(text[8:16].encode().ljust(8, b"\0"), "little")


_PH, _TS, _CAT, _PID, _TID, _DUR, _NAME, _ARGS = map(
    _key, ("ph", "ts", "cat", "pid", "tid", "dur", "name", "args")
)
_SIZE, _ADDR, _BYTES, _CHANGE, _DEVICE, _STREAM = map(
    _key, ("size", "Addr", "bytes", "Bytes", "device", "stream")
)
_DEVICE_ID, _DEVICE_ID_2 = _key("Device Id"), _rest("Device Id")
_CORRELATION, _CORRELATION_2 = _key("correlation"), _rest("correlation")
_STACK, _STACK_2 = _key("Call stack"), _rest("Call stack")
_TYPE, _TYPE_2 = _key("Device Type"), _rest("Device Type")
_FORWARD, _FORWARD_2 = _key("Fwd thread id"), _rest("Fwd thread id")
_SEQUENCE, _SEQUENCE_2 = _key("Sequence number"), _rest("Sequence number")
_TOTAL, _ALLOCATED_2, _RESERVED_2 = (
    _key("Total Allocated"),
    _rest("Total Allocated"),
    _rest("Total Reserved"),
)
_LAUNCH_ARROW, _OLD_ARROW, _OLD_ARROW_2 = _key("ac2g"), _key("async_gpu"), _rest("async_gpu")
_THREAD_NAME, _THREAD_NAME_2 = _key("thread_name"), _rest("thread_name")
_MEMORY = _key("[memory]")
_STREAM_NAME = _key("stream ")
_X, _I, _BIG_I, _S, _T_, _F_, _M = map(ord, "XiIstfM")
_LONGEST_RECORD = 2**31 - 1


@njit(**FAST)
def _low(word, count):
    return word if count >= 8 else word & ((1 << (8 * count)) - 1)


@njit(**FAST)
def _token_end(p, limit):
    """Behind a text or a plain integer or null, and its marks; 0 for anything else."""
    if p >= limit:
        return 0, 0
    if byte_at(p) == QUOTE:
        end, marks = string_end(p + 1, limit)
        return (end + 1 if end else 0), marks
    _, end = integer(p, limit)
    return end, 0


@njit(**FAST)
def scan_records(control):
    """Sweep over records from POSITION up to the first that begins at GOAL or later."""
    base = word_at(control + BASE)
    limit = word_at(control + LIMIT)
    goal = word_at(control + GOAL)
    texts = word_at(control + TEXTS)
    pairs = word_at(control + PAIRS)
    columns = word_at(control + COLUMNS)
    changes = word_at(control + CHANGE_COLUMNS)
    rows = 0
    change_rows = 0
    arrows = 0
    metadata = 0
    others = 0
    high = 0
    hint = 0
    rows_room = word_at(control + SLICES_ROOM)
    changes_room = word_at(control + CHANGES_ROOM)
    p = word_at(control + POSITION)
    status = DONE
    while True:
        begin = p
        if p >= goal:
            break
        if rows == rows_room or change_rows == changes_room:
            status = FULL
            break
        if p >= limit or byte_at(p) != OPEN_OBJECT:
            status = ODD
            break
        p = behind_space(p + 1, limit)
        phase = 0
        start = BEYOND
        dur = BEYOND
        correlation = ABSENT
        sequence = ABSENT
        forward = ABSENT
        size = ABSENT
        bytes_ = ABSENT
        change = ABSENT
        block = ABSENT
        device_type = ABSENT
        device_id = ABSENT
        allocated = ABSENT
        reserved = ABSENT
        cat = cat_end = name = name_end = pid = pid_end = tid = tid_end = begin
        device = device_end = stream = stream_end = stack = stack_end = begin
        stream_name = False
        escaped = 0
        marks = 0
        in_args = False
        if byte_at(p) == CLOSE_OBJECT:
            p = 0
        # One key and its value per turn; the arguments are a second list of keys.
        while p:
            key = p + 1
            p, more = behind_key(p, limit)
            if p == 0 or p >= limit:
                p = 0
                break
            marks |= more
            if more & ESCAPED:
                p = 0
                break
            first = word_at(key)
            # Where the closing quote is, is known from the key's own length.
            if in_args:
                if byte_at(key + 6) == QUOTE and _low(first, 6) == _DEVICE:
                    device = p
                    p, more = _token_end(p, limit)
                    device_end = p
                    marks |= more
                elif byte_at(key + 6) == QUOTE and _low(first, 6) == _STREAM:
                    stream = p
                    p, more = _token_end(p, limit)
                    stream_end = p
                    marks |= more
                elif (
                    first == _CORRELATION
                    and byte_at(key + 11) == QUOTE
                    and (_low(word_at(key + 8), 3) == _CORRELATION_2)
                ):
                    correlation, p = integer(p, limit)
                elif (
                    first == _SEQUENCE
                    and byte_at(key + 15) == QUOTE
                    and (_low(word_at(key + 8), 7) == _SEQUENCE_2)
                ):
                    sequence, p = integer(p, limit)
                elif (
                    first == _FORWARD
                    and byte_at(key + 13) == QUOTE
                    and (_low(word_at(key + 8), 5) == _FORWARD_2)
                ):
                    forward, p = integer(p, limit)
                elif byte_at(key + 5) == QUOTE and _low(first, 5) == _BYTES:
                    bytes_, p = integer(p, limit)
                elif byte_at(key + 4) == QUOTE and _low(first, 4) == _SIZE:
                    size, p = integer(p, limit)
                elif (
                    first == _STACK
                    and byte_at(key + 10) == QUOTE
                    and (_low(word_at(key + 8), 2) == _STACK_2)
                ):
                    if byte_at(p) == QUOTE:
                        stack = p + 1
                        stack_end, more = string_end(stack, limit)
                        marks |= more
                        p = stack_end + 1 if stack_end else 0
                    else:
                        stack = stack_end = begin
                        p = p + 4 if is_null(p) else 0
                elif byte_at(key + 4) == QUOTE and _low(first, 4) == _NAME:
                    stream_name = byte_at(p) == QUOTE and _low(word_at(p + 1), 7) == _STREAM_NAME
                    p, more = behind_value(p, limit)
                    marks |= more
                    escaped |= more & ESCAPED
                elif byte_at(key + 5) == QUOTE and _low(first, 5) == _CHANGE:
                    change, p = integer(p, limit)
                elif byte_at(key + 4) == QUOTE and _low(first, 4) == _ADDR:
                    block, p = integer(p, limit)
                elif (
                    first == _TYPE
                    and byte_at(key + 11) == QUOTE
                    and (_low(word_at(key + 8), 3) == _TYPE_2)
                ):
                    device_type, p = integer(p, limit)
                elif (
                    first == _DEVICE_ID
                    and byte_at(key + 9) == QUOTE
                    and (_low(word_at(key + 8), 1) == _DEVICE_ID_2)
                ):
                    device_id, p = integer(p, limit)
                elif (
                    first == _TOTAL
                    and byte_at(key + 15) == QUOTE
                    and (_low(word_at(key + 8), 7) == _ALLOCATED_2)
                ):
                    allocated, p = integer(p, limit)
                elif (
                    first == _TOTAL
                    and byte_at(key + 14) == QUOTE
                    and (_low(word_at(key + 8), 6) == _RESERVED_2)
                ):
                    reserved, p = integer(p, limit)
                else:
                    p, more = behind_value(p, limit)
                    marks |= more
            elif byte_at(key + 2) == QUOTE:
                if _low(first, 2) == _PH:
                    phase = byte_at(p + 1)
                    plain = byte_at(p) == QUOTE and byte_at(p + 2) == QUOTE
                    p = p + 3 if plain and 32 < phase < 127 and phase != QUOTE else 0
                elif _low(first, 2) == _TS:
                    start, p = nanoseconds(p, limit)
                else:
                    p, more = behind_value(p, limit)
                    marks |= more
            elif byte_at(key + 3) == QUOTE:
                if _low(first, 3) == _PID:
                    pid = p
                    p, more = _token_end(p, limit)
                    pid_end = p
                    marks |= more
                elif _low(first, 3) == _TID:
                    tid = p
                    p, more = _token_end(p, limit)
                    tid_end = p
                    marks |= more
                elif _low(first, 3) == _DUR:
                    dur, p = nanoseconds(p, limit)
                elif _low(first, 3) == _CAT:
                    cat = p + 1
                    cat_end, more = string_end(cat, limit)
                    p = cat_end + 1 if cat_end and byte_at(cat - 1) == QUOTE else 0
                    marks |= more
                    escaped |= more & ESCAPED
                else:
                    p, more = behind_value(p, limit)
                    marks |= more
            elif byte_at(key + 4) == QUOTE and _low(first, 4) == _NAME:
                name = p + 1
                name_end, more = string_end(name, limit)
                p = name_end + 1 if name_end and byte_at(name - 1) == QUOTE else 0
                marks |= more
                escaped |= more & ESCAPED
            elif byte_at(key + 4) == QUOTE and _low(first, 4) == _ARGS:
                if byte_at(p) == OPEN_OBJECT:
                    p = behind_space(p + 1, limit)
                    if byte_at(p) != CLOSE_OBJECT:
                        in_args = True
                        continue
                    p += 1
                else:
                    p = p + 4 if is_null(p) else 0
            else:
                p, more = behind_value(p, limit)
                marks |= more
            if p == 0:
                break
            p = behind_space(p, limit)
            c = byte_at(p)
            if in_args and c == CLOSE_OBJECT:
                in_args = False
                p = behind_space(p + 1, limit)
                c = byte_at(p)
            if c == COMMA:
                p = behind_space(p + 1, limit)
                continue
            if c == CLOSE_OBJECT and not in_args:
                p += 1
            else:
                p = 0
            break
        if p == 0 or p >= limit or p - begin > _LONGEST_RECORD:
            status = ODD
            break
        end = p
        p = behind_space(p, limit)
        c = byte_at(p)
        if c == COMMA:
            p = behind_space(p + 1, limit)
            if p >= limit or byte_at(p) != OPEN_OBJECT:
                status = ODD
                break
        elif c != CLOSE_LIST:
            status = ODD
            break
        # The record is whole: now what it is.
        if phase == _X:
            cat_number = number_of_text(texts, cat, cat_end - cat)
            name_number = number_of_text(texts, name, name_end - name)
            pid_number = number_of_text(texts, pid, pid_end - pid)
            tid_number = number_of_text(texts, tid, tid_end - tid)
            device_number = number_of_text(texts, device, device_end - device)
            stream_number = number_of_text(texts, stream, stream_end - stream)
            stack_number = -2
            if stack_end > stack:
                stack_number = number_of_text(texts, stack, stack_end - stack)
            lowest = min(cat_number, name_number, pid_number, tid_number)
            if min(lowest, device_number, stream_number) < 0 or stack_number == -1:
                status = FULL
                break
            title = number_of_pair(pairs, cat_number, name_number)
            thread = number_of_pair(pairs, pid_number, tid_number)
            on_stream = number_of_pair(pairs, device_number, stream_number)
            if min(title, thread, on_stream) < 0:
                status = FULL
                break
            # Pairs of pairs must not meet pairs of texts: their numbers are made negative.
            place = number_of_pair(pairs, -1 - thread, on_stream)
            if place < 0:
                status = FULL
                break
            wide = 8 * rows
            narrow = 4 * rows
            put_word(word_at(columns + START) + wide, start)
            put_word(word_at(columns + DUR) + wide, dur)
            put_word(word_at(columns + CORRELATION) + wide, correlation)
            put_word(word_at(columns + SEQUENCE) + wide, sequence)
            put_word(word_at(columns + FORWARD) + wide, forward)
            put_word(word_at(columns + SIZE) + wide, size if bytes_ == ABSENT else bytes_)
            put_word(word_at(columns + OFFSET) + wide, begin - base)
            put_half(word_at(columns + LENGTH) + narrow, end - begin)
            put_half(word_at(columns + TITLE) + narrow, title)
            put_half(word_at(columns + THREAD) + narrow, thread)
            put_half(word_at(columns + STREAM) + narrow, place)
            put_half(word_at(columns + STACK) + narrow, stack_number)
            rows += 1
        else:
            if escaped:
                status = ODD
                break
            length = name_end - name
            if (phase == _I or phase == _BIG_I) and length == 8 and word_at(name) == _MEMORY:
                pid_number = number_of_text(texts, pid, pid_end - pid)
                tid_number = number_of_text(texts, tid, tid_end - tid)
                thread = -1
                if min(pid_number, tid_number) >= 0:
                    thread = number_of_pair(pairs, pid_number, tid_number)
                if thread < 0:
                    status = FULL
                    break
                wide = 8 * change_rows
                put_word(word_at(changes + AT) + wide, start)
                put_word(word_at(changes + CHANGE) + wide, change)
                put_word(word_at(changes + BLOCK) + wide, block)
                put_word(word_at(changes + ALLOCATED) + wide, allocated)
                put_word(word_at(changes + RESERVED) + wide, reserved)
                put_word(word_at(changes + DEVICE_TYPE) + wide, device_type)
                put_word(word_at(changes + DEVICE_ID) + wide, device_id)
                put_word(word_at(changes + WHERE) + wide, begin - base)
                put_word(word_at(changes + EXTENT) + wide, end - begin)
                put_word(word_at(changes + PLACE) + wide, thread)
                change_rows += 1
            elif phase == _M:
                metadata += 1
                if length == 11 and word_at(name) == _THREAD_NAME and stream_name:
                    if _low(word_at(name + 8), 3) == _THREAD_NAME_2:
                        hint = 1
            else:
                if phase == _S or phase == _T_ or phase == _F_:
                    arrows += 1
                else:
                    others += 1
                length = cat_end - cat
                if (length == 4 and _low(word_at(cat), 4) == _LAUNCH_ARROW) or (
                    length == 9
                    and word_at(cat) == _OLD_ARROW
                    and (_low(word_at(cat + 8), 1) == _OLD_ARROW_2)
                ):
                    hint = 1
        high |= marks & HIGH
        begin = p
        if c == CLOSE_LIST:
            status = LIST
            break
    put_word(control + POSITION, begin)
    put_word(control + SLICES, rows)
    put_word(control + CHANGES, change_rows)
    put_word(control + ARROWS, arrows)
    put_word(control + METADATA, metadata)
    put_word(control + OTHERS, others)
    put_word(control + HIGH_SEEN, high)
    put_word(control + HINT, hint)
    return status
