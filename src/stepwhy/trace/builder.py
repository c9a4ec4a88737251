"""Builds a `Trace`: interning, ordering and the integrity check in one place.

Importers append rows (`slice`, `device`, ...) or, on hot paths, whole columns (`slices_from`):
arrays of the schema's types are kept as they are, and need a tenth of the memory of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import take
from stepwhy.base.columns.interning import Interner
from stepwhy.base.columns.memory import give_back
from stepwhy.base.columns.narrow import constant, is_constant, narrowed
from stepwhy.base.columns.null import NULL
from stepwhy.base.columns.order import parents_first
from stepwhy.trace.health import Health
from stepwhy.trace.integrity import check
from stepwhy.trace.model import Columns, Meta, Trace, empty_columns
from stepwhy.trace.ordering import order_others
from stepwhy.trace.schema import NARROW_COLUMNS, TABLES, Table, columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.order import Order
    from stepwhy.trace.kinds import DeviceKind, Kind, Role

    Block = NDArray[Any]

_OTHER_TRACKS = "other tracks"
# Value of a missing column: the null of the schema, or 0 where 0 is the null.
_DEFAULTS: dict[tuple[Table, str], int] = {
    (table, c.name): (0 if c.null in {"", "0"} else NULL)
    for table in TABLES
    for c in columns_of(table)
}


MOST_TRACKS = 1 << 16
"""Most tracks of a trace: threads, streams and processes. Recorded traces have some thousands.

