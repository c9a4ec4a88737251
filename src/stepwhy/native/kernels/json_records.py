"""Records of a Chrome trace as columns, read from the text of the file in one sweep.

Only plain records are understood, but these are all that a profiler writes: whatever else JSON
allows (escaped keys, exponents in times, a list where a number should be) ends the sweep before
the record that holds it, and whoever called reads on in another way. Rows count only when what
follows their record is a comma and another record, or the end of the list.
"""

from numba import njit

from stepwhy.native.kernels.interning import number_of_pair, number_of_text
from stepwhy.native.kernels.json_keys import (
    ADDRESS,
    ALLOCATED,
    BYTES,
    CAT,
    CHANGE,
    CORRELATION,
    DEVICE,
    DEVICE_ID,
    DEVICE_TYPE,
    DUR,
    ESCAPES,
    FORWARD,
    MARKS,
    NAME,
    PHASE,
    PID,
    RESERVED,
    SEQUENCE,
    SIZE,
    STACK,
    START,
    STREAM,
    STREAM_NAME,
    TID,
    begins_arguments,
    clear,
    is_odd_arguments,
    read_argument,
    read_field,
    word_of,
)
from stepwhy.native.kernels.json_numbers import ABSENT
from stepwhy.native.kernels.json_text import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COMMA,
    ESCAPED,
    FAST,
    HIGH,
    OPEN_OBJECT,
    behind_key,
    behind_space,
)
from stepwhy.native.memory import byte_at, put_half, put_word, word_at

# Why a sweep ended: at its goal, at the end of the list, at a record that is not plain, or because
# a table is full.
DONE, LIST, ODD, FULL = range(4)

# Fields of the control block, in bytes; `importers.formats.kineto.sweep` fills and reads it.
(
    POSITION, GOAL, LIMIT, HIGH_SEEN, HINT, ARROWS, METADATA, OTHERS,
    SLICES, SLICES_ROOM, CHANGES, CHANGES_ROOM, TEXTS, PAIRS,
    COLUMNS, CHANGE_COLUMNS, BASE, RECORD,
) = range(0, 8 * 18, 8)  # fmt: skip
# Columns of slices, by the places of their addresses: the first seven int64, the others int32.
(
    OF_START, OF_DUR, OF_CORRELATION, OF_SEQUENCE, OF_FORWARD, OF_SIZE, OF_OFFSET,
    OF_LENGTH, OF_TITLE, OF_THREAD, OF_STREAM, OF_STACK,
) = range(0, 8 * 12, 8)  # fmt: skip
# Columns of changes of memory, all int64.
_OF_CHANGES = (START, CHANGE, ADDRESS, ALLOCATED, RESERVED, DEVICE_TYPE, DEVICE_ID)
_OFFSET, _LENGTH, _THREAD = 56, 64, 72

_AC2G, _ASYNC_GPU = word_of("ac2g"), word_of("async_gpu")
_THREAD_NAME, _MEMORY = word_of("thread_name"), word_of("[memory]")
_ME, _U = int.from_bytes(b"ame", "little"), ord("u")
_X, _I, _BIG_I, _S, _T, _F, _M = map(ord, "XiIstfM")
_LOWEST_THREE, _LOWEST_FOUR = (1 << 24) - 1, (1 << 32) - 1
_LONGEST_RECORD = 2**24  # bytes
_NOTHING = -1


@njit(**FAST)
def _behind_record(record, p, limit):
    """Read the record at `p`; the address behind it, 0 where it is not plain."""
    if p >= limit or byte_at(p) != OPEN_OBJECT:
        return 0
    p = behind_space(p + 1, limit)
    in_args = False
    while True:
        key = p + 1
        p, marks = behind_key(p, limit)
        if p == 0 or p >= limit or marks & ESCAPED:
            return 0
        if marks:
            put_word(record + MARKS, word_at(record + MARKS) | marks)
        if in_args:
            p = read_argument(record, key, p, limit)
        elif begins_arguments(record, key, p):
            p = behind_space(p + 1, limit)
            if byte_at(p) != CLOSE_OBJECT:
                in_args = True
                continue
            p += 1
        elif is_odd_arguments(record, key, p):
            return 0
        else:
            p = read_field(record, key, p, limit)
        if p == 0:
            return 0
        p = behind_space(p, limit)
        c = byte_at(p)
        if in_args and c == CLOSE_OBJECT:
            in_args = False
            p = behind_space(p + 1, limit)
            c = byte_at(p)
        if c == COMMA:
            p = behind_space(p + 1, limit)
        elif c == CLOSE_OBJECT and not in_args:
            return p + 1
        else:
            return 0


@njit(**FAST)
def _next_record(p, limit):
    """Where the next record begins, or the closing bracket of the list; 0 for anything else."""
    p = behind_space(p, limit)
    c = byte_at(p)
    if c == CLOSE_LIST:
        return p
    if c != COMMA:
        return 0
    p = behind_space(p + 1, limit)
    return p if p < limit and byte_at(p) == OPEN_OBJECT else 0


@njit(**FAST)
def _number(texts, record, field):
    begin = word_at(record + field)
    return number_of_text(texts, begin, word_at(record + field + 8) - begin)


@njit(**FAST)
def _number_of_both(texts, pairs, record, first, second):
    """The number of a pair of texts, negative where a table is full."""
    a = _number(texts, record, first)
    b = _number(texts, record, second)
    return number_of_pair(pairs, a, b) if a >= 0 and b >= 0 else _NOTHING


