"""The records of large files as columns, read by the compiled function `scan_records`.

It reads the plain records that profilers write, and stops before any other one. Texts and pairs of
texts get codes in the order in which they first occur. A table with many of them is replaced by a
new one, because a file may have a different text in every record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepwhy.base.columns.kernels.tables import Pairs, Texts, words_of
from stepwhy.read.formats.kineto.kernels.layout import (
    DONE,
    FULL,
    ChangeColumns,
    SliceColumns,
    new_state,
)
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from mmap import mmap

    from numpy.typing import NDArray

    Scan = Callable[..., int]

_ROWS: Final = 1 << 15
_MANY: Final = 1 << 16
"""Number of texts or pairs at which a new table starts."""

_RECORD_FIELDS: Final = 64  # more than a record has
_ABSENT: Final = -(2**63)


class SweptRecords(msgspec.Struct, frozen=True):
    """Consecutive plain records; the columns are overwritten by the next sweep but one.

    Args:
        data: The file.
        strings: The texts and pairs of texts that codes in the columns refer to.
        slices: Columns of slices by their names, ns and integers; absent integers are NULL, absent
            times are LARGEST_NS, texts are codes of `strings`; (slices,) each.
        changes: Columns of allocations and releases; absent addresses and totals are NULL, other
            absent integers 0; (changes,) each.
        arrows: Number of flow arrows.
        metadata: Number of metadata records.
        others: Number of all other records.
        hint: Whether one of these proves an accelerator.
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
        """Number of records."""
        counted = self.arrows + self.metadata + self.others
        return counted + len(self.slices["start_ns"]) + len(self.changes["time_ns"])


class StringTable:
    """The texts of a file, and pairs of texts, each stored once under a code.

    Args:
        data: The file.
    """

    def __init__(self, data: bytes | mmap) -> None:
        self.texts, self.pairs = Texts(data), Pairs()
        # Decoded first texts of titles: categories, of which there are few.
        self._firsts: dict[int, str] = {}

    @property
    def is_full(self) -> bool:
        """Whether a new table should start."""
        return max(len(self.texts), len(self.pairs)) > _MANY

    def texts_of(self, numbers: NDArray[Any]) -> list[str]:
        """Texts of codes, decoded; the table stores them as JSON without quotes."""
        texts = (b'"%b"' % text for text in self.texts.many(numbers))
        return msgspec.json.decode(_list_of(texts), type=list[str])

    def titles_of(self, pairs: NDArray[Any]) -> list[tuple[str, str]]:
        """Pairs of decoded texts, as category and name."""
        first, second = self.pairs.many(pairs)
        for number in set(first.tolist()) - self._firsts.keys():
            self._firsts[number] = self.texts_of(np.asarray([number]))[0]
        firsts = map(self._firsts.__getitem__, first.tolist())
        return list(zip(firsts, self.texts_of(second), strict=True))

    def threads_of(self, pairs: NDArray[Any]) -> list[tuple[Any, ...]]:
        """Pairs of values: integers, texts or None."""
        first, second = self.pairs.many(pairs)
        return list(zip(self._values(first), self._values(second), strict=True))

    def streams_of(self, pairs: NDArray[Any]) -> list[tuple[Any, ...]]:
        """The four values of pairs of pairs."""
        first, second = self.pairs.many(pairs)
        outer = self.threads_of(-1 - first)
        return [a + b for a, b in zip(outer, self.threads_of(second), strict=True)]

    def _values(self, numbers: NDArray[Any]) -> list[int | str | None]:
        """Values of JSON texts: an integer, a string, or None for the empty text."""
        texts = (text or b"null" for text in self.texts.many(numbers))
        return msgspec.json.decode(_list_of(texts), type=list[int | str | None])


def _list_of(texts: Iterable[bytes]) -> bytes:
    """JSON texts as one JSON list; decoding them one by one takes five times as long."""
    return b"[%b]" % b",".join(texts)


class Sweep:
    """Sweeps over one file.

    Args:
        scan: The compiled function `scan_records`.
        data: The file.
    """

    def __init__(self, scan: Scan, data: bytes | mmap) -> None:
        self._data, self._strings = data, StringTable(data)
        self._scan = scan
        self._words = words_of(data)
        # The importer reads one while the sweep writes the other.
        self._spare, self._columns = _new_columns(), _new_columns()
        self._record = np.zeros(_RECORD_FIELDS, dtype=np.int64)

    def read(self, position: int, goal: int) -> SweptRecords:
        """Read plain records.

        Args:
            position: Offset of the first record.
            goal: Offset at which to stop: records that begin there or later are not read.
        """
        self._spare, self._columns = self._columns, self._spare
        if self._strings.is_full:
            self._strings = StringTable(self._data)
        strings, state = self._strings, new_state(position)
        tables = strings.texts.arrays, strings.pairs.arrays
        status = self._scan(self._words, goal, state, self._record, *self._columns, *tables)
        if status == FULL:
            strings.texts.make_room()
            strings.pairs.make_room()
        return self._swept(state[0], DONE if status == FULL else status)

    def _swept(self, state: Any, status: int) -> SweptRecords:
        slices, changes = self._columns
        return SweptRecords(
            self._data,
            self._strings,
            _slices(slices, int(state["slices"])),
            _changes(changes, int(state["changes"])),
            arrows=int(state["arrows"]),
            metadata=int(state["metadata"]),
            others=int(state["others"]),
            hint=bool(state["hint"]),
            high=bool(state["high"]),
            end=int(state["position"]),
            status=status,
        )


def _new_columns() -> tuple[SliceColumns, ChangeColumns]:
    return SliceColumns.empty(_ROWS), ChangeColumns.empty(_ROWS)


def _slices(columns: SliceColumns, count: int) -> dict[str, NDArray[Any]]:
    """The rows that were written, with NULL for absent integers."""
    found = {name: column[:count] for name, column in columns._asdict().items()}
    for name in ("correlation", "sequence", "forward", "size"):
        _replace(found[name], NULL)
    return found


def _changes(columns: ChangeColumns, count: int) -> dict[str, NDArray[np.int64]]:
    """The rows that were written, with defaults for absent integers."""
    found = {name: column[:count] for name, column in columns._asdict().items()}
    for name in ("change", "device_type", "device_id"):
        _replace(found[name], 0)
    for name in ("address", "allocated", "reserved"):
        _replace(found[name], NULL)
    return found


def _replace(values: NDArray[np.int64], default: int) -> None:
    """Replace absent integers by a default."""
    values[values == _ABSENT] = default


class Records:
    """Records of a file by row, decoded on access.

    Args:
        data: The file.
        offset: Offset of every record; (records,).
        length: Number of bytes of every record; (records,).
        kind: Type to decode them as.
    """

    def __init__(
        self, data: bytes | mmap, offset: NDArray[np.int64], length: NDArray[Any], kind: Any
    ) -> None:
        self._data, self._offset, self._length = data, offset, length
        self._decoder = msgspec.json.Decoder(kind)

    def __getitem__(self, number: int) -> Any:
        begin = int(self._offset[number])
        return self._decoder.decode(self._data[begin : begin + int(self._length[number])])
