"""Writes the changes of a memory timeline to the trace, as allocations and as counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.narrow import narrowed
from stepwhy.base.units import format_bytes
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints, Mask
    from stepwhy.trace import TraceBuilder


CATEGORIES = (
    "parameter",
    "optimizer state",
    "input",
    "temporary",
    "activation",
    "gradient",
    "autograd detail",
    "unknown",
)
"""Their positions are the numbers of categories in the file."""

LARGEST_NS = 1 << 62
"""Larger times and sums would overflow int64 when they are added."""


class Records(NamedTuple):
    """A chunk of records, each with the changes of memory at one time.

    Args:
        time_ns: Time of each record, negative before the recording began; (records,).
        is_whole: Whether each record has all of its numbers; (records,).
        record: Record of each change, ascending; (changes,).
        size: Bytes allocated or, if negative, freed; (changes,).
        category: Category of each change; (changes,).
    """

    time_ns: Ints
    is_whole: Mask
    record: Ints
    size: Ints
    category: Ints


class Writer:
    """Converts records to allocations, and to a counter of the sum of each category.

    Args:
        is_raw: Whether the records are events of single tensors.
    """

    def __init__(self, *, is_raw: bool) -> None:
        self._blocks = _Blocks() if is_raw else None
        self._sums = np.zeros(len(CATEGORIES), dtype=np.int64)
        self._peak = self._sums.copy()
        self._begin_ns = LARGEST_NS
        self._allocations = {name: Growing(np.int64) for name in ("time_ns", "change", "total")}
        if is_raw:
            self._allocations["block"] = Growing(np.int32)  # no file has 2**31 records
        self._owners = Growing(np.int8)
        # Counters of one record are ordered by category. In a raw file a record is one change, so
        # that the names are the owners.
        self._values = Growing(np.int64)
        self._names = self._owners if is_raw else Growing(np.int8)

    def add(self, records: Records) -> None:
        """Add a chunk of records, in the order of the file.

        Raises:
            DecodeError: Their sizes add up to more than any memory.
        """
        time_ns, _, record, size, category = records
        self._begin_ns = min(self._begin_ns, int(time_ns[time_ns >= 0].min(initial=LARGEST_NS)))
        if np.abs(np.append(self._sums, size)).sum(dtype=float) >= LARGEST_NS:
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
        """Sum of its category after each change; (changes,)."""
        levels = np.empty(len(size), dtype=np.int64)
        for number in np.unique(category).tolist():
            own = category == number
            levels[own] = self._sums[number] + np.cumsum(size[own])
            self._sums[number] += size[own].sum()
        return levels

    def _note_peak(self, records: Records, total: Ints) -> None:
        """Update the sums of the categories at the peak of their total.

        Args:
            records: The records; sums count at the end of a record.
            total: Total after each change; (changes,).
        """
        record = records.record
        last = np.flatnonzero(np.append(record[1:] != record[:-1], len(record) > 0))
        if len(last) and total[last].max() > self._peak.sum():
            until = slice(int(last[total[last].argmax()]) + 1)
            self._peak = self._sums.copy()
            np.add.at(self._peak, records.category[until], records.size[until])

    def write(self, builder: TraceBuilder) -> None:
        """Add all allocations and counters to the trace, and free them."""
        columns = {name: column.values() for name, column in self._allocations.items()}
        self._allocations = {}
        time_ns = columns["time_ns"]
        if not len(time_ns):
            return
        # Tensors from before the recording are allocated when it begins.
        begin_ns = 0 if self._begin_ns == LARGEST_NS else self._begin_ns
        np.maximum(time_ns, begin_ns, out=time_ns)
        pool = np.broadcast_to(np.int32(builder.intern("PyTorch tensors")), len(time_ns))
        owner = _category_strings(builder.intern_all(CATEGORIES), self._owners)
        builder.rows_from("allocations", {"pool": pool, "owner": owner, **columns})
        names = _category_strings(
            builder.intern_all([f"{name} bytes" for name in CATEGORIES]), self._names
        )
        value, self._values = self._values.values(), Growing(np.int64)
        self._owners = self._names = Growing(np.int8)
        builder.rows_from("counters", {"time_ns": time_ns, "name": names, "value": value})

    def peak_note(self) -> str:
        """The categories at the peak, as a note: a file of sums has no blocks to show them."""
        largest = sorted(zip(self._peak.tolist(), CATEGORIES, strict=True), reverse=True)
        parts = [f"{name} {format_bytes(size)}" for size, name in largest if size > 0]
        return f"At the peak the tensors were: {', '.join(parts) or 'none'}."


class _Blocks:
    """Numbers the blocks of tensors; a release ends the last block of its size and category."""

    def __init__(self) -> None:
        self._live: dict[int, list[int]] = {}
        self._count = 0

    def of(self, size: Ints, category: Ints) -> Ints:
        """Block of each change; NULL for releases without an allocation; (changes,)."""
        keys = np.abs(size) * len(CATEGORIES) + category
        changes = zip(keys.tolist(), (size < 0).tolist(), strict=True)
        blocks = [self._free(key) if is_freed else self._allocate(key) for key, is_freed in changes]
        return np.asarray(blocks, dtype=np.int64)

    def _allocate(self, key: int) -> int:
        self._count += 1
        self._live.setdefault(key, []).append(self._count)
        return self._count

    def _free(self, key: int) -> int:
        blocks = self._live.get(key)
        if blocks is None:
            return NULL
        if len(blocks) == 1:
            del self._live[key]
        return blocks.pop()


def _category_strings(
    strings: Sequence[int], categories: Growing
) -> NDArray[np.signedinteger[Any]]:
    """The string of each category; (categories,)."""
    return take(narrowed(np.asarray(strings, dtype=np.int32)), categories.values())
