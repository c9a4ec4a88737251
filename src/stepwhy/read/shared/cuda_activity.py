"""Adds the CUDA activity records of a profiler's database to a trace, a table at a time.

Nsight Systems and nvprof both store the activity records of CUPTI in SQLite tables; the formats
differ in how they name calls, devices and threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.groups import distinct_rows
from stepwhy.read.shared.chrome_json import LARGEST_NS, count_untimed
from stepwhy.read.shared.cuda import COPY_NAMES, call_kind, framework_of, kernel_kind
from stepwhy.read.shared.database import ABSENT
from stepwhy.read.shared.slice_columns import SliceColumns
from stepwhy.read.shared.waits import Waits
from stepwhy.trace import NULL, Copy, Kind, Meta, Role, WaitKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.shared.database import Database, Rows
    from stepwhy.trace import Health, TraceBuilder

TIMES = ("start", "end")
"""Columns with the times of a record, ns."""

DEVICE_KINDS = frozenset({Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET})
"""Kinds of slices on devices."""
CALL_KINDS = frozenset({Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC})
"""Kinds of calls of the device API."""

_SIGNALS = {
    "host-ops": {Kind.OP},
    "device-activity": DEVICE_KINDS,
    "runtime-calls": CALL_KINDS,
    "input": {Kind.INPUT},
}
_WAITS = [int(kind) for kind in WaitKind if kind]
# Column of waits for the stream that a record names; the other kinds name none.
_STREAM_COLUMNS = {int(WaitKind.STREAM_EVENT): "waiting", int(WaitKind.STREAM): "awaited"}
# Ids and sizes above this are damage.
_LARGEST = 1 << 62


def each(function: Callable[..., int], *columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Apply a function to the values of every row; it is called once per distinct row; (rows,)."""
    rows, group = distinct_rows(*columns)
    results = {row: function(*row) for row in sorted(rows)}  # independent of the order in the file
    return np.asarray([results[row] for row in rows], dtype=np.int64)[group]


