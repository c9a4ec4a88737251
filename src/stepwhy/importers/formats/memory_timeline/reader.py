"""PyTorch's memory timelines: what tensors held over time, by what they are for.

`torch.profiler.profile.export_memory_timeline` writes two kinds of them. As '.raw.json.gz' it is a
list of what happened to tensors: nanoseconds, action, bytes, category. As '.json' or '.json.gz' it
is a pair of lists: microseconds, and for each a zero and the bytes of each category. Neither names
its device, the step, or what ran.

Source: `MemoryProfileTimeline` of `torch/profiler/_memory_profiler.py`.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.columns.chunks import take
from stepwhy.columns.growing import Growing
from stepwhy.columns.narrow import narrowed
from stepwhy.errors import CorruptInputError, EmptyInputError
from stepwhy.inputs.source import let_go
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Meta, TraceBuilder
from stepwhy.units import format_bytes

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.inputs.source import Source
    from stepwhy.trace import Health, Trace

    Data = bytes | mmap.mmap
    Ints = NDArray[np.int64]
    Flags = NDArray[np.bool_]

FORMAT = "torch-memory-timeline"

# By their numbers in the file.
_CATEGORIES = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "unknown",
)
_RAW = regex(rb"\s*\[\s*(?:\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]\s*,?\s*)+")
_TIMES = regex(rb"\s*\[\s*\[\s*-?\d+\s*(?:,\s*-?\d+\s*)*")
_SIZES = regex(rb"\]\s*,\s*\[\s*\[\s*0\s*(?:,\s*-?\d+\s*){8}\]")
_BETWEEN = regex(rb"\s*,")
_COMMA = regex(rb",")
_BETWEEN_LISTS = regex(rb"\]\s*,")
_SPACE = regex(rb"\s*")
_SOMETHING = regex(rb"\S")
_BRACKETS = 2
_PIECE = 1 << 20  # bytes
_NS_PER_US = 1000
_RECORDS = 1 << 14  # sums that are looked at at a time
# Times and sums beyond the first would leave int64 when added up; sizes beyond the second are
# damaged.
_LARGEST_NS, _LARGEST = 1 << 62, 1 << 52
# Beyond all of these, and still of 64 bits when it is subtracted, or made nanoseconds.
_BEYOND, _BEYOND_US = 1 << 61, 1 << 53
_SIZES_OF_RECORD = slice(1, 1 + len(_CATEGORIES))

_NOTE = (
    "A memory timeline tells no steps, not what ran, and not which device it is of. It holds only "
    "tensors that were used while it was recorded. Record a Kineto trace with profile_memory=True "
    "to have memory explained beside time."
)


class _Records(NamedTuple):
    """What happened at some times; times before the record are negative.

    Args:
        time_ns: When; (records,).
        is_whole: Whether each has all that it should have; (records,).
        record: Which record each change is of, ascending; (changes,).
        size: Bytes gained or lost; (changes,).
        category: The category that did; (changes,).
    """

    time_ns: Ints
    is_whole: Flags
    record: Ints
    size: Ints
    category: Ints


def recognise(source: Source) -> bool:
    """Whether the file is a list of four numbers each, or of times and of nine numbers each."""
    if _RAW.match(source.head):
        return True
    times = _TIMES.match(source.head)
    # Times alone can fill the head.
    return times is not None and _SIZES.search(source.mapped, times.end()) is not None


def read(source: Source) -> Trace | None:
    """The allocations that a memory timeline tells of; None when it is another list.

    Raises:
        CorruptInputError: The file is cut off or no JSON.
        EmptyInputError: Nothing in it can be used.
    """
    if not recognise(source):
        return None
    builder = TraceBuilder()
    is_raw = _RAW.match(source.head) is not None
    writer = _Writer(is_raw=is_raw)
    try:
        for records in _raw(source.mapped) if is_raw else _sums(source.mapped):
            writer.add(_usable(records, builder.health))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CorruptInputError(
            f"{source.origin} is a memory timeline that is cut off or damaged",
            "Copy it again, or export it again",
        ) from None
    if not builder.health.events_kept:
        raise EmptyInputError(
            f"{source.origin} is a memory timeline without a tensor",
            "Export it for the device that the training ran on",
        )
    writer.write(builder)
    notes = (_NOTE,) if is_raw else (writer.held_at_peak(), _NOTE)
    return builder.finish(Meta(FORMAT, "pytorch", signals=frozenset({"memory"}), notes=notes))


def _raw(data: Data) -> Iterator[_Records]:
    """What happened to tensors, one by one.

    Raises:
        DecodeError: It is cut off or damaged.
    """
    begin, end = _inside(data, 0, len(data))
    for piece in _pieces(data, begin, end, tuple[int, int, int, int]):
        time_ns, _, size, category = _numbers(piece, 4, _LARGEST_NS).T
        each = np.arange(len(piece))
        yield _Records(time_ns, np.ones(len(piece), dtype=bool), each, size, category)


def _sums(data: Data) -> Iterator[_Records]:
    """Differences of the sums: at every time what was lost before what was gained.

    Raises:
        DecodeError: It is cut off or damaged.
    """
    begin, end = _inside(data, 0, len(data))
    behind = data.find(b"]", begin, end) + 1
    between = _BETWEEN.match(data, behind, end)
    if between is None:
        raise msgspec.DecodeError
    times = chain.from_iterable(_pieces(data, *_inside(data, begin, behind), int))
    sizes = chain.from_iterable(_pieces(data, *_inside(data, between.end(), end), list[int]))
    before = np.zeros((1, len(_CATEGORIES)), dtype=np.int64)
    both = zip(times, sizes, strict=False)
    while piece := list(islice(both, _RECORDS)):
        held = [sums[_SIZES_OF_RECORD] for _, sums in piece]
        is_whole = np.asarray([len(sums) == len(_CATEGORIES) for sums in held])
        whole = [sums for sums in held if len(sums) == len(_CATEGORIES)]
        now = np.concatenate([before, _numbers(whole, len(_CATEGORIES), _BEYOND)])
        before = now[-1:]
        time_us = _numbers([[time_us] for time_us, _ in piece], 1, _BEYOND_US)[:, 0]
        changes = _changes(np.flatnonzero(is_whole), now)
        is_whole[is_whole] = (np.abs(now[1:]) < _BEYOND).all(axis=1)
        yield _Records(time_us * _NS_PER_US, is_whole, *changes)
    for _ in chain(times, sizes):
        pass  # what is left must be whole, too


def _changes(records: Ints, held: Ints) -> tuple[Ints, Ints, Ints]:
    """Record, size and category of each change, the smallest of a record first; (changes,) each.

    Args:
        records: Numbers of the records; (records,).
        held: What each category held before the first of them, and at each; (1 + records, 8).
    """
    gained = np.diff(held, axis=0)
    row, category = np.nonzero(gained)
    size = gained[row, category]
    order = np.lexsort((size, row))  # stable, so that equal ones stay in order of the categories
    return records[row[order]], size[order], category[order]


def _numbers(rows: Sequence[Sequence[int]], width: int, beyond: int) -> Ints:
    """Numbers of a file as an array, those of more than 64 bits cut; (rows, width).

    Args:
        rows: The numbers.
        width: How many each row has.
        beyond: What none of them may reach.
    """
    try:
        found = np.array(rows, dtype=np.int64)
    except OverflowError:
        cut = [[min(max(n, -beyond), beyond) for n in row] for row in rows]
        found = np.array(cut, dtype=np.int64)
    return found.reshape(-1, width).clip(-beyond, beyond)


def _inside(data: Data, begin: int, end: int) -> tuple[int, int]:
    """Where the text between the brackets of a list lies.

    Raises:
        DecodeError: There are none.
    """
    first = _SPACE.match(data, begin, end)
    begin = first.end() if first else begin
    while end > begin and data[end - 1 : end].isspace():
        end -= 1
    if end - begin < _BRACKETS or data[begin : begin + 1] != b"[" or data[end - 1 : end] != b"]":
        raise msgspec.DecodeError
    return begin + 1, end - 1


def _pieces(data: Data, begin: int, end: int, kind: Any) -> Iterator[list[Any]]:
    """The elements of a list of numbers, or of lists of numbers, some at a time.

    Raises:
        DecodeError: They are others.
    """
    decoder = msgspec.json.Decoder(list[kind])
    comma = _COMMA if kind is int else _BETWEEN_LISTS
    while begin < end:
        found = comma.search(data, begin + _PIECE, end)
        stop = found.end() - 1 if found else end
        yield decoder.decode(b"[%b]" % data[begin:stop])
        let_go(data, begin, stop)
        begin = stop + 1
        if found and _SOMETHING.search(data, begin, end) is None:
            raise msgspec.DecodeError


def _usable(records: _Records, health: Health) -> _Records:
    """Records with times, sizes and categories that can be; the others are counted."""
    size, category = records.size, records.category
    absurd = (size <= -_LARGEST) | (size >= _LARGEST)
    absurd |= (category < 0) | (category >= len(_CATEGORIES))
    fits = records.is_whole & (records.time_ns < _LARGEST_NS)
    fits[records.record[absurd]] = False
    health.events_read += len(fits)
    health.events_kept += int(fits.sum())
    health.count(
        "unusable-record",
        "warning",
        "Records with an absurd time, size or category were left out.",
        count=int((~fits).sum()),
        dropped=True,
    )
    if fits.all():
        return records
    kept = fits[records.record]
    number = (np.cumsum(fits) - 1)[records.record[kept]]
    return _Records(records.time_ns[fits], fits[fits], number, size[kept], category[kept])


class _Writer:
    """Makes allocations, and the sum of each category as a counter, of records in order of time.

    Args:
        is_raw: Whether each change is one of a single tensor.
    """

    def __init__(self, *, is_raw: bool) -> None:
        self._blocks = _Blocks() if is_raw else None
        self._sums = np.zeros(len(_CATEGORIES), dtype=np.int64)
        self._peak = self._sums.copy()
        self._begin_ns = _LARGEST_NS
        self._allocations = {name: Growing(np.int64) for name in ("time_ns", "change", "total")}
        if is_raw:
            self._allocations["block"] = Growing(np.int32)  # no file has 2**31 records
        self._owners = Growing(np.int8)
        # At every time as many categories are counted as change; of a single one, it is the owner.
        self._values = Growing(np.int64)
        self._names = self._owners if is_raw else Growing(np.int8)

    def add(self, records: _Records) -> None:
        """Take some records.

        Raises:
            DecodeError: They add up to more than there is.
        """
        time_ns, _, record, size, category = records
        self._begin_ns = min(self._begin_ns, int(time_ns[time_ns >= 0].min(initial=_LARGEST_NS)))
        if np.abs(np.append(self._sums, size)).sum(dtype=float) >= _LARGEST_NS:
            raise msgspec.DecodeError
        total = self._sums.sum() + np.cumsum(size)
        self._note_peak(records, total)
        added = {"time_ns": np.maximum(time_ns[record], NULL), "change": size}
        added["total"] = np.maximum(total, NULL)
        if self._blocks is not None:
            added["block"] = self._blocks.of(size, category)
        for name, values in added.items():
            self._allocations[name].append(values)
        self._owners.append(category)
        levels = self._levels(size, category)
        if self._names is not self._owners:
            order = np.lexsort((category, record))
            levels = levels[order]
            self._names.append(category[order])
        self._values.append(levels)

    def _levels(self, size: Ints, category: Ints) -> Ints:
        """What its category held after each change; (changes,)."""
        levels = np.empty(len(size), dtype=np.int64)
        for number in np.unique(category).tolist():
            mine = category == number
            levels[mine] = self._sums[number] + np.cumsum(size[mine])
            self._sums[number] += size[mine].sum()
        return levels

    def _note_peak(self, records: _Records, total: Ints) -> None:
        """Note what each category holds where all together hold most, after a whole record.

        Args:
            records: The records.
            total: What is held after each change; (changes,).
        """
        record = records.record
        last = np.flatnonzero(np.append(record[1:] != record[:-1], len(record) > 0))
        if len(last) and total[last].max() > self._peak.sum():
            until = slice(int(last[total[last].argmax()]) + 1)
            self._peak = self._sums.copy()
            np.add.at(self._peak, records.category[until], records.size[until])

    def write(self, builder: TraceBuilder) -> None:
        """Append all of them; nothing is held any more."""
        columns = {name: column.values() for name, column in self._allocations.items()}
        self._allocations = {}
        time_ns = columns["time_ns"]
        if not len(time_ns):
            return
        # What was there before the record is there when it begins.
        begin_ns = 0 if self._begin_ns == _LARGEST_NS else self._begin_ns
        np.maximum(time_ns, begin_ns, out=time_ns)
        pool = np.broadcast_to(np.int32(builder.intern("PyTorch tensors")), len(time_ns))
        owner = _of(builder.intern_all(_CATEGORIES), self._owners)
        builder.rows_from("allocations", {"pool": pool, "owner": owner, **columns})
        names = _of(builder.intern_all([f"{name} bytes" for name in _CATEGORIES]), self._names)
        value, self._values = self._values.values(), Growing(np.int64)
        self._owners = self._names = Growing(np.int8)
        builder.rows_from("counters", {"time_ns": time_ns, "name": names, "value": value})

    def held_at_peak(self) -> str:
        """What the tensors were for at the peak: sums have no blocks that would tell."""
        largest = sorted(zip(self._peak.tolist(), _CATEGORIES, strict=True), reverse=True)
        parts = [f"{name} {format_bytes(size)}" for size, name in largest if size > 0]
        return f"At the peak the tensors were: {', '.join(parts) or 'none'}."


class _Blocks:
    """Numbers the blocks of tensors; tensors of a size and category are alike."""

    def __init__(self) -> None:
        self._living: dict[int, list[int]] = {}
        self._made = 0

    def of(self, size: Ints, category: Ints) -> Ints:
        """The block of each change, NULL for one that was not seen to be made; (changes,)."""
        alike = np.abs(size) * len(_CATEGORIES) + category
        changes = zip(alike.tolist(), (size < 0).tolist(), strict=True)
        found = [self._gone(key) if is_gone else self._new(key) for key, is_gone in changes]
        return np.asarray(found, dtype=np.int64)

    def _new(self, key: int) -> int:
        self._made += 1
        self._living.setdefault(key, []).append(self._made)
        return self._made

    def _gone(self, key: int) -> int:
        blocks = self._living.get(key)
        if blocks is None:
            return NULL
        if len(blocks) == 1:
            del self._living[key]
        return blocks.pop()


def _of(strings: Sequence[int], categories: Growing) -> NDArray[np.signedinteger[Any]]:
    """The string of each category; (categories,)."""
    return take(narrowed(np.asarray(strings, dtype=np.int32)), categories.values())
