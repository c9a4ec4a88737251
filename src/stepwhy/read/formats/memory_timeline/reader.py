"""PyTorch's memory timelines: memory of tensors over time, by category.

`torch.profiler.profile.export_memory_timeline` writes two formats. A '.raw.json.gz' file is a list
of events of single tensors: nanoseconds, action, bytes, category. A '.json' or '.json.gz' file is a
pair of lists: times in microseconds, and for each time a zero and the bytes of each category.
Neither contains a device, a step, or operations.

Source: `MemoryProfileTimeline` of `torch/profiler/_memory_profiler.py`.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.errors import CorruptInputError, EmptyInputError
from stepwhy.base.patterns import regex
from stepwhy.read.formats.memory_timeline.writer import CATEGORIES, LARGEST_NS, Records, Writer
from stepwhy.read.inputs.source import let_go
from stepwhy.read.shared.repaired_json import repaired, without_nulls
from stepwhy.trace import Health, Meta, TraceBuilder

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator, Sequence

    from stepwhy.base.columns.types import Ints
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

    Data = bytes | mmap.mmap

FORMAT = "torch-memory-timeline"

_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_RAW = regex(rb"\s*\[\s*(?:\[\s*-?\d+\s*,\s*[1-4]\s*,\s*-?\d+\s*,\s*[0-7]\s*\]\s*,?\s*)+")
_TIMES = regex(rb"\s*\[\s*\[\s*-?\d+\s*(?:,\s*-?\d+\s*)*")
_SIZES = regex(rb"\]\s*,\s*\[\s*\[\s*0\s*(?:,\s*-?\d+\s*){8}\]")
_BETWEEN = regex(rb"\s*,")
_COMMA = regex(rb",")
_BETWEEN_LISTS = regex(rb"\]\s*,")
_SPACE = regex(rb"\s*")
_SOMETHING = regex(rb"\S")
_BRACKETS = 2
_LISTS = 2  # of times and of sums
_CHUNK = 1 << 20  # bytes
_NS_PER_US = 1000
_RECORDS = 1 << 14  # times per chunk of sums
# Larger sizes are damage.
_LARGEST = 1 << 52
# Limits to which larger numbers are clipped: invalid, but their differences, and nanoseconds of the
# second, still fit into 64 bits.
_BEYOND, _BEYOND_US = 1 << 61, 1 << 53
_SIZES_OF_RECORD = slice(1, 1 + len(CATEGORIES))

_NOTE = (
    "A memory timeline contains no steps, no operations and no device. It covers only tensors that "
    "were used while it was recorded. Record a Kineto trace with profile_memory=True to explain "
    "memory together with time."
)


def recognise(source: Source) -> bool:
    """Whether the file is a list of lists of four numbers, or of times and lists of nine."""
    if _RAW.match(source.head):
        return True
    times = _TIMES.match(source.head)
    # The list of times can be longer than the head.
    return times is not None and _SIZES.search(source.mapped, times.end()) is not None


def read(source: Source) -> Trace | None:
    """Read the allocations of a memory timeline; None if the file is another list.

    Raises:
        CorruptInputError: The file is truncated or not JSON.
        EmptyInputError: It has no usable record.
    """
    if not recognise(source):
        return None
    is_raw = _RAW.match(source.head) is not None
    try:
        writer, health = _read(source, is_raw=is_raw)
    except _NOT_JSON:
        raise CorruptInputError(
            f"{source.origin} is a memory timeline that is cut off or damaged",
            "Copy it again, or export it again",
        ) from None
    builder = TraceBuilder(health)
    if not builder.health.events_kept:
        raise EmptyInputError(
            f"{source.origin} is a memory timeline without a tensor",
            "Export it for the device that the training ran on",
        )
    writer.write(builder)
    notes = (_NOTE,) if is_raw else (writer.peak_note(), _NOTE)
    return builder.finish(Meta(FORMAT, "pytorch", signals=frozenset({"memory"}), notes=notes))


def _read(source: Source, *, is_raw: bool) -> tuple[Writer, Health]:
    """The records of a file, which may be damaged, and what could not be read.

    Raises:
        DecodeError, UnicodeDecodeError, RecursionError: It is cut off, or damaged too much.
    """
    with suppress(*_NOT_JSON):
        return _written(source.mapped, Health(), is_raw=is_raw)
    health = Health()
    found = repaired(source.mapped, health)
    if found is None or not found.complete:
        raise msgspec.DecodeError
    elements = msgspec.json.decode(found.text)
    if is_raw:
        whole = [e for e in elements if isinstance(e, list) and list(map(type, e)) == [int] * 4]
    else:
        whole = without_nulls(elements)
        # Times and sums are matched by their places, so that none of them may be missing.
        sizes = {len(part) if isinstance(part, list) else -1 for part in whole}
        if found.lost or len(whole) != _LISTS or len(sizes) > 1:
            raise msgspec.DecodeError
    malformed = len(elements) - len(whole)
    health.events_read += malformed
    health.count(
        "malformed-record",
        "warning",
        "Records whose fields have the wrong type were left out.",
        count=malformed,
        dropped=True,
    )
    return _written(msgspec.json.encode(whole), health, is_raw=is_raw)


def _written(data: Data, health: Health, *, is_raw: bool) -> tuple[Writer, Health]:
    writer = Writer(is_raw=is_raw)
    for records in _raw(data) if is_raw else _sums(data):
        writer.add(_usable(records, health))
    return writer, health


def _raw(data: Data) -> Iterator[Records]:
    """Events of single tensors, in chunks.

    Raises:
        DecodeError: The file is truncated or damaged.
    """
    begin, end = _list_bounds(data, 0, len(data))
    for chunk in _chunks(data, begin, end, tuple[int, int, int, int]):
        time_ns, _, size, category = _numbers(chunk, 4, LARGEST_NS).T
        record = np.arange(len(chunk))
        yield Records(time_ns, np.ones(len(chunk), dtype=bool), record, size, category)


def _sums(data: Data) -> Iterator[Records]:
    """Changes of the sums of each category, in chunks; at one time, releases come first.

    Raises:
        DecodeError: The file is truncated or damaged.
    """
    begin, end = _list_bounds(data, 0, len(data))
    behind = data.find(b"]", begin, end) + 1
    between = _BETWEEN.match(data, behind, end)
    if between is None:
        raise msgspec.DecodeError
    times = chain.from_iterable(_chunks(data, *_list_bounds(data, begin, behind), int))
    sizes = chain.from_iterable(_chunks(data, *_list_bounds(data, between.end(), end), list[int]))
    before = np.zeros((1, len(CATEGORIES)), dtype=np.int64)
    both = zip(times, sizes, strict=False)
    while chunk := list(islice(both, _RECORDS)):
        sums_of_records = [sums[_SIZES_OF_RECORD] for _, sums in chunk]
        is_whole = np.asarray([len(sums) == len(CATEGORIES) for sums in sums_of_records])
        whole = [sums for sums in sums_of_records if len(sums) == len(CATEGORIES)]
        now = np.concatenate([before, _numbers(whole, len(CATEGORIES), _BEYOND)])
        before = now[-1:]
        time_us = _numbers([[time_us] for time_us, _ in chunk], 1, _BEYOND_US)[:, 0]
        changes = _changes(np.flatnonzero(is_whole), now)
        is_whole[is_whole] = (np.abs(now[1:]) < _BEYOND).all(axis=1)
        yield Records(time_us * _NS_PER_US, is_whole, *changes)
    for _ in chain(times, sizes):
        pass  # decode the rest of the longer list: it must be valid, too


def _changes(records: Ints, sums: Ints) -> tuple[Ints, Ints, Ints]:
    """Record, size and category of each change, the smallest of a record first; (changes,) each.

    Args:
        records: Numbers of the records; (records,).
        sums: Bytes of each category before the first record, and at each record; (1 + records, 8).
    """
    differences = np.diff(sums, axis=0)
    row, category = np.nonzero(differences)
    size = differences[row, category]
    order = np.lexsort((size, row))  # stable: equal sizes stay in the order of categories
    return records[row[order]], size[order], category[order]


def _numbers(rows: Sequence[Sequence[int]], width: int, beyond: int) -> Ints:
    """Numbers of the file as an array, clipped to -`beyond` and `beyond`; (rows, width).

    Args:
        rows: The numbers.
        width: Numbers per row.
        beyond: Smallest invalid number.
    """
    try:
        numbers = np.array(rows, dtype=np.int64)
    except OverflowError:
        clipped = [[min(max(n, -beyond), beyond) for n in row] for row in rows]
        numbers = np.array(clipped, dtype=np.int64)
    return numbers.reshape(-1, width).clip(-beyond, beyond)


def _list_bounds(data: Data, begin: int, end: int) -> tuple[int, int]:
    """Begin and end of the text between the brackets of a list.

    Raises:
        DecodeError: There are no brackets.
    """
    first = _SPACE.match(data, begin, end)
    begin = first.end() if first else begin
    while end > begin and data[end - 1 : end].isspace():
        end -= 1
    if end - begin < _BRACKETS or data[begin : begin + 1] != b"[" or data[end - 1 : end] != b"]":
        raise msgspec.DecodeError
    return begin + 1, end - 1


def _chunks(data: Data, begin: int, end: int, kind: Any) -> Iterator[list[Any]]:
    """The elements of a list of numbers, or of lists of numbers, in chunks.

    Raises:
        DecodeError: The elements are of another kind.
    """
    decoder = msgspec.json.Decoder(list[kind])
    comma = _COMMA if kind is int else _BETWEEN_LISTS
    while begin < end:
        found = comma.search(data, begin + _CHUNK, end)
        stop = found.end() - 1 if found else end
        yield decoder.decode(b"[%b]" % data[begin:stop])
        let_go(data, begin, stop)
        begin = stop + 1
        if found and _SOMETHING.search(data, begin, end) is None:
            raise msgspec.DecodeError


def _usable(records: Records, health: Health) -> Records:
    """The records with possible times, sizes and categories; the others are counted."""
    size, category = records.size, records.category
    absurd = (size <= -_LARGEST) | (size >= _LARGEST)
    absurd |= (category < 0) | (category >= len(CATEGORIES))
    fits = records.is_whole & (records.time_ns < LARGEST_NS)
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
    return Records(records.time_ns[fits], fits[fits], number, size[kept], category[kept])
