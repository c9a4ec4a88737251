"""Find the list of events, the places where it can be cut into chunks, and the keys around it.

A cut is a guess: the text that looks like the boundary between two records may be inside a string
or a nested list. Decoding the chunk before it proves the guess. JSON is read from left to right, so
if the chunk plus a closing bracket is a valid list, the chunk ends between two of its elements.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.base.errors import CorruptInputError, InputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json.chunks import NOT_JSON

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from mmap import mmap

    from stepwhy.read.inputs.source import Source

CHUNK = 1 << 20
"""Bytes of a chunk: a few thousand records, which fit into a processor's cache."""

_EVENTS_KEY = regex(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = regex(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|tts|dur|id|bp|s|sf|cname|args)"\s*:)'
)
# Records that begin with another key; also matches objects in arguments.
_BETWEEN_OBJECTS = regex(rb'\}\s*,\s*(?=\{\s*")')
# Each wrong guess costs decoding the chunk once more.
_GUESSES = 4
# Chunks to look ahead for a cut; no record is longer than the last.
_FARTHER = (4, 16, 64)
# Chunks searched for a known key before any object counts as a record.
_SEARCHED = 8
LARGE = 1 << 26
"""Bytes; larger files are not decoded as a whole to find the end of their list of events."""


class Cut(msgspec.Struct, frozen=True):
    """Boundary between two records: end of the first, begin of the second."""

    end: int
    begin: int


class Tail(msgspec.Struct, frozen=True):
    """The last records of a file and the keys around the list of events.

    Args:
        cut: Where the records begin, if all chunks before are valid.
        events: The records, as a JSON list.
        header: The other keys of the object.
    """

    cut: Cut
    events: msgspec.Raw | bytes
    header: dict[str, Any]


def first_record(data: bytes | mmap, source: Source) -> int:
    """Offset of the first record, after the opening bracket of the list of events.

    Raises:
        CorruptInputError: There is no such list.
    """
    if is_list(data):
        return data.find(b"[") + 1
    found = _EVENTS_KEY.search(data)
    if found is None:
        raise _missing_events(data, source)
    return found.end()


def before_events(data: bytes | mmap) -> bytes:
    """The text before the key of the events."""
    found = _EVENTS_KEY.search(data)
    return data[: found.start()] if found else b""


def is_list(data: bytes | mmap) -> bool:
    """Whether the file is a list of events rather than an object with one."""
    return data[:CHUNK].lstrip(b" \t\r\n")[:1] == b"["


def _missing_events(data: bytes | mmap, source: Source) -> InputError:
    try:
        msgspec.json.decode(bytes(data), type=msgspec.Raw)
    except NOT_JSON:
        return no_events(source)
    return CorruptInputError(
        f"{source.origin} is a JSON object without a list of traceEvents",
        "Give the trace file that the profiler wrote",
    )


def no_events(source: Source) -> CorruptInputError:
    """The error for a damaged file without a single complete event."""
    return CorruptInputError(
        f"{source.origin} holds no complete trace event",
        "Record the trace again, or check that the copy is complete",
    )


def unclosed_end(data: bytes | mmap) -> int | None:
    """End of the last record in a list that was never closed, None for any other text.

    Writers that append leave out the bracket, so nothing is missing if the text ends between two
    records. A text that ends inside a record is truncated.
    """
    if not is_list(data):
        return None
    tail = data[-CHUNK:]
    kept = tail.rstrip(b", \t\r\n")
    return len(data) - len(tail) + len(kept) if kept.endswith(b"}") else None


def cuts(data: bytes | mmap, position: int, end: int, chunks: int = 1) -> Iterator[Cut]:
    """Candidate cuts that many chunks after a position, and before `end`."""
    begin = position + chunks * CHUNK
    soon = min(begin + _SEARCHED * CHUNK, end)
    for found in (
        list(islice(_BETWEEN.finditer(data, begin, soon), _GUESSES))
        or list(islice(_BETWEEN_OBJECTS.finditer(data, begin, soon), _GUESSES))
        or islice(_BETWEEN.finditer(data, soon, end), _GUESSES)
    ):
        yield Cut(found.start() + 1, found.end())


