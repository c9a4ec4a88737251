"""Rows of slices: in which order they are, and which encloses which.

Columns are addresses; times are int64, rows int32, tracks as wide as they must be.
"""

from numba import njit

from stepwhy.native.kernels.slice_tracks import track_at
from stepwhy.native.kernels.wire import FAST
from stepwhy.native.memory import byte_at, half_at, put_byte, put_half, put_word, word_at

NO_PARENT = -1
# Fields of `merge_rows`: what tells the order, the order, room for half of what is merged, and
# where the one run begins, where it ends and the other begins, and where that ends.
START_NS, DUR_NS, ORDER, SPARE, FIRST, MIDDLE, END = range(0, 56, 8)


@njit(**FAST)
def _is_before(start_ns, dur_ns, row, other):
    """Whether a row must stand before another, which starts as late and takes as long or less."""
    start = word_at(start_ns + 8 * row)
    of_other = word_at(start_ns + 8 * other)
    if start != of_other:
        return start < of_other
    return word_at(dur_ns + 8 * row) > word_at(dur_ns + 8 * other)


@njit(**FAST)
def _merge_forwards(control, first, middle, end):
    """Merge where the first run is the shorter one, from its front."""
    start_ns = word_at(control + START_NS)
    dur_ns = word_at(control + DUR_NS)
    order = word_at(control + ORDER)
    spare = word_at(control + SPARE)
    length = middle - first
    for i in range(length):
        put_half(spare + 4 * i, half_at(order + 4 * (first + i)))
    left, right, at = 0, middle, first
    while left < length and right < end:
        row = half_at(order + 4 * right)
        of_left = half_at(spare + 4 * left)
        if _is_before(start_ns, dur_ns, row, of_left):
            right += 1
        else:
            row = of_left
            left += 1
        put_half(order + 4 * at, row)
        at += 1
    while left < length:
        put_half(order + 4 * at, half_at(spare + 4 * left))
        left += 1
        at += 1


@njit(**FAST)
def _merge_backwards(control, first, middle, end):
    """Merge where the second run is the shorter one, from its back."""
    start_ns = word_at(control + START_NS)
    dur_ns = word_at(control + DUR_NS)
    order = word_at(control + ORDER)
    spare = word_at(control + SPARE)
    length = end - middle
    for i in range(length):
        put_half(spare + 4 * i, half_at(order + 4 * (middle + i)))
    left, right, at = middle - 1, length - 1, end - 1
    while left >= first and right >= 0:
        row = half_at(order + 4 * left)
        of_right = half_at(spare + 4 * right)
        if _is_before(start_ns, dur_ns, of_right, row):
            left -= 1
        else:
            row = of_right
            right -= 1
        put_half(order + 4 * at, row)
        at -= 1
    while right >= 0:
        put_half(order + 4 * at, half_at(spare + 4 * right))
        right -= 1
        at -= 1


@njit(**FAST)
def merge_rows(control):
    """Merge two runs of rows that stand side by side, ordered by start, then longest first.

    Rows that agree in both keep their order.

    Args:
        control: Address of the fields above.
    """
    first = word_at(control + FIRST)
    middle = word_at(control + MIDDLE)
    end = word_at(control + END)
    if middle - first <= end - middle:
        _merge_forwards(control, first, middle, end)
    else:
        _merge_backwards(control, first, middle, end)
    return 0


# Fields of `hang_slices`: how many slices there are, and what is known of them; of each track
# whether slices call each other on it, and its last slice; the parents; whether a slice was cut,
# those that were, ascending, with their ends, and for how many there is room.
(
    COUNT, SLICE_START, SLICE_DUR, TRACK, TRACK_WIDTH, IS_CALLED, LAST, PARENT, IS_CUT, CUTS, ROOM,
) = range(0, 88, 8)  # fmt: skip
# Of a slice that was cut: its row, its end.
CUT_ROW, CUT_END, CUT = 0, 8, 16


@njit(**FAST)
def _cut_end(cuts, count, row):
    """Where a slice ends that was cut."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if word_at(cuts + CUT * middle + CUT_ROW) < row:
            low = middle + 1
        else:
            high = middle
    return word_at(cuts + CUT * low + CUT_END)


@njit(**FAST)
def _end(control, row, count):
    """Where a slice ends, of so many that were cut."""
    if byte_at(word_at(control + IS_CUT) + row):
        return _cut_end(word_at(control + CUTS), count, row)
    start = word_at(word_at(control + SLICE_START) + 8 * row)
    return start + word_at(word_at(control + SLICE_DUR) + 8 * row)


@njit(**FAST)
def hang_slices(control):
    """Find the parent of every slice, and those that are cut at their parent's end.

    Slices stand in the order of their starts, the longest first. The last one on a track and those
    around it are all that can hold the next.

    Returns:
        How many were cut; -1 where there is no room for them.
    """
    start_ns = word_at(control + SLICE_START)
    dur_ns = word_at(control + SLICE_DUR)
    tracks = word_at(control + TRACK)
    width = word_at(control + TRACK_WIDTH)
    is_called = word_at(control + IS_CALLED)
    last = word_at(control + LAST)
    parent = word_at(control + PARENT)
    count = 0
    for row in range(word_at(control + COUNT)):
        start = word_at(start_ns + 8 * row)
        track = track_at(tracks, width, row)
        above = NO_PARENT
        if byte_at(is_called + track):
            above = half_at(last + 4 * track)
            until = 0
            while above >= 0:
                until = _end(control, above, count)
                if until > start:
                    break
                above = half_at(parent + 4 * above)
            put_half(last + 4 * track, row)
            if above >= 0 and start + word_at(dur_ns + 8 * row) > until:
                if count == word_at(control + ROOM):
                    return -1
                put_word(word_at(control + CUTS) + CUT * count + CUT_ROW, row)
                put_word(word_at(control + CUTS) + CUT * count + CUT_END, until)
                put_byte(word_at(control + IS_CUT) + row, 1)
                count += 1
        put_half(parent + 4 * row, above)
    return count


@njit(**FAST)
def without_children(parent, rows, own):
    """Take from the durations of slices those of their children, which stand behind them."""
    for row in range(rows):
        above = half_at(parent + 4 * row)
        if above >= 0:
            put_word(own + 8 * above, word_at(own + 8 * above) - word_at(own + 8 * row))
    return 0


@njit(**FAST)
def inherit_halves(parent, rows, values, null):
    """Give rows whose int32 is null that of the row above, which stands before them."""
    for row in range(rows):
        above = half_at(parent + 4 * row)
        if above >= 0 and half_at(values + 4 * row) == null:
            put_half(values + 4 * row, half_at(values + 4 * above))
    return 0


@njit(**FAST)
def inherit_bytes(parent, rows, values, null):
    """As `inherit_halves` with bytes, of which none is negative."""
    for row in range(rows):
        above = half_at(parent + 4 * row)
        if above >= 0 and byte_at(values + row) == null:
            put_byte(values + row, byte_at(values + above))
    return 0
