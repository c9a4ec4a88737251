"""Salvage complete records from invalid JSON: truncated files, NaN, trailing commas."""

from __future__ import annotations

import json
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from mmap import mmap

    from stepwhy.trace import Health

# Damaged records after which the search for the next one stops.
_RESYNC_LIMIT = 1000
# Bytes read beyond the chunk to complete its last record, before the whole rest is read.
_MARGINS = (1 << 16, 1 << 22)

# Characters encoded at a time.
_CHUNK = 1 << 16

_NEXT_RECORD = regex(r",\s*(?=\{)")
# Where a list was never closed, another one may follow.
_FURTHER_LIST = regex(r"\[\s*\{")
_SEPARATOR = regex(r"[\s,]*")
_SURROGATE = regex(r"\\u[dD][89a-fA-F]")
_DECODER = json.JSONDecoder(strict=False)


class End(Enum):
    """Why a scan over records ended."""

    GOAL = 0  # at the goal, before another record
    LIST = 1  # at the bracket that closes the list, or begins a further one
    TEXT = 2  # at the end of the text


class Scan(NamedTuple):
    """Result of a scan.

    Args:
        records: The records as raw JSON, or as plain objects where they are not valid JSON.
        position: Where the scan ended.
        end: Why it ended.
    """

    records: list[Any]
    position: int
    end: End


class Salvage:
    """Scans a damaged file record by record.

    Args:
        data: The file, UTF-8.
    """

    def __init__(self, data: bytes | mmap) -> None:
        self._data = data
        self.broken = 0

    def walk(self, position: int, goal: int) -> Scan:
        """The records that begin between a position and a goal."""
        for margin in _MARGINS:
            if goal + margin < len(self._data):
                found = self._walk(position, goal, goal + margin)
                if found is not None:
                    return found
        found = self._walk(position, goal, len(self._data))
        assert found is not None  # noqa: S101 - only a part of the text can be too short
        return found

    def _walk(self, begin: int, goal: int, end: int) -> Scan | None:
        """Scan the bytes from `begin` to `end`; None if the last record needs more of the text."""
        whole = end >= len(self._data)
        text = self._decoded(begin, end)
        is_plain = len(text) == end - begin  # every character is one byte, and none was skipped
        last = goal - begin if is_plain else len(self._decoded(begin, goal))
        clean = encodable if _SURROGATE.search(text) else _unchanged
        records: list[Any] = []
        at, broken = _skip(text, 0), 0
        while at < min(last, len(text)) and text[at] != "]" and not _FURTHER_LIST.match(text, at):
            try:
                record, after = _DECODER.raw_decode(text, at)
                raw = _raw_json(text[at:after])
                records.append(clean(record) if raw is None else raw)
                at = after
            except (ValueError, RecursionError):
                broken += 1
                at = _resync(text, at) if self.broken + broken <= _RESYNC_LIMIT else len(text)
            at = _skip(text, at)
        if at >= len(text) and not whole:
            return None
        self.broken += broken
        return Scan(records, begin + encoded_length(text, at), _why(text, at))

    def _decoded(self, begin: int, end: int) -> str:
        """The text from `begin` to `end`, with a single copy."""
        with memoryview(self._data) as view:
            return str(view[begin:end], "utf-8", "ignore")

    def count(self, health: Health, complete: bool) -> None:
        """Count what was lost.

        Args:
            health: The counters.
            complete: Whether the end of the list was reached.
        """
        health.events_read += self.broken
        health.count(
            "unreadable-record",
            "error",
            "Damaged records were left out, and whatever they covered is missing.",
            count=self.broken,
            dropped=True,
        )
        if not complete:
            health.count(
                "json-truncated",
                "error",
                "The file ends before its list of events does: later events are missing. "
                "Totals and steps cover the readable part only. Copy the trace again or let the "
                "profiler finish writing.",
                dropped=False,
            )


def _raw_json(text: str) -> msgspec.Raw | None:
    """A record as raw JSON; None if it is not valid JSON, as with NaN or a lone surrogate."""
    raw = msgspec.Raw(text.encode())
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return raw


def encoded_length(text: str, end: int) -> int:
    """Number of bytes of the first characters of a text."""
    if text.isascii():
        return end
    begins = range(0, end, _CHUNK)
    return sum(len(text[begin : min(begin + _CHUNK, end)].encode()) for begin in begins)


def _why(text: str, at: int) -> End:
    if at >= len(text):
        return End.TEXT
    return End.LIST if text[at] == "]" or _FURTHER_LIST.match(text, at) else End.GOAL


def _resync(text: str, position: int) -> int:
    """Begin of the next record after a damaged one, the end of the text if there is none.

    Skips objects in the arguments of the damaged record, which have no `ph`.
    """
    for attempt, found in enumerate(_NEXT_RECORD.finditer(text, position + 1)):
        try:
            candidate, _ = _DECODER.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            candidate = None
        if isinstance(candidate, dict) and "ph" in candidate:
            return found.end()
        if attempt > _RESYNC_LIMIT:
            break
    return len(text)


def _skip(text: str, position: int) -> int:
    match = _SEPARATOR.match(text, position)
    return match.end() if match else position


def _unchanged(value: Any) -> Any:
    return value


def encodable(value: Any) -> Any:
    """A value without lone surrogates, which JSON allows but UTF-8 does not."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, dict):
        return {encodable(k): encodable(v) for k, v in value.items()}
    return [encodable(v) for v in value] if isinstance(value, list) else value