@njit(**FAST)
def _keep_slice(control, record, row, begin, end):
    """Write a slice's row; False where a table is full."""
    texts = word_at(control + TEXTS)
    pairs = word_at(control + PAIRS)
    columns = word_at(control + COLUMNS)
    title = _number_of_both(texts, pairs, record, CAT, NAME)
    thread = _number_of_both(texts, pairs, record, PID, TID)
    stream = _number_of_both(texts, pairs, record, DEVICE, STREAM)
    if title < 0 or thread < 0 or stream < 0:
        return False
    # Pairs of pairs must not meet pairs of texts, so the first is negative.
    place = number_of_pair(pairs, -1 - thread, stream)
    stack = _NOTHING
    has_stack = word_at(record + STACK + 8) > word_at(record + STACK)
    if has_stack:
        stack = _number(texts, record, STACK)
    if place < 0 or (has_stack and stack < 0):
        return False
    size = word_at(record + BYTES)
    if size == ABSENT:
        size = word_at(record + SIZE)
    wide = 8 * row
    put_word(word_at(columns + OF_START) + wide, word_at(record + START))
    put_word(word_at(columns + OF_DUR) + wide, word_at(record + DUR))
    put_word(word_at(columns + OF_CORRELATION) + wide, word_at(record + CORRELATION))
    put_word(word_at(columns + OF_SEQUENCE) + wide, word_at(record + SEQUENCE))
    put_word(word_at(columns + OF_FORWARD) + wide, word_at(record + FORWARD))
    put_word(word_at(columns + OF_SIZE) + wide, size)
    put_word(word_at(columns + OF_OFFSET) + wide, begin - word_at(control + BASE))
    narrow = 4 * row
    put_half(word_at(columns + OF_LENGTH) + narrow, end - begin)
    put_half(word_at(columns + OF_TITLE) + narrow, title)
    put_half(word_at(columns + OF_THREAD) + narrow, thread)
    put_half(word_at(columns + OF_STREAM) + narrow, place)
    put_half(word_at(columns + OF_STACK) + narrow, stack)
    return True


@njit(**FAST)
def _keep_change(control, record, row, begin, end):
    """Write the row of a change of memory; False where a table is full."""
    columns = word_at(control + CHANGE_COLUMNS)
    texts = word_at(control + TEXTS)
    thread = _number_of_both(texts, word_at(control + PAIRS), record, PID, TID)
    if thread < 0:
        return False
    at = 0
    for field in _OF_CHANGES:
        put_word(word_at(columns + at) + 8 * row, word_at(record + field))
        at += 8
    put_word(word_at(columns + _OFFSET) + 8 * row, begin - word_at(control + BASE))
    put_word(word_at(columns + _LENGTH) + 8 * row, end - begin)
    put_word(word_at(columns + _THREAD) + 8 * row, thread)
    return True


@njit(**FAST)
def _is_change(record, phase):
    name = word_at(record + NAME)
    length = word_at(record + NAME + 8) - name
    return (phase == _I or phase == _BIG_I) and length == 8 and word_at(name) == _MEMORY


@njit(**FAST)
def _add(control, field, value):
    put_word(control + field, word_at(control + field) + value)


@njit(**FAST)
def _count(control, record, phase):
    """Count a record that becomes no row, and see whether it shows that there is an accelerator."""
    if phase == _M:
        _add(control, METADATA, 1)
        name = word_at(record + NAME)
        length = word_at(record + NAME + 8) - name
        if length == 11 and word_at(name) == _THREAD_NAME and word_at(record + STREAM_NAME):
            if word_at(name + 8) & _LOWEST_THREE == _ME:
                put_word(control + HINT, 1)
        return
    _add(control, ARROWS if phase == _S or phase == _T or phase == _F else OTHERS, 1)
    cat = word_at(record + CAT)
    length = word_at(record + CAT + 8) - cat
    if (length == 4 and word_at(cat) & _LOWEST_FOUR == _AC2G) or (
        length == 9 and word_at(cat) == _ASYNC_GPU and byte_at(cat + 8) == _U
    ):
        put_word(control + HINT, 1)


@njit(**FAST)
def _keep(control, record, begin, end):
    """Put a record where it belongs; DONE, or why it cannot be."""
    phase = word_at(record + PHASE)
    if phase == _X:
        row = word_at(control + SLICES)
        if row == word_at(control + SLICES_ROOM):
            return FULL
        if not _keep_slice(control, record, row, begin, end):
            return FULL
        put_word(control + SLICES, row + 1)
        return DONE
    if word_at(record + ESCAPES):
        return ODD
    if _is_change(record, phase):
        row = word_at(control + CHANGES)
        if row == word_at(control + CHANGES_ROOM):
            return FULL
        if not _keep_change(control, record, row, begin, end):
            return FULL
        put_word(control + CHANGES, row + 1)
        return DONE
    _count(control, record, phase)
    return DONE


@njit(**FAST)
def scan_records(control):
    """Sweep over records from POSITION up to the first that begins at GOAL or later."""
    for field in (HIGH_SEEN, HINT, ARROWS, METADATA, OTHERS, SLICES, CHANGES):
        put_word(control + field, 0)
    limit = word_at(control + LIMIT)
    goal = word_at(control + GOAL)
    record = word_at(control + RECORD)
    p = word_at(control + POSITION)
    status = DONE
    while p < goal:
        clear(record, p)
        end = _behind_record(record, p, limit)
        following = 0
        if end and end - p <= _LONGEST_RECORD and end < limit:
            following = _next_record(end, limit)
        if following == 0:
            status = ODD
            break
        status = _keep(control, record, p, end)
        if status != DONE:
            break
        if word_at(record + MARKS) & HIGH:
            put_word(control + HIGH_SEEN, 1)
        p = following
        if byte_at(p) == CLOSE_LIST:
            status = LIST
            break
    put_word(control + POSITION, p)
    return status
