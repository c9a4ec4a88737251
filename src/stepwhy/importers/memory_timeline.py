"""PyTorch's memory timelines: what tensors held over time, by what they are for.

`torch.profiler.profile.export_memory_timeline` writes two kinds of them. As '.raw.json.gz' it is a
list of what happened to tensors: nanoseconds, action, bytes, category. As '.json' or '.json.gz' it
is a pair of lists: microseconds, and for each a zero and the bytes of each category. Neither names
its device, the step, or what ran.

Source: `MemoryProfileTimeline` of `torch/profiler/_memory_profiler.py`.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.errors import CorruptInputError, EmptyInputError
from stepwhy.importers.source import let_go
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Meta, TraceBuilder
from stepwhy.units import format_bytes

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.source import Source
    from stepwhy.trace import Health, Trace

    Data = bytes | mmap.mmap

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
_BRACKETS = 2
_PIECE = 1 << 20  # bytes
_NS_PER_US = 1000
# Times beyond the first would leave int64 when added up; sizes beyond the second are damaged.
_LARGEST_NS, _LARGEST = 1 << 62, 1 << 52
_RANGE = range(len(_CATEGORIES))
# A change (size, category) of a category that there is not: the record is left out, and counted.
_UNUSABLE = (0, -1)

_NOTE = (
    "A memory timeline tells no steps, not what ran, and not which device it is of. It holds only "
    "tensors that were used while it was recorded. Record a Kineto trace with profile_memory=True "
    "to have memory explained beside time."
)


class _Record(NamedTuple):
    """What happened at one time; times before the record are negative.

    Args:
        time_ns: When.
        changes: Bytes gained or lost, and the category that did.
    """

    time_ns: int
    changes: list[tuple[int, int]]


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
        for record in _usable(
            _raw(source.mapped) if is_raw else _sums(source.mapped), builder.health
        ):
            writer.add(record)
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


def _raw(data: Data) -> Iterator[_Record]:
    """What happened to tensors, one by one.

    Raises:
        DecodeError: It is cut off or damaged.
    """
    begin, end = _inside(data, 0, len(data))
    for time_ns, _, size, category in _elements(data, begin, end, tuple[int, int, int, int]):
        yield _Record(time_ns, [(size, category)])


def _sums(data: Data) -> Iterator[_Record]:
    """Differences of the sums: at every time what was lost before what was gained.

    Raises:
        DecodeError: It is cut off or damaged.
    """
    begin, end = _inside(data, 0, len(data))
    behind = data.find(b"]", begin, end) + 1
    between = _BETWEEN.match(data, behind, end)
    if between is None:
        raise msgspec.DecodeError
    times = _elements(data, *_inside(data, begin, behind), int)
    sizes = _elements(data, *_inside(data, between.end(), end), list[int])
    before = [0] * len(_CATEGORIES)
    for time_us, held in zip(times, sizes, strict=False):
        now = held[1:]
        if len(now) < len(before):
            yield _Record(time_us * _NS_PER_US, [_UNUSABLE])
            continue
        pairs = zip(now, before, strict=False)
        changes = sorted((b - a, i) for i, (b, a) in enumerate(pairs) if a != b)
        yield _Record(time_us * _NS_PER_US, changes)
        before = now
    for _ in chain(times, sizes):
        pass  # what is left must be whole, too


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


def _elements(data: Data, begin: int, end: int, kind: Any) -> Iterator[Any]:
    """The elements of a list of numbers, or of lists of numbers, decoded a piece at a time.

    Raises:
        DecodeError: They are others.
    """
    decoder = msgspec.json.Decoder(list[kind])
    comma = _COMMA if kind is int else _BETWEEN_LISTS
    while begin < end:
        found = comma.search(data, begin + _PIECE, end)
        stop = found.end() - 1 if found else end
        yield from decoder.decode(b"[%b]" % data[begin:stop])
        let_go(data, begin, stop)
        begin = stop + 1
        if found and not data[begin:end].strip():
            raise msgspec.DecodeError


def _usable(records: Iterable[_Record], health: Health) -> Iterator[_Record]:
    """Records with times, sizes and categories that can be; the others are counted."""
    for record in records:
        health.events_read += 1
        fits = all(abs(size) < _LARGEST and c in _RANGE for size, c in record.changes)
        if fits and record.time_ns < _LARGEST_NS:
            health.events_kept += 1
            yield record
        else:
            health.count(
                "unusable-record",
                "warning",
                "Records with an absurd time, size or category were left out.",
                dropped=True,
            )


class _Writer:
    """Makes allocations, and the sum of each category as a counter, of records in order of time.

    Args:
        is_raw: Whether each change is one of a single tensor.
    """

    def __init__(self, *, is_raw: bool) -> None:
        self._is_raw = is_raw
        self._living: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._blocks = 0
        self._sums = [0] * len(_CATEGORIES)
        self._peak = list(self._sums)
        self._begin_ns = _LARGEST_NS
        self._allocations = {name: array("q") for name in ("time_ns", "change", "total", "block")}
        self._owners = array("b")
        # At every time as many categories are counted as change.
        self._values, self._names = array("q"), array("b")

    def add(self, record: _Record) -> None:
        """Take a record."""
        time_ns = record.time_ns
        if 0 <= time_ns < self._begin_ns:
            self._begin_ns = time_ns
        columns = self._allocations
        for size, category in record.changes:
            self._sums[category] += size
            columns["time_ns"].append(max(time_ns, NULL))
            columns["change"].append(size)
            columns["total"].append(max(sum(self._sums), NULL))
            if self._is_raw:
                columns["block"].append(self._block(size, category))
            self._owners.append(category)
        if sum(self._sums) > sum(self._peak):
            self._peak = list(self._sums)
        for category in sorted(category for _, category in record.changes):
            self._names.append(category)
            self._values.append(self._sums[category])

    def write(self, builder: TraceBuilder) -> None:
        """Append all of them."""
        columns = {n: np.frombuffer(c, dtype=np.int64) for n, c in self._allocations.items() if c}
        if not columns:
            return
        # What was there before the record is there when it begins.
        begin_ns = 0 if self._begin_ns == _LARGEST_NS else self._begin_ns
        time_ns = np.maximum(columns.pop("time_ns"), begin_ns)
        del self._allocations["time_ns"]
        pool = np.broadcast_to(np.int32(builder.intern("PyTorch tensors")), len(time_ns))
        owner = _of(builder.intern_all(_CATEGORIES), self._owners)
        builder.rows_from(
            "allocations", {"time_ns": time_ns, "pool": pool, "owner": owner, **columns}
        )
        names = _of(builder.intern_all([f"{name} bytes" for name in _CATEGORIES]), self._names)
        value = np.frombuffer(self._values, dtype=np.int64)
        builder.rows_from("counters", {"time_ns": time_ns, "name": names, "value": value})

    def held_at_peak(self) -> str:
        """What the tensors were for at the peak: sums have no blocks that would tell."""
        largest = sorted(zip(self._peak, _CATEGORIES, strict=True), reverse=True)
        parts = [f"{name} {format_bytes(size)}" for size, name in largest if size > 0]
        return f"At the peak the tensors were: {', '.join(parts) or 'none'}."

    def _block(self, size: int, category: int) -> int:
        """The number of a tensor's block; tensors of a size and category are alike."""
        living = self._living[abs(size), category]
        if size < 0:
            return living.pop() if living else NULL
        self._blocks += 1
        living.append(self._blocks)
        return self._blocks


def _of(strings: Sequence[int], categories: array[int]) -> NDArray[np.int32]:
    """The string of each category; (categories,)."""
    found: NDArray[np.int32] = np.asarray(strings, dtype=np.int32)[
        np.frombuffer(categories, dtype=np.int8)
    ]
    return found
