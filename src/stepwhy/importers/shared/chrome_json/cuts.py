"""Where the list of events begins, where it can be cut, and what stands around it.

A cut is a guess: the text that looks like the end of one record and the beginning of the next may
stand inside of a string or of a nested list. Decoding the piece before it is the proof: JSON is
read from left to right, so that where a piece and a closing bracket are a list, the piece ends
between two of its elements.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from stepwhy.errors import CorruptInputError, InputError
from stepwhy.importers.shared.chrome_json.pieces import NOT_JSON
from stepwhy.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from mmap import mmap

    from stepwhy.inputs.source import Source

PIECE = 1 << 20
"""Bytes of a piece: some thousand records, which fit into a processor's cache."""

_EVENTS_KEY = regex(rb'"traceEvents"\s*:\s*\[')
_BETWEEN = regex(
    rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|tts|dur|id|bp|s|sf|cname|args)"\s*:)'
)
# Where records begin with another key; so do objects in their arguments.
_BETWEEN_OBJECTS = regex(rb'\}\s*,\s*(?=\{\s*")')
# A wrong guess costs reading the piece once.
_GUESSES = 4
# No record is longer than so many pieces.
_FARTHER = (4, 16, 64)
# Pieces that are searched for a key before any object is guessed to be a record.
_SEARCHED = 8
LARGE = 1 << 26
"""Bytes; a larger file is not decoded as a whole only to find where its list of events ends."""


class Cut(msgspec.Struct, frozen=True):
    """A place between two records: where the first ends, and where the second begins."""

    end: int
    begin: int


class Tail(msgspec.Struct, frozen=True):
    """The last records of a file and what stands around the list.

    Args:
        cut: Where they begin, if every piece before is whole.
        events: They, as a JSON list.
        header: The keys beside the events.
    """

    cut: Cut
    events: msgspec.Raw | bytes
    header: dict[str, Any]


def first_record(data: bytes | mmap, source: Source) -> int:
    """Where the list of events begins, behind its bracket.

    Raises:
        CorruptInputError: There is no such list.
    """
    if is_list(data):
        return data.find(b"[") + 1
    found = _EVENTS_KEY.search(data)
    if found is None:
        raise _without_events(data, source)
    return found.end()


def before_events(data: bytes | mmap) -> bytes:
    """What stands before the key of the events."""
    found = _EVENTS_KEY.search(data)
    return data[: found.start()] if found else b""


def is_list(data: bytes | mmap) -> bool:
    """Whether the file is a list of events, not an object that has one."""
    return data[:PIECE].lstrip(b" \t\r\n")[:1] == b"["


def _without_events(data: bytes | mmap, source: Source) -> InputError:
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
    """Where the last record ends in a list that was never closed, None for any other text.

    Writers that append leave out the bracket, so that nothing is lost where the text ends between
    two records. A text that ends inside of one was cut off and stays so.
    """
    if not is_list(data):
        return None
    tail = data[-PIECE:]
    kept = tail.rstrip(b", \t\r\n")
    return len(data) - len(tail) + len(kept) if kept.endswith(b"}") else None


def cuts(data: bytes | mmap, position: int, end: int, pieces: int = 1) -> Iterator[Cut]:
    """The first places behind so many pieces where the list may be cut, before `end`."""
    begin = position + pieces * PIECE
    soon = min(begin + _SEARCHED * PIECE, end)
    for found in (
        list(islice(_BETWEEN.finditer(data, begin, soon), _GUESSES))
        or list(islice(_BETWEEN_OBJECTS.finditer(data, begin, soon), _GUESSES))
        or islice(_BETWEEN.finditer(data, soon, end), _GUESSES)
    ):
        yield Cut(found.start() + 1, found.end())


def farther_cuts(data: bytes | mmap, position: int, end: Cut) -> Iterator[Cut]:
    """The same farther ahead, up to the end: a record can hold a list of others."""
    for pieces in _FARTHER:
        yield from cuts(data, position, end.begin, pieces)
    if position + _FARTHER[-1] * PIECE > end.begin:
        yield end


def next_record(data: bytes | mmap, position: int, end: int) -> int:
    """Where a record may begin at a position or soon behind it; the position if none is seen."""
    if position >= end:
        return end
    found = _BETWEEN.search(data, position, min(position + PIECE, end))
    return found.end() if found else position


def find_tail(
    data: bytes | mmap, first: int, unclosed: int | None = None, raw: Container[str] = ()
) -> Tail | None:
    """The end of a file, None where it is torn or damaged there.

    Args:
        data: The file.
        first: Where its list of events begins.
        unclosed: Where the last record ends, if the list is to be closed there.
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
            events, header = _around(text, raw)
        except (*NOT_JSON, KeyError):
            continue
        if not text.startswith(events, first - 1):
            if whole and not _begins_object(data[:first]):
                return Tail(cut, events, header)  # the first list is inside another value
        elif next_list(text, first - 2 + len(events)) is not None:
            continue  # behind it, the key is repeated
        elif whole or _begins_with_a_record(events):
            return Tail(cut, events, header)
    return None


def next_list(data: bytes | mmap, end: int) -> int | None:
    """Where the records of the next list begin, if the object repeats the key of its events.

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
    """Whether a text up to the bracket of a list of events is the beginning of one object."""
    keys = text[: text.rindex(b'"traceEvents"')].rstrip(b" \t\r\n").removesuffix(b",")
    return _is_object(keys + b"}")


def _is_object(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except NOT_JSON:
        return False
    return True


def header_around(data: bytes | mmap, first: int, end: int) -> dict[str, Any] | None:
    """The keys beside a list of events that ends with the bracket at `end`, None where damaged."""
    try:
        return _around(_without(data, first, end))[1]
    except (*NOT_JSON, KeyError):
        return None


def _without(data: bytes | mmap, begin: int, end: int) -> bytes:
    """A text without a part of it, copied once."""
    with memoryview(data) as view:
        return b"".join((view[:begin], view[end:]))


def _ends(data: bytes | mmap, first: int) -> Iterator[Cut]:
    """Cuts before the last piece, or further ahead, and in the end the beginning of the list."""
    window = PIECE
    while 2 * window < len(data) - first:
        begin = len(data) - window
        for pattern in (_BETWEEN, _BETWEEN_OBJECTS):
            for found in islice(pattern.finditer(data, begin), _GUESSES):
                yield Cut(found.start() + 1, found.end())
        window *= 8  # long symbol tables can follow the events
    if len(data) - first <= LARGE:
        yield Cut(first, first)


def _is_torn(data: bytes | mmap) -> bool:
    """Whether a file does not end as it begins."""
    return data[-PIECE:].rstrip(b" \t\r\n")[-1:] != (b"]" if is_list(data) else b"}")


def _around(text: bytes, raw: Container[str] = ()) -> tuple[msgspec.Raw | bytes, dict[str, Any]]:
    """The list of events of a document as it is written, and all keys but it."""
    if is_list(text):
        msgspec.json.decode(text, type=msgspec.Raw)
        return text.lstrip(b" \t\r\n"), {}
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    events = fields.pop("traceEvents")
    return events, {k: v if k in raw else msgspec.json.decode(v) for k, v in fields.items()}


def _begins_with_a_record(events: msgspec.Raw | bytes) -> bool:
    """Whether these are events, not the elements of another list that stands behind them."""
    first = next(iter(msgspec.json.decode(events, type=list[msgspec.Raw])), b"")
    return b'"ph"' in bytes(first)
