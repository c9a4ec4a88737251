"""Short versions of recorded traces: a damaged input has to be read in milliseconds."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zlib
from collections import Counter
from contextlib import closing, suppress
from typing import Any

from fuzz.mutate.wire import parse, write

# Of every list; fewer where there are many lists.
_MOST_EVENTS = (150, 40, 12)
_MOST_FIELDS = 40
_MOST_ROWS = 60
_MOST_LINES = 80
_LARGEST_BYTES = 400_000
_LARGEST_JSON_BYTES = 120_000
# To decode a larger one takes seconds whenever a process begins; it is as others are, only longer.
_LARGEST_STORED_BYTES = {".sqlite": 5_000_000, ".pb": 4_000_000}
_LARGEST_OTHER_BYTES = 2_500_000
# Records of a kind that are kept for what they are, wherever they stand.
_OF_A_KIND = 3


def shorten(data: bytes, suffix: str) -> bytes | None:
    """A file with few of its records, small enough to be damaged thousands of times, or None.

    Args:
        data: The file, compressed or not.
        suffix: End of a name that tells how it is built.
    """
    if len(data) > _LARGEST_STORED_BYTES.get(suffix, _LARGEST_OTHER_BYTES):
        return None
    with suppress(OSError, EOFError, zlib.error):
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    short = _BY_SUFFIX.get(suffix, lambda data: data)(data)
    return short if short and len(short) <= _LARGEST_BYTES else None


def _json(data: bytes) -> bytes | None:
    try:
        document = json.loads(data)
    except ValueError:
        return data[:_LARGEST_BYTES]
    shorter = (json.dumps(_short(document, most)).encode() for most in _MOST_EVENTS)
    return next((text for text in shorter if len(text) <= _LARGEST_JSON_BYTES), None)


def _short(value: Any, most: int) -> Any:
    """The same value with few records in its lists."""
    if isinstance(value, dict):
        return {key: _short(inner, most) for key, inner in value.items()}
    return [_short(v, most) for v in _some(value, most)] if isinstance(value, list) else value


def _some(records: list[Any], most: int) -> list[Any]:
    """Some records of each kind, the first, which name things, and a stretch from the middle."""
    if len(records) <= most:
        return records
    half, middle = most // 2, len(records) // 2
    kinds: Counter[Any] = Counter()
    rare = []
    for place, record in enumerate(records):
        kinds[_kind(record)] += 1
        if kinds[_kind(record)] <= _OF_A_KIND:
            rare.append(place)
    first = dict.fromkeys((*rare[: half // 2], *range(half)))
    kept = {*[*first][:half], *range(middle, middle + half)}
    return [records[place] for place in sorted(kept)]


def _kind(record: Any) -> Any:
    """What makes a record one of its kind: its phase, its category and the names of its fields."""
    if not isinstance(record, dict):
        return type(record)
    args = record.get("args")
    told = frozenset(args) if isinstance(args, dict) else None
    return str(record.get("ph")), str(record.get("cat")), frozenset(record), told


def _message(data: bytes) -> bytes | None:
    fields = parse(data)
    return None if fields is None else write(_few(fields))


def _few(fields: list[Any]) -> list[Any]:
    """The first fields of each number, in messages of any depth."""
    seen: dict[int, int] = {}
    kept = []
    for number, wire, value, lie in fields:
        seen[number] = seen.get(number, 0) + 1
        if seen[number] <= _MOST_FIELDS:
            kept.append([number, wire, _few(value) if isinstance(value, list) else value, lie])
    return kept


def _database(data: bytes) -> bytes | None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        connection.execute("PRAGMA journal_mode = MEMORY")
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in found:
            with suppress(sqlite3.Error):
                rowid = f'SELECT rowid FROM "{name}" LIMIT {_MOST_ROWS}'
                connection.execute(f'DELETE FROM "{name}" WHERE rowid NOT IN ({rowid})')
        connection.commit()
        connection.execute("VACUUM")
        return connection.serialize()


def _lines(data: bytes) -> bytes:
    return b"".join(data.splitlines(keepends=True)[:_MOST_LINES])


_BY_SUFFIX = {
    ".json": _json, ".pb": _message, ".sqlite": _database, ".csv": _lines, ".txt": _lines,
}  # fmt: skip
