"""Mutations of JSON whose lists are columns, and of such JSON that is compressed."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

from fuzz.mutate.havoc import havoc
from fuzz.mutate.json_tree import mutate_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    Change = Callable[[list[list[Any]], Random], None]

_MOST_CHANGES = 3
_CELLS = (
    *(
        -1,
        -2,
        0,
        1,
        2,
        7,
        1000,
        1001,
        1 << 31,
        1 << 53,
        (1 << 62) + 1,
        1 << 63,
        -(1 << 63),
        1 << 64,
    ),
    *(0.5, 1e308, -1e308, None, True, "", "0", "x", "\ud800", "\x1b[2J", "a.py(-1): f", [], {}),
)


def mutate_columns(data: bytes, random: Random) -> bytes:
    """Some columns with other values, of other lengths, or exchanged; or any change of JSON."""
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return havoc(data, random)
    columns = list(_columns(root))
    if not columns or random.random() < 0.4:
        return mutate_json(data, random)
    for _ in range(1 + random.randrange(_MOST_CHANGES)):
        random.choice(_CHANGES)(columns, random)
    return json.dumps(root).encode()


def mutate_packed_columns(data: bytes, random: Random) -> bytes:
    """The same of a gzip file, which is whole afterwards."""
    try:
        content = gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return havoc(data, random)
    return gzip.compress(mutate_columns(content, random), compresslevel=1, mtime=0)


def _columns(value: Any) -> Iterator[list[Any]]:
    """All lists in a document, at any depth."""
    if isinstance(value, list):
        yield value
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _columns(inner)


def _cell(columns: list[list[Any]], random: Random) -> None:
    column = random.choice(columns)
    if column:
        column[random.randrange(len(column))] = random.choice(_CELLS)


def _length(columns: list[list[Any]], random: Random) -> None:
    column = random.choice(columns)
    at = random.randrange(len(column) + 1)
    if random.random() < 0.5:
        del column[at:]
    else:
        column[at:at] = column[: random.choice((1, 2, len(column)))]


def _swap(columns: list[list[Any]], random: Random) -> None:
    one, other = random.choice(columns), random.choice(columns)
    if not any(isinstance(value, (list, dict)) for value in (*one, *other)):
        one[:], other[:] = list(other), list(one)


_CHANGES: tuple[Change, ...] = (_cell, _cell, _cell, _length, _length, _swap)

__all__ = ["mutate_columns", "mutate_packed_columns"]
