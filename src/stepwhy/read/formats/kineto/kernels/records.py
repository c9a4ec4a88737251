"""Scans the records of a Chrome trace into columns, in one sweep over the text of the file.

Only plain records are read, but profilers write no others. Any other JSON (escaped keys, exponents
in times, a list instead of a number) ends the sweep before its record, and the caller reads that
record with the general decoder. A record counts only if it is followed by a comma and another
record, or by the end of the list.
"""

from numba import int64, njit, typeof

from stepwhy.base.columns.kernels.numbering import PLAIN, TEXT, number_of_pair, number_of_text
from stepwhy.base.columns.kernels.tables import Pairs, Texts
from stepwhy.read.formats.kineto.kernels.keys import (
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
    read_value,
    word_of,
)
from stepwhy.read.formats.kineto.kernels.layout import (
    DONE,
    FULL,
    LIST,
    ODD,
    SAFETY,
    ChangeColumns,
    SliceColumns,
    new_state,
)
from stepwhy.read.formats.kineto.kernels.numbers import ABSENT
from stepwhy.read.formats.kineto.kernels.text import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COMMA,
    ESCAPED,
    FAST,
    HIGH,
    OPEN_OBJECT,
    after_key,
    after_space,
    byte_at,
    word_at,
)

_AC2G, _ASYNC_GPU = word_of("ac2g"), word_of("async_gpu")
_THREAD_NAME, _MEMORY = word_of("thread_name"), word_of("[memory]")
_ME, _U = int.from_bytes(b"ame", "little"), ord("u")
_X, _I, _BIG_I, _S, _T, _F, _M = map(ord, "XiIstfM")
_LOWEST_THREE, _LOWEST_FOUR = (1 << 24) - 1, (1 << 32) - 1
_LONGEST_RECORD = 2**24  # bytes
_NOTHING = -1
# Bytes that `words_of` leaves out at the end of the text.
_LEFT_OUT = 7


@njit(**FAST)
def _after_record(text, record, p, limit):
    """Read the record at `p`; the position after it, 0 if the record is not plain."""
    if p >= limit or byte_at(text, p) != OPEN_OBJECT:
        return 0
    p = after_space(text, p + 1, limit)
    in_args = False
    while True:
        key = p + 1
        p, marks = after_key(text, p, limit)
        if p == 0 or p >= limit or marks & ESCAPED:
            return 0
        if marks:
            record[MARKS] = record[MARKS] | marks
        if in_args:
            p = read_value(text, record, key, p, limit, True)
        elif begins_arguments(text, record, key, p):
            p = after_space(text, p + 1, limit)
            if byte_at(text, p) != CLOSE_OBJECT:
                in_args = True
                continue
            p += 1
        elif is_odd_arguments(text, record, key, p):
            return 0
        else:
            p = read_value(text, record, key, p, limit, False)
        if p == 0:
            return 0
        p = after_space(text, p, limit)
        c = byte_at(text, p)
        if in_args and c == CLOSE_OBJECT:
            in_args = False
            p = after_space(text, p + 1, limit)
            c = byte_at(text, p)
        if c == COMMA:
            p = after_space(text, p + 1, limit)
        elif c == CLOSE_OBJECT and not in_args:
            return p + 1
        else:
            return 0


@njit(**FAST)
def _next_record(text, p, limit):
    """Position of the next record or of the list's closing bracket, 0 for anything else."""
    p = after_space(text, p, limit)
    c = byte_at(text, p)
    if c == CLOSE_LIST:
        return p
    if c != COMMA:
        return 0
    p = after_space(text, p + 1, limit)
    return p if p < limit and byte_at(text, p) == OPEN_OBJECT else 0


@njit(**FAST)
def _number(texts, text, record, field):
    begin = record[field]
    return number_of_text(texts, text, begin, record[field + 1] - begin)


@njit(**FAST)
def _number_of_both(texts, pairs, text, record, first, second):
    """The id of a pair of texts, negative if a table is full."""
    a = _number(texts, text, record, first)
    b = _number(texts, text, record, second)
    return number_of_pair(pairs, a, b) if a >= 0 and b >= 0 else _NOTHING


@njit(**FAST)
def _keep_slice(slices, texts, pairs, text, record, row, begin, end):
    """Write the row of a slice; False if a table is full."""
    title = _number_of_both(texts, pairs, text, record, CAT, NAME)
    thread = _number_of_both(texts, pairs, text, record, PID, TID)
    stream = _number_of_both(texts, pairs, text, record, DEVICE, STREAM)
    if title < 0 or thread < 0 or stream < 0:
        return False
    # The first id is negative, so that pairs of pairs differ from pairs of texts.
    place = number_of_pair(pairs, -1 - thread, stream)
    stack = _NOTHING
    has_stack = record[STACK + 1] > record[STACK]
    if has_stack:
        stack = _number(texts, text, record, STACK)
    if place < 0 or (has_stack and stack < 0):
        return False
    size = record[BYTES]
    if size == ABSENT:
        size = record[SIZE]
    slices.start_ns[row] = record[START]
    slices.dur_ns[row] = record[DUR]
    slices.correlation[row] = record[CORRELATION]
    slices.sequence[row] = record[SEQUENCE]
    slices.forward[row] = record[FORWARD]
    slices.size[row] = size
    slices.offset[row] = begin
    slices.length[row] = end - begin
    slices.title[row] = title
    slices.thread[row] = thread
    slices.stream[row] = place
    slices.stack[row] = stack
    return True


