"""Reads large results of rocprofv3, whose lists of records are decoded chunk by chunk.

Regular expressions guess where a list can be split and where it ends. Decoding proves the guess: if
a chunk in brackets is a valid list, it ended between two elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.patterns import regex
from stepwhy.read.formats.rocprof.document import (
    LARGEST_ID,
    Buffer,
    Document,
    Handle,
    decode_processes,
)
from stepwhy.read.inputs.source import let_go

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    from stepwhy.read.inputs.source import Source

    Data = bytes | mmap.mmap
    Cut = tuple[int, int]

_CHUNK = 1 << 20  # bytes
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The key is followed by an object; the same key with a list has the names of the kinds.
_RECORDS = regex(rb'"buffer_records"\s*:\s*\{')
_LIST = regex(rb'\s*"[^"\\]*"\s*:\s*(?=\[)')
_BETWEEN = regex(rb'\}\s*,\s*(?=\{\s*")')
_LAST = regex(rb"\}\s*(?=\])")
_NEXT = regex(rb"\s*([,}])")
_EMPTY = regex(rb"\[\s*\]")


class IrregularError(Exception):
    """A list is not formatted like those of rocprofv3."""


class _Stream(msgspec.Struct, gc=False):
    """The stream of a record."""

    stream_id: Handle | None = None


def read_lists(source: Source) -> Document:
    """Read every process of a file whose lists are formatted like those of rocprofv3.

    Raises:
        IrregularError: A list is formatted differently, or is not JSON.
        DecodeError, UnicodeDecodeError, RecursionError: The text around the lists is not JSON.
    """
    data = source.mapped
    lists: dict[str, Buffer] = {}
    rest = b"".join(_set_aside(data, lists))
    return Document(decode_processes(rest, lists), complete=True)


def _set_aside(data: Data, lists: dict[str, Buffer]) -> Iterator[bytes]:
    """The text with each list of records replaced by a placeholder, its key in `lists`."""
    position = len(_BYTE_ORDER_MARK) if data[: len(_BYTE_ORDER_MARK)] == _BYTE_ORDER_MARK else 0
    while records := _RECORDS.search(data, position):
        yield data[position : records.end()]
        let_go(data, position, records.end())
        position = records.end()
        more = data[position : position + 1] != b"}"
        while more:
            key = _LIST.match(data, position)
            if key is None:
                raise IrregularError(position)
            place = f'"list {len(lists)}"'
            yield key[0] + place.encode()
            lists[place], position = _list(data, key.end())
            end = _NEXT.match(data, position)
            if end is None:
                raise IrregularError(position)
            yield end[0]
            position, more = end.end(), end[1] == b","
    yield data[position:]


def _list(data: Data, position: int) -> tuple[Buffer, int]:
    """The records of the list at a position, and the position of its end."""
    empty = _EMPTY.match(data, position)
    if empty is not None:
        return Buffer([]), empty.end()
    chunks = _Chunks(data, [])
    has_streams = False
    position += 1
    while data[position : position + 1] != b"]":
        begin = position
        position = _chunk(data, begin, chunks)
        has_streams |= _has_streams(chunks.text(-1))
        let_go(data, begin, position)
    return Buffer(chunks, has_streams=has_streams), position + 1


def _chunk(data: Data, begin: int, chunks: _Chunks) -> int:
    """Add the next chunk; returns the position behind it."""
    # Most lists end within a chunk; only otherwise search behind it.
    found = _LAST.search(data, begin, begin + _CHUNK)
    if found is None:
        between = _BETWEEN.search(data, begin + _CHUNK, begin + 2 * _CHUNK)
        stop = between.end() if between else begin + 2 * _CHUNK
        # The list may end with the last bracket of the chunk, and text behind the chunk.
        bracket = data.rfind(b"}", begin, begin + _CHUNK)
        found = _LAST.search(data, bracket if bracket >= 0 else begin, stop) or between
    if found is None:
        raise IrregularError(begin)
    chunks.cuts.append((begin, found.start() + 1))
    return found.end()


def _has_streams(text: bytes) -> bool:
    """Whether a record of a list has a stream other than number 0.

    Raises:
        IrregularError: The text is not a list, or a field has another type.
    """
    try:
        records = msgspec.json.decode(text, type=list[_Stream])
    except (msgspec.DecodeError, RecursionError):
        raise IrregularError(len(text)) from None
    return any(r.stream_id and 0 < r.stream_id.handle < LARGEST_ID for r in records)


class _Chunks:
    """The chunks of a list, as JSON lists.

    Args:
        data: The file.
        cuts: Begin and end of each chunk.
    """

    def __init__(self, data: Data, cuts: list[Cut]) -> None:
        self._data, self.cuts = data, cuts

    def text(self, number: int) -> bytes:
        """The text of a chunk."""
        begin, end = self.cuts[number]
        return b"[%b]" % self._data[begin:end]

    def __iter__(self) -> Iterator[msgspec.Raw]:
        """All chunks; the pages of those that were read are released."""
        for number, (begin, end) in enumerate(self.cuts):
            yield msgspec.Raw(self.text(number))
            let_go(self._data, begin, end)