Further tracks of the same role and device are combined, so that totals of the device stay right.
"""


def count_tracks_together(health: Health, count: int) -> None:
    """Count threads and streams beyond `MOST_TRACKS`, which share tracks."""
    health.count(
        "tracks-together",
        "warning",
        f"Threads and streams beyond the first {MOST_TRACKS:,} share a track: what each of "
        "them did, and which calls were nested on it, is not known.",
        count=count,
        dropped=False,
    )


def count_names_unread(health: Health, count: int) -> None:
    """Count names beyond the limit up to which names are classified."""
    health.count(
        "names-unread",
        "warning",
        "The file has more different names than are classified. Ranges with further names are "
        "listed, and on devices they count as kernels, but no step, copy or kind of operation "
        "is recognised in them.",
        count=count,
        dropped=False,
    )


class TraceBuilder:
    """Collects rows and finishes them into an ordered, checked trace.

    Args:
        health: The counters that the importer fills; a fresh one by default.
    """

    def __init__(self, health: Health | None = None) -> None:
        self.health = health if health is not None else Health()
        self._strings = Interner()
        self._rows: dict[Table, dict[str, list[Any]]] = {
            table: {c.name: [] for c in columns_of(table)} for table in TABLES
        }
        # Rows that were added as columns, and their number; `_rows` follow them.
        self._blocks: dict[Table, list[dict[str, Block]]] = {table: [] for table in TABLES}
        self._settled: dict[Table, int] = dict.fromkeys(TABLES, 0)
        self._tracks: dict[tuple[int, int, int, int, str], int] = {}
        self._devices: dict[str, int] = {}
        self._beyond: set[int] = set()

    def intern(self, text: str) -> int:
        """Index of a string, the same for equal strings."""
        return self._strings.number(text)

    def intern_all(self, texts: Sequence[str]) -> list[int]:
        """Indices of many strings."""
        numbers: list[int] = self._strings.numbers(texts).tolist()
        return numbers

    def add(self, table: Table, **values: int) -> int:
        """Append one row, with nulls in missing columns; returns its row number."""
        rows = self._rows[table]
        unknown = values.keys() - rows.keys()
        if unknown:
            raise TypeError(f"{table} has no column {sorted(unknown)}")
        for name, column in rows.items():
            column.append(values.get(name, _DEFAULTS[table, name]))
        return self._settled[table] + len(rows[next(iter(rows))]) - 1

    def device(self, name: str, kind: DeviceKind, model: str = "") -> int:
        """Row of the device with this name; the first call adds it."""
        if name not in self._devices:
            self._devices[name] = self.add(
                "devices",
                name=self.intern(name),
                kind=int(kind),
                model=self.intern(model) if model else NULL,
            )
        return self._devices[name]

    def rename_device(self, row: int, name: str) -> None:
        """Give a device another name, which no device has yet."""
        self._devices = {n: r for n, r in self._devices.items() if r != row}
        self._devices[name] = row
        self._rows["devices"]["name"][row - self._settled["devices"]] = self.intern(name)

    def track(
        self, role: Role, name: str, *, process: int = NULL, thread: int = NULL, device: int = NULL
    ) -> int:
        """Row of the track with this role, process, thread and device; the first call adds it.

        Names distinguish tracks without a thread id. Beyond `MOST_TRACKS`, tracks of the same role
        and device are one.
        """
        key = (int(role), process, thread, device, name if thread == NULL else "")
        known = self._tracks.get(key)
        if known is not None:
            return known
        if len(self._tracks) >= MOST_TRACKS:
            return self._shared_track(role, device, key)
        self._tracks[key] = self._new_track(role, name, process, thread, device)
        return self._tracks[key]

    def _shared_track(self, role: Role, device: int, key: tuple[int, int, int, int, str]) -> int:
        """Row of the shared track of this role and device, beyond `MOST_TRACKS`."""
        self._beyond.add(hash(key))
        shared = (int(role), NULL, NULL, device, _OTHER_TRACKS)
        if shared not in self._tracks:
            self._tracks[shared] = self._new_track(role, _OTHER_TRACKS, NULL, NULL, device)
        return self._tracks[shared]

    def _new_track(self, role: Role, name: str, process: int, thread: int, device: int) -> int:
        return self.add(
            "tracks",
            role=int(role),
            name=self.intern(name),
            process=process,
            thread=thread,
            device=device,
        )

    def slice(
        self, track: int, kind: Kind, name: str, start_ns: int, dur_ns: int, **values: int
    ) -> int:
        """Append one slice; returns the row it has *before* ordering (use it for flows)."""
        return self.add(
            "slices",
            track=track,
            kind=int(kind),
            name=self.intern(name),
            start_ns=start_ns,
            dur_ns=dur_ns,
            **values,
        )

    def slices_from(self, columns: Mapping[str, Sequence[int] | Block]) -> None:
        """Append many slices at once; the columns are equally long."""
        self.rows_from("slices", columns)

    def rows_from(self, table: Table, columns: Mapping[str, Sequence[int] | Block]) -> None:
        """Append many rows at once, with nulls in missing columns; columns are equally long."""
        self._settle(table)
        length = len(next(iter(columns.values())))
        block = {}
        for column in columns_of(table):
            values = columns.get(column.name)
            if values is None:
                null = _DEFAULTS[table, column.name]
                block[column.name] = constant(null, length, column.dtype)
            else:
                block[column.name] = _to_array(values, column.dtype)
        self._blocks[table].append(block)
        self._settled[table] += length

    def _settle(self, table: Table) -> None:
        """Turn the rows so far into columns."""
        rows = self._rows[table]
        length = len(next(iter(rows.values())))
        if length:
            types = {c.name: c.dtype for c in columns_of(table)}
            block = {n: np.asarray(values, dtype=types[n]) for n, values in rows.items()}
            self._blocks[table].append(block)
            self._settled[table] += length
            self._rows[table] = {name: [] for name in rows}

    def finish(self, meta: Meta) -> Trace:
        """Order and check the tables, and return the trace.

        Raises:
            ValueError: A table violates an invariant of the schema (a bug in the importer).
        """
        count_tracks_together(self.health, len(self._beyond))
        strings = self._strings.strings()
        give_back()
        slices, order = self._slices_in_order()
        tables = {t: slices if t == "slices" else self._columns(t) for t in TABLES}
        order_others(tables, order)
        # The builder stays usable: its rows are now the columns of the trace.
        self._blocks = {t: [dict(vars(tables[t]))] if len(tables[t]) else [] for t in TABLES}
        trace = Trace(strings=strings, meta=meta, health=self.health, **tables)
        check(trace)
        return trace

    def _columns(self, table: Table) -> Columns:
        self._settle(table)
        if not self._blocks[table]:
            return empty_columns(table)
        return Columns(**{c.name: self._column(table, c.name) for c in columns_of(table)})

    def _slices_in_order(self) -> tuple[Columns, Order | None]:
        """The sorted slices, and the former row of each; None if they were sorted already.

        Works column by column, so that only one column is in memory twice.
        """
        self._settle("slices")
        if not self._blocks["slices"]:
            return empty_columns("slices"), None
        columns = {name: self._column("slices", name) for name in ("start_ns", "dur_ns")}
        order = parents_first(columns["start_ns"], columns["dur_ns"])
        for column in columns_of("slices"):
            values = columns.pop(column.name, None)
            values = self._column("slices", column.name) if values is None else values
            if order is not None and not is_constant(values):
                values = take(values, order)
            columns[column.name] = narrowed(values) if column.name in NARROW_COLUMNS else values
            del values  # frees it before the next column is joined
        return Columns(**columns), order

    def _column(self, table: Table, name: str) -> Block:
        """A column of the rows so far; its parts are freed."""
        parts = [b.pop(name) for b in self._blocks[table]]
        null = _DEFAULTS[table, name]
        # A column that is null everywhere takes no memory.
        if all((part[:1] == null).all() and (part == null).all() for part in parts):
            return constant(null, sum(map(len, parts)), parts[0].dtype)
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _to_array(values: Sequence[int] | Block, dtype: str) -> Block:
    """The values as an array of a type; arrays of narrower integers stay as they are."""
    if (
        isinstance(values, np.ndarray)
        and values.dtype.kind == "i"
        and values.dtype < np.dtype(dtype)
    ):
        return values
    return np.asarray(values, dtype=dtype)
