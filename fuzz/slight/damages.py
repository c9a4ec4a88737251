"""Harmless damage that programs, editors and copies do to traces: in one place, or at the end."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOSING = b" \t\r\n,"
_DUR = re.compile(rb'("dur"\s*:\s*)"?-?[0-9.eE+]+"?')
_NAME = re.compile(rb'"name"\s*:\s*"((?:[^"\\]|\\.)*)"')
_IS_RANGE = re.compile(rb'"ph"\s*:\s*"[XBE]"')
_NUMBER = re.compile(rb"(:\s*)-?\d+(?:\.\d+)?(?=\s*[,}\]])")
# Of a file that is cut off, how much is left.
_CUTS = (0.98, 0.9, 0.5)
# Of a shorter file, what is left shows nothing.
_SHORTEST = 300
_FEWEST = 4


class Loses(Enum):
    """What a reader may lose because of some damage."""

    NOTHING = "nothing"
    RECORD = "one record"
    END = "what is missing"


class Damage(NamedTuple):
    """One kind of damage.

    Args:
        name: For people.
        loses: What a reader may lose.
        data: The damaged file.
    """

    name: str
    loses: Loses
    data: bytes


class Place(NamedTuple):
    """A record in the middle of the longest list of a JSON text.

    Args:
        data: The text.
        begin, end: Offsets of the record.
        last: Offset of the end of the last record.
    """

    data: bytes
    begin: int
    end: int
    last: int

    @property
    def record(self) -> bytes:
        """The text of the record."""
        return self.data[self.begin : self.end]

    def instead(self, record: bytes) -> bytes:
        """The text with another record in this place."""
        return self.data[: self.begin] + record + self.data[self.end :]


def damages(data: bytes) -> Iterator[Damage]:
    """All damage that makes sense for a file.

    Args:
        data: A valid file, decompressed.
    """
    is_json = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}
    place = middle(data) if is_json else None
    if place is not None:
        yield from _of_a_list(place)
    yield Damage("text after the end", Loses.NOTHING, data + b"\nTraining finished.\n")
    yield Damage("two in one file", Loses.NOTHING, data + b"\n" * is_json + data)
    for share in _CUTS if len(data) > _SHORTEST else ():
        yield Damage(f"cut at {share:.0%}", Loses.END, data[: int(share * len(data))])


def _of_a_list(place: Place) -> Iterator[Damage]:
    data, record = place.data, place.record
    before, after, last = data[: place.begin], data[place.end :], place.last
    yield Damage("trailing comma", Loses.NOTHING, data[:last] + b"," + data[last:])
    yield Damage("double comma", Loses.NOTHING, before + b", " + data[place.begin :])
    yield Damage("null event", Loses.NOTHING, before + b"null, " + data[place.begin :])
    if not record.startswith(b"{"):
        return
    for word in (b"NaN", b"-Infinity"):
        extra = b'{"loss": %b, ' % word + record[1:].lstrip()
        yield Damage(f"{word.decode()} beside", Loses.NOTHING, place.instead(extra))
    yield from _of_a_record(place)
    torn = before + record[: len(record) // 2] + after
    yield Damage("half a record", Loses.RECORD, torn)
    yield Damage("comma in a record", Loses.RECORD, place.instead(record[:-1] + b",}"))


def _of_a_record(place: Place) -> Iterator[Damage]:
    record = place.record
    for word in (b"NaN", b"Infinity"):
        if _DUR.search(record):
            changed = _DUR.sub(rb"\g<1>" + word, record, count=1)
            yield Damage(f"{word.decode()} as time", Loses.RECORD, place.instead(changed))
        elif _NUMBER.search(record):
            changed = _NUMBER.sub(rb"\g<1>" + word, record, count=1)
            yield Damage(f"{word.decode()} as number", Loses.RECORD, place.instead(changed))
    if named := _NAME.search(record):
        begin, end = named.span(1)
        texts = {
            "null as name": record[: begin - 1] + b"null" + record[end + 1 :],
            "raw newline in a name": record[:begin] + b"a\nb" + record[begin:],
            "bad escape in a name": record[:begin] + b"\\q" + record[begin:],
        }
        for name, changed in texts.items():
            yield Damage(name, Loses.RECORD, place.instead(changed))


def middle(data: bytes) -> Place | None:
    """The record in the middle of the longest list of a JSON text; None if there is none."""
    text = data
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a list that is never closed
        text = data.rstrip(_CLOSING) + b"]"
    try:
        found = _longest(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    spans = [] if found is None else list(_spans(text, *found))
    if len(spans) < _FEWEST:
        return None
    half = len(spans) // 2
    around = spans[half:] + spans[:half]
    # A range with a time, if the list has any.
    ranges = (span for span in around if _IS_RANGE.search(text, *span))
    begin, end = next(ranges, around[0])
    return Place(data, begin, end, spans[-1][1])


def _longest(text: bytes) -> tuple[int, list[msgspec.Raw]] | None:
    """Offset and elements of the longest list in a JSON text, by bytes."""
    begin, value = 0, text
    for _ in range(8):
        kind = value.lstrip()[:1]
        if kind == b"[":
            elements = msgspec.json.decode(value, type=list[msgspec.Raw])
            if len(elements) >= _FEWEST:
                return begin, elements
            inner = elements
        elif kind == b"{":
            fields = msgspec.json.decode(value, type=dict[str, msgspec.Raw])
            inner = [fields["traceEvents"]] if "traceEvents" in fields else list(fields.values())
        else:
            return None
        largest = bytes(max(inner, key=len, default=b""))
        begin, value = text.index(largest, begin), largest
    return None


def _spans(text: bytes, begin: int, elements: list[msgspec.Raw]) -> Iterator[tuple[int, int]]:
    for element in map(bytes, elements):
        begin = text.index(element, begin)
        yield begin, begin + len(element)
        begin += len(element)


__all__ = ["Damage", "Loses", "Place", "damages", "middle"]
