"""Valid JSON from a text that is damaged in a few places, for formats that are no list of events.

Python's decoder tells where a value begins that it cannot read. Around it, lists and objects are
read one element at a time, and an element that is damaged is left out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json.text import valid_text
from stepwhy.read.shared.chrome_json.torn import encodable, encoded_length
from stepwhy.read.shared.several_files import count_further, count_text_after

if TYPE_CHECKING:
    from mmap import mmap

    from stepwhy.trace import Health

_SKIPPED = regex(r"[\s,]*")
_KEY = regex(r'("(?:[^"\\]|\\.)*")\s*:\s*')
_AFTER_VALUE = regex(r"\s*(?=[,}])")
# Damaged elements after which the rest of a list is given up.
_MOST_DAMAGED = 1000
_DECODER = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
_NOT_JSON = (ValueError, RecursionError)


class Repaired(NamedTuple):
    """A repaired text.

    Args:
        text: Valid JSON.
        lost: Number of elements that were left out.
        complete: Whether the end of the text was reached.
    """

    text: bytes
    lost: int
    complete: bool


class _DamagedError(Exception):
    """A value cannot be read."""


def repaired(data: bytes | mmap, health: Health) -> Repaired | None:
    """Repair a text, and count what was left out of it; None if nothing of it can be read.

    Args:
        data: The text.
        health: The counters.
    """
    text = valid_text(data, health)[:].decode()
    reader = _Reader(text)
    try:
        value, end = reader.value(_skip(text, 0))
        found = json.dumps(encodable(value)).encode()
    except (_DamagedError, *_NOT_JSON):
        return None
    health.count(
        "unreadable-record",
        "error",
        "Damaged records were left out, and whatever they covered is missing.",
        count=reader.lost,
        dropped=False,
    )
    rest = text[end:].strip(" \t\r\n,\x00\x1e")
    if rest:
        size = len(data) - encoded_length(text, end)
        (count_further if rest[:1] == text.lstrip()[:1] else count_text_after)(health, size)
    return Repaired(found, reader.lost, reader.complete)


def without_nulls(value: Any) -> Any:
    """A JSON value whose lists have no nulls."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nulls(element) for element in value if element is not None]
    return value


class _Reader:
    """Reads values of a text.

    Args:
        text: The text.

    Attributes:
        lost: Number of elements of lists that were left out.
        complete: Whether every list and object was closed.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.lost = 0
        self.complete = True

    def value(self, at: int) -> tuple[Any, int]:
        """The value at a place, and where it ends.

        Raises:
            _DamagedError: It is damaged as a whole.
            RecursionError: It is nested too deep.
        """
        try:
            return _DECODER.raw_decode(self._text, at)
        except ValueError:
            pass
        begin = self._text[at : at + 1]
        if begin == "[":
            return self._list(at + 1)
        if begin == "{":
            return self._object(at + 1)
        raise _DamagedError

    def _list(self, at: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        while not self._ended(at := _skip(self._text, at)):
            if self._text[at] == "]":
                return items, at + 1
            if self._text[at] == "{" and items and isinstance(items[-1], int | float | str):
                raise _DamagedError  # the list is open, and this is a record after it
            try:
                item, at = self.value(at)
                items.append(item)
            except _DamagedError:
                self.lost += 1
                at = self._next(at, items)
        return items, at

    def _object(self, at: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        while not self._ended(at := _skip(self._text, at)):
            if self._text[at] == "}":
                return values, at + 1
            key = _KEY.match(self._text, at)
            if key is None:
                raise _DamagedError
            value, at = self.value(key.end())
            values[json.loads(key[1], strict=False)] = value
            if _AFTER_VALUE.match(self._text, at) is None and self._text[at:].strip():
                raise _DamagedError
        return values, at

    def _ended(self, at: int) -> bool:
        """Whether the text ends, inside a list or an object."""
        is_end = at >= len(self._text)
        self.complete &= not is_end
        return is_end

    def _next(self, at: int, before: list[Any]) -> int:
        """Where the next element of a list begins after a damaged one.

        Args:
            at: Begin of the damaged element.
            before: The elements before it.
        """
        begins = self._text[at]
        pattern = _NEXT[begins] if begins in _NEXT else _NEXT["{"]
        if self.lost > _MOST_DAMAGED:
            return len(self._text)
        for found in pattern.finditer(self._text, at + 1):
            try:
                candidate, _ = _DECODER.raw_decode(self._text, found.end())
            except _NOT_JSON:
                continue
            if not before or _is_like(candidate, before[-1]):
                return found.end()
        return len(self._text)


_NEXT = {mark: regex(rf",\s*(?=\{mark})") for mark in "{["}


def _is_like(value: Any, other: Any) -> bool:
    """Whether a value may be an element of the same list as another one."""
    if isinstance(value, dict) and isinstance(other, dict):
        return bool(value.keys() & other.keys()) or not other
    return type(value) is type(other)


def _skip(text: str, at: int) -> int:
    found = _SKIPPED.match(text, at)
    return found.end() if found else at
