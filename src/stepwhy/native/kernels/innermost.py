"""When the innermost slice on a track is one of some.

Columns are addresses; times are int64, rows int32, what is chosen a byte, tracks as wide as they
must be.
"""

from numba import njit

from stepwhy.native.kernels.slice_tracks import track_at
from stepwhy.native.kernels.wire import FAST
from stepwhy.native.memory import byte_at, half_at, put_word, word_at

# Fields: how many slices, cut ones and tracks there are, the bytes of a track's number, for how
# many intervals there is room, and how many were found; what is known of the slices, and whether
# each is chosen; those that were cut, ascending, and their ends; the state of the tracks; the
# intervals.
(
    COUNT, CUT_COUNT, TRACK_COUNT, TRACK_WIDTH, ROOM, FOUND, START_NS, DUR_NS, TRACK, PARENT,
    CHOSEN, CUT, CUT_END_NS, TRACKS, STARTS, ENDS,
) = range(0, 128, 8)  # fmt: skip
# Of a track: whether a slice on it is chosen, its innermost slice, since when that is, and the
# interval that was found last, and its end.
WANTED, TOP, SINCE, LAST, LAST_END, STATE = 0, 8, 16, 24, 32, 40


@njit(**FAST)
def _end(control, row):
    """When a slice ends, as it was cut."""
    low, high = 0, word_at(control + CUT_COUNT)
    cut = word_at(control + CUT)
    while low < high:
        middle = (low + high) >> 1
        if word_at(cut + 8 * middle) < row:
            low = middle + 1
        else:
            high = middle
    if low < word_at(control + CUT_COUNT) and word_at(cut + 8 * low) == row:
        return word_at(word_at(control + CUT_END_NS) + 8 * low)
    start = word_at(word_at(control + START_NS) + 8 * row)
    return start + word_at(word_at(control + DUR_NS) + 8 * row)


@njit(**FAST)
def _emit(control, state, end):
    """Take the time since the innermost slice is that, up to an end; it is one of the chosen."""
    begin = word_at(state + SINCE)
    if begin >= end:
        return
    found = word_at(control + FOUND)
    place = word_at(state + LAST)
    if place < 0 or word_at(state + LAST_END) != begin:
        place = found
        put_word(control + FOUND, found + 1)
        put_word(state + LAST, place)
        if place < word_at(control + ROOM):
            put_word(word_at(control + STARTS) + 8 * place, begin)
    put_word(state + LAST_END, end)
    if place < word_at(control + ROOM):
        put_word(word_at(control + ENDS) + 8 * place, end)


@njit(**FAST)
def _leave(control, state, until, all_of_them):
    """Leave the slices of a track that end by a time, or all; returns the one that goes on."""
    row = word_at(state + TOP)
    parent = word_at(control + PARENT)
    chosen = word_at(control + CHOSEN)
    while row >= 0:
        end = _end(control, row)
        if end > until and not all_of_them:
            break
        if byte_at(chosen + row):
            _emit(control, state, end)
        put_word(state + SINCE, end)
        row = half_at(parent + 4 * row)
    return row


@njit(**FAST)
def innermost_time(control):
    """Find the intervals, track by track ascending; how many, whether there is room or not."""
    count = word_at(control + COUNT)
    starts = word_at(control + START_NS)
    tracks = word_at(control + TRACK)
    width = word_at(control + TRACK_WIDTH)
    chosen = word_at(control + CHOSEN)
    states = word_at(control + TRACKS)
    for row in range(count):
        if byte_at(chosen + row):
            put_word(states + STATE * track_at(tracks, width, row) + WANTED, 1)
    for row in range(count):
        state = states + STATE * track_at(tracks, width, row)
        if word_at(state + WANTED):
            start = word_at(starts + 8 * row)
            above = _leave(control, state, start, False)
            if above >= 0 and byte_at(chosen + above):
                _emit(control, state, start)
            put_word(state + SINCE, start)
            put_word(state + TOP, row)
    for track in range(word_at(control + TRACK_COUNT)):
        state = states + STATE * track
        if word_at(state + WANTED):
            _leave(control, state, 0, True)
    return word_at(control + FOUND)
