"""Chrome traces that `stepwhy export` wrote.

The events are the slices; the other tables are under the key 'stepwhy'. Events for steps, arrows
and counters repeat these tables for timeline viewers, and are skipped.

Source: `stepwhy/show/export/chrome_trace.py`.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.narrow import constant
from stepwhy.base.errors import CorruptInputError, NewerFormatError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import SLICE, Document
from stepwhy.trace import NULL, Columns, Copy, Health, Kind, Phase, Trace
from stepwhy.trace.header import health_of, in_short, meta_of, strings_of
from stepwhy.trace.integrity import check, check_bounds
from stepwhy.trace.model import empty_columns
from stepwhy.trace.schema import SCHEMA_VERSION, TABLES, columns_of
from stepwhy.trace.versions import column_name, table_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Batch, Event
    from stepwhy.trace.schema import Column, Table

_SCHEMA = regex(rb'\A\s*\{\s*"schema"\s*:\s*"stepwhy\.chrome-trace/(\d{1,6})"')
_LATEST = 1
_KINDS = {k.name.lower(): int(k) for k in Kind}
_PHASES = {p.name.lower(): int(p) for p in Phase}
_COPIES = {c.name.lower(): int(c) for c in Copy}
# Exceptions on valid JSON that is not an exported trace.
_DAMAGE = (KeyError, IndexError, ValueError, TypeError, AttributeError, OverflowError)
_PLAIN_LIST = b"0123456789-,"
_INT64 = np.iinfo(np.int64)


class Args(msgspec.Struct, gc=False):
    """The columns of a slice that are not null."""

    op: str | None = None
    node: str | None = None
    source: str | None = None
    phase: str = "unknown"
    copy: str = "none"
    bytes: int = NULL
    correlation: int = NULL
    sequence: int = NULL
    pageable: int = NULL


_NO_ARGS = Args()


def recognise(source: Source) -> bool:
    """Whether the file begins as an exported trace does."""
    return _SCHEMA.match(source.head) is not None


def read(source: Source) -> Trace:
    """Read an exported trace.

    Raises:
        NewerFormatError: A later version of stepwhy wrote it.
        CorruptInputError: It was cut off or changed since.
    """
    match = _SCHEMA.match(source.head)
    if match is not None and int(match[1]) > _LATEST:
        raise _newer(source)
    lost = Health()
    document = Document(source, Args, lost, raw=("stepwhy",))
    batches = iter(document)
    slices = _Slices()
    try:
        about = _about(document, source)
        slices.learn(about)
        for batch in batches:
            slices.add(batch)
        _check_whole(document, lost, source)
        trace = _trace(about, slices.finish(document.header["baseTimeNanoseconds"]))
        check(trace)
        check_bounds(trace)
    except _DAMAGE as error:
        # A truncated or torn document explains more than the value that was missing in it.
        deque(batches, maxlen=0)
        _check_whole(document, lost, source)
        raise _changed(source, in_short(error)) from None
    return trace


def _check_whole(document: Document[Args], lost: Health, source: Source) -> None:
    """Check that all events could be read.

    Raises:
        CorruptInputError: Some could not.
    """
    if lost.counters or not document.complete:
        raise _changed(source, lost.counters[0].counter if lost.counters else "cut off")


def _newer(source: Source) -> NewerFormatError:
    return NewerFormatError(f"{source.origin} is from a later version of stepwhy", "Update stepwhy")


def _changed(source: Source, why: str) -> CorruptInputError:
    return CorruptInputError(
        f"{source.origin} is an exported trace that was cut off or changed ({why})",
        "Export it again from its source",
    )


# --- Tables other than slices ---


def _about(document: Document[Args], source: Source) -> dict[str, Any]:
    """The value of the key 'stepwhy', with tables as `Columns`.

    Raises:
        NewerFormatError: A later version of stepwhy wrote it.
        KeyError, ValueError: It is damaged.
    """
    written = document.header.pop("stepwhy")
    raw = written if isinstance(written, msgspec.Raw) else msgspec.json.encode(written)
    about: dict[str, Any] = dict(msgspec.json.decode(raw, type=dict[str, msgspec.Raw]))
    version = msgspec.json.decode(about["version"])
    if version > SCHEMA_VERSION:
        raise _newer(source)
    columns = msgspec.json.decode(about.pop("columns"), type=dict[str, dict[str, msgspec.Raw]])
    # The text of each column is freed as soon as the column is parsed.
    tables = {
        table: _table(table, columns.pop(table_name(table, version), None), version)
        for table in TABLES
        if table != "slices"
    }
    return {**{key: msgspec.json.decode(value) for key, value in about.items()}, "tables": tables}


def _table(table: Table, stored: dict[str, msgspec.Raw] | None, version: int) -> Columns:
    """A table; without rows, or with null columns, where the file is older than these.

    Args:
        table: The table.
        stored: The JSON text of its columns; emptied.
        version: Version of the schema that the file was written with.
    """
    if stored is None:
        return empty_columns(table)
    read = {}
    for column in columns_of(table):
        name = column_name(table, column.name, version)
        if name in stored:
            read[column.name] = _integers(stored.pop(name), column)
    length = len(next(iter(read.values()), ()))
    return Columns(**{c.name: read.get(c.name, _nulls(c, length)) for c in columns_of(table)})


def _integers(raw: msgspec.Raw, column: Column) -> NDArray[Any]:
    """Parse a column of integers.

    Raises:
        OverflowError: A value does not fit into the column's type.
        msgspec.ValidationError: A value is not an integer.
    """
    text = bytes(raw).strip()
    if len(text) > 2 and not text[1:-1].translate(None, _PLAIN_LIST):
        values = np.fromstring(text[1:-1], dtype=np.int64, sep=",")
        # NumPy clips numbers of more than 64 bits to these.
        if values.min() > _INT64.min and values.max() < _INT64.max:
            held: NDArray[Any] = values.astype(column.dtype, copy=False)
            if held is not values and (held != values).any():
                raise OverflowError(f"{column.name} does not fit into {column.dtype}")
            return held
    return np.asarray(msgspec.json.decode(raw, type=list[int]), dtype=column.dtype)


def _null(column: Column) -> int:
    return NULL if column.null == str(NULL) else 0


def _nulls(column: Column, length: int) -> NDArray[Any]:
    return constant(_null(column), length, column.dtype)


def _trace(about: dict[str, Any], slices: Columns) -> Trace:
    return Trace(
        strings=strings_of(about["strings"]),
        slices=slices,
        meta=meta_of(about),
        health=health_of(about),
        **about["tables"],
    )


# --- Slices ---


class _Slices:
    """Collects the slices, in the order of their events."""

    def __init__(self) -> None:
        self._columns = {c.name: Growing(c.dtype) for c in columns_of("slices")}
        self._index: dict[str, int] = {}
        self._tracks: list[int] = []

    def learn(self, about: dict[str, Any]) -> None:
        """Remember the strings and tracks that the events refer to.

        Raises:
            ValueError, KeyError: They are damaged.
        """
        self._index = {text: i for i, text in enumerate(strings_of(about["strings"]))}
        self._tracks = msgspec.convert(about["thread_tracks"], list[int])

    def add(self, batch: Batch[Args]) -> None:
        """Append the slices of a batch.

        Raises:
            KeyError, IndexError, ValueError, OverflowError: One of them is damaged.
        """
        rows = np.flatnonzero(batch.phase == SLICE).tolist()
        rows = [i for i in rows if batch.events[i].cat in _KINDS]
        events = [batch.events[i] for i in rows]
        args = [event.args or _NO_ARGS for event in events]
        self._append("track", [self._tracks[_thread(event) - 1] for event in events])
        self._append("kind", [_KINDS[event.cat] for event in events])
        # `event.name` is the runtime's op type where the two differ.
        self._append(
            "name",
            [
                self._index[e.name if a.op is None else a.op]
                for e, a in zip(events, args, strict=True)
            ],
        )
        self._append("scope", self._strings(map(attrgetter("node"), args)))
        self._append("source", self._strings(map(attrgetter("source"), args)))
        self._append("phase", [_PHASES[a.phase] for a in args])
        self._append("copy", [_COPIES[a.copy] for a in args])
        for name in ("bytes", "correlation", "sequence", "pageable"):
            self._append(name, list(map(attrgetter(name), args)))
        self._columns["start_ns"].append(batch.start_ns[rows])
        self._columns["dur_ns"].append(batch.dur_ns[rows])

    def _append(self, name: str, values: Sequence[int]) -> None:
        column = self._columns[name]
        column.append(np.asarray(values, dtype=column.dtype))

    def _strings(self, texts: Any) -> list[int]:
        return [NULL if text is None else self._index[text] for text in texts]

    def finish(self, base_ns: Any) -> Columns:
        """The table of slices.

        Args:
            base_ns: Time that the events' times are relative to.

        Raises:
            ValueError: `base_ns` is not an integer.
        """
        columns = {c.name: _compact(self._columns[c.name], c) for c in columns_of("slices")}
        columns["start_ns"] = columns["start_ns"] + msgspec.convert(base_ns, int)
        return Columns(**columns)


def _compact(held: Growing, column: Column) -> NDArray[Any]:
    """The values of a column; one that is null everywhere takes no memory."""
    values = held.values()
    is_empty = column.null != "" and not (values != _null(column)).any()
    return _nulls(column, len(values)) if is_empty else values


def _thread(event: Event[Args]) -> int:
    if not isinstance(event.tid, int) or event.tid < 1:
        raise ValueError("an event has no thread")
    return event.tid