def farther_cuts(data: bytes | mmap, position: int, end: Cut) -> Iterator[Cut]:
    """Candidate cuts farther ahead, up to the end: a record can contain a list of objects."""
    for chunks in _FARTHER:
        yield from cuts(data, position, end.begin, chunks)
    if position + _FARTHER[-1] * CHUNK > end.begin:
        yield end


def next_record(data: bytes | mmap, position: int, end: int) -> int:
    """Begin of the first record after a position; the position if none is within a chunk."""
    if position >= end:
        return end
    found = _BETWEEN.search(data, position, min(position + CHUNK, end))
    return found.end() if found else position


def find_tail(
    data: bytes | mmap, first: int, unclosed: int | None = None, raw: Container[str] = ()
) -> Tail | None:
    """The end of a file, None if it is truncated or damaged there.

    Args:
        data: The file.
        first: Offset of the first record.
        unclosed: End of the last record, if the closing bracket has to be added there.
        raw: Keys of the header whose values are not decoded.
    """
    if unclosed is None and _is_torn(data):
        return None
    end, bracket = (len(data), b"") if unclosed is None else (unclosed, b"]")
    for cut in _ends(data, first):
        whole = cut.begin == first
        with memoryview(data) as view:
            text = b"".join((view[:first], view[cut.begin : end], bracket))
        try:
            events, header = _split_document(text, raw)
        except (*NOT_JSON, KeyError):
            continue
        if not text.startswith(events, first - 1):
            if whole and not _begins_object(data[:first]):
                return Tail(cut, events, header)  # the first list is inside another value
        elif next_list(text, first - 2 + len(events)) is not None:
            continue  # the key is repeated after it
        elif whole or _begins_with_a_record(events):
            return Tail(cut, events, header)
    return None


def next_list(data: bytes | mmap, end: int) -> int | None:
    """Offset of the first record of the next list, if the object repeats the key `traceEvents`.

    Args:
        data: The file.
        end: Offset of the bracket that closes a list of events.
    """
    soon = min(end + LARGE, len(data))
    for found in islice(_EVENTS_KEY.finditer(data, end, soon), _GUESSES):
        between = data[end + 1 : found.start()].strip(b" \t\r\n")
        if between[:1] == between[-1:] == b"," and _is_object(b"{%b}" % between.strip(b",")):
            return found.end()
    return None


def _begins_object(text: bytes) -> bool:
    """Whether the text before a list of events is the beginning of a single object."""
    keys = text[: text.rindex(b'"traceEvents"')].rstrip(b" \t\r\n").removesuffix(b",")
    return _is_object(keys + b"}")


def _is_object(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except NOT_JSON:
        return False
    return True


def _ends(data: bytes | mmap, first: int) -> Iterator[Cut]:
    """Cuts before the last chunk, then further back, and at last the beginning of the list."""
    window = CHUNK
    while 2 * window < len(data) - first:
        begin = len(data) - window
        for pattern in (_BETWEEN, _BETWEEN_OBJECTS):
            for found in islice(pattern.finditer(data, begin), _GUESSES):
                yield Cut(found.start() + 1, found.end())
        window *= 8  # long symbol tables can follow the events
    if len(data) - first <= LARGE:
        yield Cut(first, first)


def _is_torn(data: bytes | mmap) -> bool:
    """Whether the closing bracket of the file is missing."""
    return data[-CHUNK:].rstrip(b" \t\r\n")[-1:] != (b"]" if is_list(data) else b"}")


def _split_document(
    text: bytes, raw: Container[str] = ()
) -> tuple[msgspec.Raw | bytes, dict[str, Any]]:
    """The list of events of a document as raw JSON, and all other keys."""
    if is_list(text):
        msgspec.json.decode(text, type=msgspec.Raw)
        return text.lstrip(b" \t\r\n"), {}
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    events = fields.pop("traceEvents")
    return events, {k: v if k in raw else msgspec.json.decode(v) for k, v in fields.items()}


def _begins_with_a_record(events: msgspec.Raw | bytes) -> bool:
    """Whether the list contains events rather than the elements of a later list."""
    first = next(iter(msgspec.json.decode(events, type=list[msgspec.Raw])), b"")
    return b'"ph"' in bytes(first)