@njit(**FAST)
def _keep_change(changes, texts, pairs, text, record, row, begin, end):
    """Write the row of a change of memory; False if a table is full."""
    thread = _number_of_both(texts, pairs, text, record, PID, TID)
    if thread < 0:
        return False
    changes.time_ns[row] = record[START]
    changes.change[row] = record[CHANGE]
    changes.address[row] = record[ADDRESS]
    changes.allocated[row] = record[ALLOCATED]
    changes.reserved[row] = record[RESERVED]
    changes.device_type[row] = record[DEVICE_TYPE]
    changes.device_id[row] = record[DEVICE_ID]
    changes.offset[row] = begin
    changes.length[row] = end - begin
    changes.thread[row] = thread
    return True


@njit(**FAST)
def _is_change(text, record, phase):
    name = record[NAME]
    length = record[NAME + 1] - name
    return (phase == _I or phase == _BIG_I) and length == 8 and word_at(text, name) == _MEMORY


@njit(**FAST)
def _count(state, text, record, phase):
    """Count a record that becomes no row, and note whether it proves an accelerator."""
    if phase == _M:
        state.metadata += 1
        name = record[NAME]
        length = record[NAME + 1] - name
        if length == 11 and word_at(text, name) == _THREAD_NAME and record[STREAM_NAME]:
            if word_at(text, name + 8) & _LOWEST_THREE == _ME:
                state.hint = 1
        return
    if phase == _S or phase == _T or phase == _F:
        state.arrows += 1
    else:
        state.others += 1
    cat = record[CAT]
    length = record[CAT + 1] - cat
    if (length == 4 and word_at(text, cat) & _LOWEST_FOUR == _AC2G) or (
        length == 9 and word_at(text, cat) == _ASYNC_GPU and byte_at(text, cat + 8) == _U
    ):
        state.hint = 1


@njit(**FAST)
def _keep(state, slices, changes, texts, pairs, text, record, begin, end):
    """Store or count a record; returns DONE, or the reason why that is impossible."""
    phase = record[PHASE]
    if phase == _X:
        row = state.slices
        if row == len(slices.start_ns):
            return FULL
        if not _keep_slice(slices, texts, pairs, text, record, row, begin, end):
            return FULL
        state.slices = row + 1
        return DONE
    if record[ESCAPES]:
        return ODD
    if _is_change(text, record, phase):
        row = state.changes
        if row == len(changes.time_ns):
            return FULL
        if not _keep_change(changes, texts, pairs, text, record, row, begin, end):
            return FULL
        state.changes = row + 1
        return DONE
    _count(state, text, record, phase)
    return DONE


_SIGNATURE = int64(
    TEXT,
    int64,
    typeof(new_state()),
    int64[::1],
    typeof(SliceColumns.empty(1)),
    typeof(ChangeColumns.empty(1)),
    typeof(Texts(b"").arrays),
    typeof(Pairs().arrays),
)


@njit(_SIGNATURE, cache=True, **PLAIN)
def scan_records(text, goal, states, record, slices, changes, texts, pairs):
    """Read records from the position of a state up to the first that begins at a goal or later.

    Args:
        text: The file, from `words_of`.
        goal: Position at which to stop.
        states: A `STATE`; updated.
        record: Room for the fields of a record; (RECORD_FIELDS,).
        slices: Columns to fill.
        changes: Columns to fill.
        texts: Arrays of `Texts`.
        pairs: Arrays of `Pairs`.

    Returns:
        DONE, LIST, ODD or FULL.
    """
    state = states[0]
    limit = len(text) + _LEFT_OUT - SAFETY
    p = state.position
    status = DONE
    while p < goal:
        clear(record, p)
        end = _after_record(text, record, p, limit)
        following = 0
        if end and end - p <= _LONGEST_RECORD and end < limit:
            following = _next_record(text, end, limit)
        if following == 0:
            status = ODD
            break
        status = _keep(state, slices, changes, texts, pairs, text, record, p, end)
        if status != DONE:
            break
        if record[MARKS] & HIGH:
            state.high = 1
        p = following
        if byte_at(text, p) == CLOSE_LIST:
            status = LIST
            break
    state.position = p
    return status
