"""PyTorch's memory timelines: what tensors held over time, by what they are for.

`torch.profiler.profile.export_memory_timeline` writes two kinds of them. As '.raw.json.gz' it is a
list of what happened to tensors: nanoseconds, action, bytes, category. As '.json' or '.json.gz' it
is a pair of lists: microseconds, and for each a zero and the bytes of each category. Neither names
its device, the step, or what ran.

Source: `MemoryProfileTimeline` of `torch/profiler/_memory_profiler.py`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stepwhy.errors import CorruptInputError, EmptyInputError
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Meta, TraceBuilder
from stepwhy.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepwhy.importers.source import Source
    from stepwhy.trace import Health, Trace

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
    return times is not None and _SIZES.search(source.data, times.end()) is not None


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
    records = list(_usable(_raw(source) if is_raw else _sums(source), builder.health))
    if not records:
        raise EmptyInputError(
            f"{source.origin} is a memory timeline without a tensor",
            "Export it for the device that the training ran on",
        )
    writer = _Writer(builder, records, is_raw=is_raw)
    writer.write()
    notes = (_NOTE,) if is_raw else (writer.held_at_peak(), _NOTE)
    return builder.finish(Meta(FORMAT, "pytorch", signals=frozenset({"memory"}), notes=notes))


def _raw(source: Source) -> Iterator[_Record]:
    """What happened to tensors, one by one."""
    for time_ns, _, size, category in _decode(source, list[tuple[int, int, int, int]]):
        yield _Record(time_ns, [(size, category)])


def _sums(source: Source) -> Iterator[_Record]:
    """Differences of the sums: at every time what was lost before what was gained."""
    times, sizes = _decode(source, tuple[list[int], list[list[int]]])
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


def _decode(source: Source, kind: Any) -> Any:
    try:
        return msgspec.json.decode(source.data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise CorruptInputError(
            f"{source.origin} is a memory timeline that is cut off or damaged",
            "Copy it again, or export it again",
        ) from None


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
    """Writes allocations, and the sum of each category as a counter.

    Args:
        builder: The trace to append to.
        records: In order of time, at least one.
        is_raw: Whether each change is one of a single tensor.
    """

    def __init__(self, builder: TraceBuilder, records: Sequence[_Record], *, is_raw: bool) -> None:
        self._builder, self._records, self._is_raw = builder, records, is_raw
        self._living: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._blocks = 0
        self._sums = [0] * len(_CATEGORIES)
        self._peak = list(self._sums)
        self._owners = builder.intern_all(_CATEGORIES)
        self._counters = builder.intern_all([f"{name} bytes" for name in _CATEGORIES])

    def write(self) -> None:
        """Append all of them."""
        begin_ns = min((r.time_ns for r in self._records if r.time_ns >= 0), default=0)
        pool = self._builder.intern("PyTorch tensors")
        for record in self._records:
            # What was there before the record is there when it begins.
            time_ns = max(record.time_ns, begin_ns)
            for size, category in record.changes:
                self._sums[category] += size
                total = sum(self._sums)
                self._builder.add(
                    "allocations",
                    time_ns=time_ns,
                    pool=pool,
                    change=size,
                    block=self._block(size, category),
                    owner=self._owners[category],
                    total=total if total >= 0 else NULL,
                )
            if sum(self._sums) > sum(self._peak):
                self._peak = list(self._sums)
            self._count(time_ns, {category for _, category in record.changes})

    def held_at_peak(self) -> str:
        """What the tensors were for at the peak: sums have no blocks that would tell."""
        largest = sorted(zip(self._peak, _CATEGORIES, strict=True), reverse=True)
        parts = [f"{name} {format_bytes(size)}" for size, name in largest if size > 0]
        return f"At the peak the tensors were: {', '.join(parts) or 'none'}."

    def _count(self, time_ns: int, categories: Iterable[int]) -> None:
        for category in sorted(categories):
            name, value = self._counters[category], self._sums[category]
            self._builder.add("counters", time_ns=time_ns, name=name, value=value)

    def _block(self, size: int, category: int) -> int:
        """The number of a tensor's block; tensors of a size and category are alike."""
        if not self._is_raw:
            return NULL
        living = self._living[abs(size), category]
        if size < 0:
            return living.pop() if living else NULL
        self._blocks += 1
        living.append(self._blocks)
        return self._blocks
