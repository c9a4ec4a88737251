"""The records of large files as columns, by the compiled kernel `scan_records`.

The kernel understands the plain records that profilers write; it stops before any other one, and
says so. Texts and pairs of texts get codes in the order in which they first occur. When there are
many, a new table starts: a file may have a different text in every record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepwhy.native.tables import Pairs, Texts
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from mmap import mmap

    from numpy.typing import NDArray

    from stepwhy.native import Kernel

SAFETY = 64
"""Bytes behind a place that the kernel may look at."""

# Why the kernel stopped.
DONE, LIST, ODD, FULL = range(4)

_ROWS: Final = 1 << 15
_MANY: Final = 1 << 16
"""Number of texts or pairs at which a new table starts."""

_RECORD_FIELDS: Final = 64  # more than the kernel has
_ABSENT: Final = -(2**63)
# Fields of the control block, by their numbers.
_POSITION, _GOAL, _LIMIT, _HIGH, _HINT, _ARROWS, _METADATA, _OTHERS = range(8)
_SLICES, _SLICES_ROOM, _CHANGES, _CHANGES_ROOM, _TEXTS, _PAIRS = range(8, 14)
_COLUMNS, _CHANGE_COLUMNS, _BASE, _RECORD, _FIELDS = range(14, 19)
_WIDE = ("start_ns", "dur_ns", "correlation", "sequence", "forward", "size", "offset")
_NARROW = ("length", "title", "thread", "stream", "stack")
_OF_CHANGES = (
    *("time_ns", "change", "address", "allocated", "reserved", "device_type", "device_id"),
    *("offset", "length", "thread"),
)


class SweptRecords(msgspec.Struct, frozen=True):
    """Consecutive plain records; the columns are overwritten by the next sweep but one.

    Args:
        data: The file.
        strings: Texts and pairs that the codes in the columns stand for.
        slices: Columns of slices by their names, ns and integers; absent integers are NULL, absent
            times are LARGEST_NS, texts are codes of `strings`; (slices,) each.
        changes: Columns of the records of memory; absent addresses and totals are NULL, other
            absent integers 0; (changes,) each.
        arrows: Flow arrows.
        metadata: Records of metadata.
        others: All other records.
        hint: Whether one of these shows that there is an accelerator.
        high: Whether there are texts that are not ASCII.
        end: Offset at which the sweep stopped.
        status: Why it stopped: DONE, LIST or ODD.
    """

    data: bytes | mmap
    strings: StringTable
    slices: dict[str, NDArray[Any]]
    changes: dict[str, NDArray[np.int64]]
    arrows: int
    metadata: int
    others: int
    hint: bool
    high: bool
    end: int
    status: int

    @property
    def records(self) -> int:
        """How many records there are."""
        counted = self.arrows + self.metadata + self.others
        return counted + len(self.slices["start_ns"]) + len(self.changes["time_ns"])


class StringTable:
    """The texts of a file, and pairs of texts, each stored once under a code."""

    def __init__(self) -> None:
        self.texts, self.pairs = Texts(), Pairs()
        # First texts of pairs, which few share: categories of names.
        self._firsts: dict[int, str] = {}

    @property
    def is_full(self) -> bool:
        """Whether there are many of them."""
        return max(len(self.texts), len(self.pairs)) > _MANY

    def texts_of(self, numbers: NDArray[Any]) -> list[str]:
        """Texts of codes, decoded from JSON; the table stores them without quotes."""
        texts = (b'"%b"' % text for text in self.texts.many(numbers))
        return msgspec.json.decode(_list_of(texts), type=list[str])

    def titles_of(self, pairs: NDArray[Any]) -> list[tuple[str, str]]:
        """Pairs of two such texts."""
        first, second = self.pairs.many(pairs)
        for number in set(first.tolist()) - self._firsts.keys():
            self._firsts[number] = self.texts_of(np.asarray([number]))[0]
        firsts = map(self._firsts.__getitem__, first.tolist())
        return list(zip(firsts, self.texts_of(second), strict=True))

    def threads_of(self, pairs: NDArray[Any]) -> list[tuple[Any, ...]]:
        """Pairs of two values: integers, texts or None."""
        first, second = self.pairs.many(pairs)
        return list(zip(self._values(first), self._values(second), strict=True))

    def streams_of(self, pairs: NDArray[Any]) -> list[tuple[Any, ...]]:
        """The four values of pairs of pairs."""
        first, second = self.pairs.many(pairs)
        outer = self.threads_of(-1 - first)
        return [a + b for a, b in zip(outer, self.threads_of(second), strict=True)]

    def _values(self, numbers: NDArray[Any]) -> list[int | str | None]:
        """What is written: an integer, a text in quotes, or nothing."""
        texts = (text or b"null" for text in self.texts.many(numbers))
        return msgspec.json.decode(_list_of(texts), type=list[int | str | None])


def _list_of(texts: Iterable[bytes]) -> bytes:
    """Many JSON texts as one list: to decode them one by one takes five times as long."""
    return b"[%b]" % b",".join(texts)


class Sweep:
    """Sweeps over one file.

    Args:
        kernel: `scan_records`.
        data: The file.
    """

    def __init__(self, kernel: Kernel, data: bytes | mmap) -> None:
        self._data, self._strings = data, StringTable()
        self._kernel = kernel
        self._bytes = np.frombuffer(data, dtype=np.uint8)
        # One is read while the other is written.
        self._spare, self._columns = _Columns(), _Columns()
        self._control = np.zeros(_FIELDS, dtype=np.int64)
        self._control[_BASE] = self._bytes.ctypes.data
        self._control[_LIMIT] = self._bytes.ctypes.data + max(len(data) - SAFETY, 0)
        self._record = np.zeros(_RECORD_FIELDS, dtype=np.int64)
        self._control[_RECORD] = self._record.ctypes.data
        self._control[_SLICES_ROOM] = self._control[_CHANGES_ROOM] = _ROWS

    def read(self, position: int, goal: int) -> SweptRecords:
        """The plain records from a position on.

        Args:
            position: Offset of a record.
            goal: Offset at which to stop: records that begin there or later are not read.
        """
        self._spare, self._columns = self._columns, self._spare
        if self._strings.is_full:
            self._strings = StringTable()
        strings = self._strings
        control, base = self._control, int(self._control[_BASE])
        control[_POSITION], control[_GOAL] = base + position, base + goal
        control[_TEXTS], control[_PAIRS] = strings.texts.address, strings.pairs.address
        control[_COLUMNS] = self._columns.slice_addresses.ctypes.data
        control[_CHANGE_COLUMNS] = self._columns.change_addresses.ctypes.data
        status = self._kernel(control.ctypes.data)
        swept = self._swept(DONE if status == FULL else status)
        if status == FULL:
            grew = [table.make_room() for table in (strings.texts, strings.pairs)]
            if not swept.records and not any(grew):  # a text is longer than what is left
                strings.texts.make_longer()
        return swept

    def _swept(self, status: int) -> SweptRecords:
        counts = self._control.tolist()
        return SweptRecords(
            self._data,
            self._strings,
            *self._columns.first(counts[_SLICES], counts[_CHANGES]),
            arrows=counts[_ARROWS],
            metadata=counts[_METADATA],
            others=counts[_OTHERS],
            hint=bool(counts[_HINT]),
            high=bool(counts[_HIGH]),
            end=counts[_POSITION] - counts[_BASE],
            status=status,
        )


class _Columns:
    """Memory that the kernel writes rows to."""

    def __init__(self) -> None:
        self._wide = np.empty((len(_WIDE), _ROWS), dtype=np.int64)
        self._narrow = np.empty((len(_NARROW), _ROWS), dtype=np.int32)
        self._changes = np.empty((len(_OF_CHANGES), _ROWS), dtype=np.int64)
        self.slice_addresses = _addresses(*self._wide, *self._narrow)
        self.change_addresses = _addresses(*self._changes)

    def first(
        self, slices: int, changes: int
    ) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.int64]]]:
        """The rows that were written."""
        wide = dict(zip(_WIDE, self._wide[:, :slices], strict=True))
        for name in ("correlation", "sequence", "forward", "size"):
            _replace(wide[name], NULL)
        narrow = dict(zip(_NARROW, self._narrow[:, :slices], strict=True))
        memory = dict(zip(_OF_CHANGES, self._changes[:, :changes], strict=True))
        for name in ("change", "device_type", "device_id"):
            _replace(memory[name], 0)
        for name in ("address", "allocated", "reserved"):
            _replace(memory[name], NULL)
        return {**wide, **narrow}, memory


def _addresses(*columns: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray([column.ctypes.data for column in columns], dtype=np.int64)


def _replace(values: NDArray[np.int64], default: int) -> None:
    """Put a default in the place of what is absent."""
    values[values == _ABSENT] = default


class Records:
    """Records of a file by their number, decoded when they are asked for.

    Args:
        data: The file.
        offset: Where each begins; (records,).
        length: How many bytes each has; (records,).
        kind: What they are decoded as.
    """

    def __init__(
        self, data: bytes | mmap, offset: NDArray[np.int64], length: NDArray[Any], kind: Any
    ) -> None:
        self._data, self._offset, self._length = data, offset, length
        self._decoder = msgspec.json.Decoder(kind)

    def __getitem__(self, number: int) -> Any:
        begin = int(self._offset[number])
        return self._decoder.decode(self._data[begin : begin + int(self._length[number])])