def known(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids and sizes; NULL for those that are absent, negative or absurdly large; (rows,)."""
    result: NDArray[np.int64] = np.where((values < 0) | (values >= _LARGEST), NULL, values)
    return result


class CudaActivity:
    """Adds the records of a database to a trace, and counts the records that it reads.

    Args:
        database: The database.
        builder: Receives devices, tracks and slices.

    Attributes:
        texts: Names so far.
        notes: Notes for the reader of the report.
    """

    def __init__(self, database: Database, builder: TraceBuilder) -> None:
        self.database = database
        self.builder = builder
        self.texts: set[str] = set()
        self.notes: list[str] = []
        self._has_sizes = False
        self._slices = SliceColumns()
        self._waits = Waits()

    def finish(self) -> None:
        """Add the slices to the trace."""
        calls = {name: self._slices.column(name) for name in ("correlation", "kind")}
        self._waits.add_to(self.builder, [calls])
        self._slices.add_to(self.builder)

    @property
    def health(self) -> Health:
        """The builder's counters."""
        return self.builder.health

    def read(
        self,
        table: str,
        ints: Sequence[str],
        texts: Sequence[str] = (),
        blobs: Sequence[str] = (),
    ) -> Rows:
        """Read a table of records with `Database.read`, and count them."""
        rows = self.database.read(table, ints, texts, blobs)
        self.health.events_read += len(rows)
        return rows

    def chunks(self, table: str, ints: Sequence[str], texts: Sequence[str] = ()) -> Iterator[Rows]:
        """As `read`, in chunks of rows."""
        for rows in self.database.chunks(table, ints, texts):
            self.health.events_read += len(rows)
            yield rows

    def timed_chunks(
        self, table: str, ints: Sequence[str], *, on_device: bool = False
    ) -> Iterator[Rows]:
        """The records of a table that have a usable time, in chunks.

        Args:
            table: The table.
            ints: Columns of integers, with `TIMES`.
            on_device: As for `timed`.
        """
        for rows in self.chunks(table, ints):
            yield self.timed(rows, on_device=on_device)

    def timed(self, rows: Rows, *, on_device: bool = False) -> Rows:
        """The rows with a start and an end that is not earlier; the others are counted.

        Args:
            rows: Rows with the columns `TIMES`.
            on_device: Whether the times are from a device's clock: two zeros mean that it failed.
        """
        start, end = rows["start"], rows["end"]
        usable = (start > -LARGEST_NS) & (start <= end) & (end < LARGEST_NS)
        if on_device:
            usable &= (start != 0) | (end != 0)
        count_untimed(self.health, int((~usable).sum()))
        return rows.where(usable)

    def leave_out(self, table: str, counter: str, text: str) -> None:
        """Count the records of a table that a trace has no use for.

        Args:
            table: The table.
            counter: Name of the health counter.
            text: Its help.
        """
        count = self.database.count(table)
        self.health.events_read += count
        self.health.count(counter, "info", text, count=count, dropped=True)

    def add_waits(
        self,
        rows: Rows,
        kind: NDArray[np.int64],
        correlation: NDArray[np.int64],
        streams: Callable[[Rows], NDArray[np.int64]],
    ) -> None:
        """Add the waits of records of synchronisations, which repeat the calls of the API.

        Args:
            rows: The records, with the column 'start'.
            kind: `CUpti_ActivitySynchronizationType`, the numbers of `WaitKind`; (rows,).
            correlation: Correlation of the call; (rows,).
            streams: Returns the tracks of their streams; (any,).
        """
        self.health.count(
            "synchronisation-record",
            "info",
            "Records of synchronisations repeat the calls of the API.",
            count=len(rows),
            dropped=True,
        )
        waits, has_stream = np.isin(kind, _WAITS), np.isin(kind, list(_STREAM_COLUMNS))
        track = np.full(len(rows), NULL)
        track[has_stream] = streams(rows.where(has_stream))
        columns = {
            name: np.where(kind == of, track, NULL) for of, name in _STREAM_COLUMNS.items()
        } | {"kind": kind, "correlation": correlation}
        self._waits.add(rows["start"][waits], **{n: c[waits] for n, c in columns.items()})

    def intern(self, text: str) -> int:
        """Index of a name; names also reveal the framework."""
        self.texts.add(text)
        return self.builder.intern(text)

    def threads(self, process: NDArray[np.int64], thread: NDArray[np.int64]) -> NDArray[np.int64]:
        """Tracks of host threads by process id and thread id; (rows,)."""

        def make(pid: int, tid: int) -> int:
            name = f"thread {tid}" if tid >= 0 else "unknown thread"
            return self.builder.track(Role.HOST_THREAD, name, process=pid, thread=tid)

        return each(make, known(process), known(thread))

    def streams(
        self, process: NDArray[np.int64], device: NDArray[np.int64], stream: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Tracks of streams by process id, row of the device and stream id; (rows,)."""

        def make(pid: int, row: int, number: int) -> int:
            name = f"stream {number}" if number >= 0 else "unknown stream"
            return self.builder.track(Role.STREAM, name, process=pid, thread=number, device=row)

        return each(make, known(process), device, known(stream))

    def names(self, ids: NDArray[np.int64], name: Callable[[int], str]) -> NDArray[np.int64]:
        """Interned names of ids; (rows,)."""
        return each(lambda i: self.intern(name(i)), ids)

    def add(self, rows: Rows, **columns: NDArray[np.int64] | Sequence[int] | int) -> None:
        """Add a slice for every row.

        Args:
            rows: Rows with the columns `TIMES`, all usable.
            columns: Columns of the slices: one value per row, or one for all.
        """
        duration = rows["end"] - rows["start"]
        self._slices.add({**columns, "start_ns": rows["start"], "dur_ns": duration})
        self.health.events_kept += len(rows)

    def add_calls(
        self,
        rows: Rows,
        ids: NDArray[np.int64],
        names: Mapping[int, str],
        **columns: NDArray[np.int64],
    ) -> None:
        """Add calls of the device API.

        Args:
            rows: The calls.
            ids: The function that each call is of; (rows,).
            names: Names of the functions.
            columns: Track and correlation.
        """
        kind = each(lambda i: int(call_kind(names.get(i, ""))), ids)
        name = self.names(ids, lambda i: names.get(i, "unknown call"))
        self.add(rows, name=name, kind=kind, **columns)

    def add_kernels(
        self,
        rows: Rows,
        ids: Sequence[NDArray[np.int64]],
        name: Callable[..., str],
        **columns: NDArray[np.int64],
    ) -> None:
        """Add kernels.

        Args:
            rows: The kernels.
            ids: Columns that identify the name of each kernel; (rows,) each.
            name: Name of a kernel by its ids.
            columns: Track and correlation.
        """
        self.add(
            rows,
            name=each(lambda *row: self.intern(name(*row)), *ids),
            kind=each(lambda *row: int(kernel_kind(name(*row))), *ids),
            **columns,
        )

    def add_fills(self, rows: Rows, **columns: NDArray[np.int64]) -> None:
        """Add memory fills.

        Args:
            rows: The fills, with the column 'bytes'.
            columns: Track and correlation.
        """
        name, size = self.intern("Memset"), known(rows["bytes"])
        self.add(rows, name=name, kind=int(Kind.MEMSET), bytes=size, **columns)

    def add_copies(
        self,
        rows: Rows,
        directions: NDArray[np.int64],
        is_pageable: Callable[[int], int],
        **columns: NDArray[np.int64],
    ) -> None:
        """Add copies.

        Args:
            rows: The copies, with the columns 'bytes', 'srcKind' and 'dstKind'.
            directions: `Copy` of each; (rows,).
            is_pageable: Whether a kind of memory is pageable; NULL if unknown.
            columns: Track and correlation.
        """
        size = known(rows["bytes"])
        self._has_sizes |= bool((size != NULL).any())
        to_host, to_device = directions == Copy.D2H, directions == Copy.H2D
        host_side = np.where(to_host, rows["dstKind"], rows["srcKind"])
        self.add(
            rows,
            name=self.names(directions, lambda d: COPY_NAMES[Copy(d)]),
            kind=int(Kind.MEMCPY),
            copy=directions,
            pageable=np.where(to_host | to_device, each(is_pageable, host_side), NULL),
            bytes=size,
            **columns,
        )

    def mark_steps(self, slices: NDArray[np.int64], tracks: NDArray[np.int64]) -> None:
        """Turn slices into steps.

        Args:
            slices: Numbers of the slices, in the order in which they were added; (steps,).
            tracks: Tracks of the steps; (steps,).
        """
        self._slices.put("kind", slices, int(Kind.STEP))
        self._slices.put("track", slices, tracks)

    def note(self, note: str) -> None:
        """Add a note for the reader of the report, once."""
        if note not in self.notes:
            self.notes.append(note)

    def __len__(self) -> int:
        """Number of slices so far."""
        return len(self._slices)

    @property
    def kinds(self) -> set[Kind]:
        """Kinds of the slices so far."""
        return set(map(Kind, self._slices.distinct("kind")))

    def meta(self, format_name: str, limit: str, *, device_expected: bool) -> Meta:
        """Facts about the run, when all records are added.

        Args:
            format_name: Name of the format.
            limit: As in `Meta`.
            device_expected: As in `Meta`.
        """
        kinds = self.kinds
        signals = {name for name, own in _SIGNALS.items() if own & kinds}
        signals |= {"copy-bytes"} if self._has_sizes else set()
        signals |= {"ranges"} if limit else set()
        return Meta(
            format=format_name,
            framework=framework_of(sorted(self.texts)),
            signals=frozenset(signals),
            device_expected=device_expected,
            notes=tuple(self.notes) if kinds else (f"Nothing is in it: {limit}.",),
            limit=limit,
        )


__all__ = ["ABSENT", "CALL_KINDS", "DEVICE_KINDS", "TIMES", "CudaActivity", "each", "known"]
