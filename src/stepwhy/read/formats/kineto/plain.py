"""A large file of plain records, read by the compiled scanner; any other file is refused."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from stepwhy.base.patterns import regex
from stepwhy.read.formats.kineto.arguments import KinetoArgs
from stepwhy.read.formats.kineto.kernels.layout import LIST, ODD
from stepwhy.read.inputs.source import let_go
from stepwhy.read.shared.chrome_json.chunks import ChunkReader
from stepwhy.read.shared.chrome_json.cuts import (
    Cut,
    Tail,
    cuts,
    farther_cuts,
    find_tail,
    first_record,
)
from stepwhy.read.shared.chrome_json.text import BYTE_ORDER_MARK, is_utf8

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepwhy.read.formats.kineto.sweep import Scan, SweptRecords
    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Batch
    from stepwhy.trace import Health

LARGE: Final = 64 << 20
"""Bytes; smaller files are read in less time than loading the compiled scanner takes.

Measured as CPU time of `stepwhy explain`: with it 0.1 s more at 54 MB, equal at 67 MB.
"""

_DROP: Final = 32 << 20  # bytes read before their pages are released
_SPACE: Final = regex(rb"[ \t\r\n]*")


class NotPlainError(Exception):
    """The scanner cannot read the file; read it again with `Document`."""


class PlainDocument:
    """The records of a Kineto file, as columns where they are plain; iterate over it once.

    Args:
        source: The file.
        scan: The compiled function `scan_records`.
        health: Counters to fill.

    Raises:
        NotPlainError: It is damaged somewhere; also raised while iterating.
        CorruptInputError: It has no list of events.
    """

    def __init__(self, source: Source, scan: Scan, health: Health) -> None:
        self._data = source.mapped
        if self._data[:3] == BYTE_ORDER_MARK:
            raise NotPlainError
        self._first = first_record(self._data, source)
        self._tail = self._whole_tail()
        self._scan = scan
        self._chunks = ChunkReader(KinetoArgs, health)
        self._health = health
        self._records = self._dropped = 0
        self.complete = True
        self.header: dict[str, Any] = self._tail.header

    def _whole_tail(self) -> Tail:
        try:
            tail = find_tail(self._data, self._first)
        except UnicodeDecodeError:
            raise NotPlainError from None
        if tail is None or not is_utf8(self._data[: self._first]) or not is_utf8(tail.events):
            raise NotPlainError
        return tail

    def __iter__(self) -> Iterator[SweptRecords | Batch[KinetoArgs]]:
        """The records in file order."""
        found = _SPACE.match(self._data, self._first)
        position = found.end() if found else self._first
        end = self._tail.cut.begin
        from stepwhy.read.formats.kineto.lanes import Lanes  # noqa: PLC0415 - threads take 3 ms to load

        with Lanes(self._scan, self._data) as lanes:
            while position < end:
                for swept in lanes.read(position, end):
                    if swept.high and not is_utf8(self._data[position : swept.end]):
                        raise NotPlainError
                    self._count(swept.records)
                    yield swept
                    position, status = swept.end, swept.status
                    # Release the pages that were read.
                    if position - self._dropped >= _DROP:
                        let_go(self._data, self._dropped, position)
                        self._dropped = position
                if status == LIST:
                    raise NotPlainError
                if status == ODD:
                    batch, position = self._chunk(position)
                    yield batch
        if position != end:
            raise NotPlainError
        yield self._read(self._tail.events)

    def _chunk(self, position: int) -> tuple[Batch[KinetoArgs], int]:
        """A chunk of records that are not all plain, and the offset of the next record."""
        end = self._tail.cut
        guesses = list(cuts(self._data, position, end.begin)) or [end]
        for cut in chain(guesses, farther_cuts(self._data, position, end)):
            batch = self._chunks.read(self._list(position, cut))
            if batch is not None:
                self._count(len(batch.events))
                return batch, cut.begin
            if not self._chunks.ended_early:
                break
        raise NotPlainError

    def _list(self, position: int, cut: Cut) -> bytes:
        text = self._data[position : cut.end]
        if not is_utf8(text):
            raise NotPlainError
        return b"[" + text + b"]"

    def _read(self, events: Any) -> Batch[KinetoArgs]:
        batch = self._chunks.read(events)
        if batch is None:
            raise NotPlainError
        self._count(len(batch.events))
        if not self._records:  # `Document` raises the error that says why
            raise NotPlainError
        return batch

    def _count(self, records: int) -> None:
        self._records += records
        self._health.events_read += records
