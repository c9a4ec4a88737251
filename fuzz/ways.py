"""Other ways in which the same file is read: as if it were large, with and without kernels.

A large file is read in chunks and by compiled kernels; an input is small. Where an importer has
several ways, they must read the same trace, or refuse the file alike.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import msgspec
import numpy as np

from stepwhy.read.shared.chrome_json.chunks import ChunkReader
from stepwhy.trace import NULL
from stepwhy.trace.schema import TABLES, columns_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace


@dataclass(frozen=True, slots=True)
class Way:
    """One way to read.

    Args:
        importer: Whose way it is.
        name: For people.
        values: What to set in modules of that importer: 'module:name' and the value.
    """

    importer: str
    name: str
    values: dict[str, Any] = field(hash=False)


# A record that is longer than the farthest cut is read as a damaged one. With chunks of a megabyte
# no record is that long, so these small chunks look as far ahead as the largest input.
_IN_CHUNKS = {
    "shared.chrome_json.cuts:CHUNK": 2048,
    "shared.chrome_json.cuts:_FARTHER": (4, 16, 64, 512),
}


def _not_json(reader: Any, _text: Any) -> None:
    """`ChunkReader.read` for a chunk that is not JSON."""
    reader.ended_early = False


_BY_RECORD = {"shared.chrome_json.chunks:ChunkReader.read": ChunkReader.read_singly}
_TORN = {
    "shared.chrome_json.chunks:ChunkReader.read": _not_json,
    "shared.chrome_json.document:find_tail": lambda *_: None,
}
TORN = "as torn text"
WAYS = (
    Way("kineto", "as a large file", {
        "formats.kineto.reader:LARGE": 0, "formats.kineto.lanes:STRETCH": 4096, **_IN_CHUNKS,
    }),
    Way("kineto", "in chunks", {"formats.kineto.reader:LARGE": 1 << 60, **_IN_CHUNKS}),
    Way("xplane", "as a large file", {
        "formats.xplane.sweep:LARGE": 0,
        "formats.xplane.planes:_MANY": 0,
        "formats.xplane.sweep:_CHUNK": 4096,
    }),
    *(
        Way(name, how, values)
        for name in ("kineto", "tf_timeline", "horovod", "chrome_trace", "megascan", "sagemaker")
        for how, values in (("record by record", _BY_RECORD), (TORN, _TORN))
    ),
    *(Way(name, "in chunks", _IN_CHUNKS) for name in ("tf_timeline", "horovod", "chrome_trace")),
)  # fmt: skip


def ways_of(source: Source) -> list[Way]:
    """The other ways of importers that take a file for theirs.

    Args:
        source: The file.
    """
    takes: dict[str, bool] = {}
    for importer in dict.fromkeys(way.importer for way in WAYS):
        takes[importer] = import_module(f"stepwhy.read.formats.{importer}.reader").recognise(source)
    return [way for way in WAYS if takes[way.importer]]


def is_damaged(path: Path) -> bool:
    """Whether a file is text that is not strictly JSON, or has two lists of events, or is packed.

    Args:
        path: The file.
    """
    data = path.read_bytes().lstrip(b"\xef\xbb\xbf \t\r\n")
    try:
        msgspec.json.decode(data)
        json.loads(data, object_pairs_hook=_with_one_list, parse_int=str)
    except (ValueError, RecursionError):
        return data[:1] in {b"{", b"["} or data.startswith(b"\x1f\x8b")
    return False


def _with_one_list(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; which of two lists counts that have one key, JSON leaves open."""
    if sum(key == "traceEvents" for key, _ in pairs) > 1:
        raise ValueError("two lists of events")
    return dict(pairs)


@contextmanager
def taken(way: Way) -> Iterator[None]:
    """Read this way from here on.

    Args:
        way: The way.

    Raises:
        AttributeError: The importer has no such name any more.
    """
    with ExitStack() as stack:
        # Nobody waits for kernels that are not compiled yet; `run.py` compiles them before.
        stack.enter_context(patch("stepwhy.base.columns.compiled.prepare", lambda: None))
        for place, value in way.values.items():
            module, _, name = place.partition(":")
            target = import_module(f"stepwhy.read.{module}")
            owner, _, name = name.rpartition(".")
            target = getattr(target, owner) if owner else target
            stack.enter_context(patch.object(target, name, value))
        yield


# Counters that are added when a trace is explained, not when it is read.
_EXPLAINED = {"device-work-missing", "devices-together"}


def differences(trace: Trace, other: Trace, *, health: bool = True) -> Iterator[str]:
    """What is not the same in two traces; strings may stand in another order.

    Args:
        trace: A trace.
        other: What should be the same one.
        health: Whether to compare how many records were read and kept, and what was counted.
    """
    if trace.meta != other.meta:
        yield f"meta: {trace.meta} and {other.meta}"
    if health and _told(trace) != _told(other):
        yield f"health: {_told(trace)} and {_told(other)}"
    for table in TABLES:
        columns, others = trace.table(table), other.table(table)
        if len(columns) != len(others):
            yield f"{table}: {len(columns)} and {len(others)} rows"
            continue
        for column in columns_of(table):
            values, instead = getattr(columns, column.name), getattr(others, column.name)
            if column.unit == "string":
                values, instead = _texts(trace, values), _texts(other, instead)
            if not np.array_equal(values, instead, equal_nan=values.dtype.kind == "f"):
                yield f"{table}.{column.name}: {_first(values, instead)}"


def _told(trace: Trace) -> tuple[int, int, dict[str, int]]:
    """How many records were read and kept, and what was counted."""
    counters = {c.counter: c.count for c in trace.health.counters if c.counter not in _EXPLAINED}
    return trace.health.events_read, trace.health.events_kept, counters


def _texts(trace: Trace, values: Any) -> Any:
    return np.asarray(["" if v == NULL else trace.strings[v] for v in values.tolist()], dtype="O")


def _first(values: Any, instead: Any) -> str:
    row = int(np.flatnonzero(values != instead)[0])
    return f"{values[row]!r:.100} and {instead[row]!r:.100} in row {row}"
