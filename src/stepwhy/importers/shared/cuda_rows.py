"""CUDA activity from the tables of a database to the slices of a trace, a table at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.columns.groups import distinct_rows
from stepwhy.importers.shared.chrome_json import LARGEST_NS, count_untimed
from stepwhy.importers.shared.cuda import COPY_NAMES, call_kind, framework_of
from stepwhy.importers.shared.database import ABSENT
from stepwhy.importers.shared.slice_columns import SliceColumns
from stepwhy.trace import NULL, Copy, Kind, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.shared.database import Database, Rows
    from stepwhy.trace import Health, TraceBuilder

TIMES = ("start", "end")

_SIGNALS = {
    "host-ops": {Kind.OP},
    "device-activity": {Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET},
    "runtime-calls": {Kind.LAUNCH, Kind.RUNTIME, Kind.SYNC},
    "input": {Kind.INPUT},
}
# No id and no size comes near; what is above is damage.
_LARGEST = 1 << 62


def each(make: Callable[..., int], *ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """What `make` makes of the ids of a row; it is asked once for every distinct row; (rows,)."""
    rows, group = distinct_rows(*ids)
    made = {row: make(*row) for row in sorted(rows)}  # in an order that the file does not decide
    return np.asarray([made[row] for row in rows], dtype=np.int64)[group]


def known(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Ids and sizes as a trace has them: NULL for what is absent, negative or absurd."""
    result: NDArray[np.int64] = np.where((values < 0) | (values >= _LARGEST), NULL, values)
    return result


class CudaRows:
    """Takes the rows of a database and hands slices to the builder; every row read is counted.

    Args:
        database: Where the rows are.
        builder: Takes devices, tracks and slices.

    Attributes:
        texts: Names so far.
        notes: What the reader of the trace has to know.
    """

    def __init__(self, database: Database, builder: TraceBuilder) -> None:
        self.database = database
        self.builder = builder
        self.texts: set[str] = set()
        self.notes: list[str] = []
        self._knows_sizes = False
        self._slices = SliceColumns()

    def hand_over(self) -> None:
        """Hand the slices over; nothing else appends slices before."""
        self._slices.hand_over(self.builder)

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
        """Rows of a table of records, as `Database.read` has them, counted as read."""
        rows = self.database.read(table, ints, texts, blobs)
        self.health.events_read += len(rows)
        return rows

    def pieces(self, table: str, ints: Sequence[str], *, on_device: bool = False) -> Iterator[Rows]:
        """Rows of a table of records that have a time, some at a time; all are counted.

        Args:
            table: The table.
            ints: Columns of integers, with `TIMES`.
            on_device: As of `timed`.
        """
        for rows in self.records(table, ints):
            yield self.timed(rows, on_device=on_device)

    def records(self, table: str, ints: Sequence[str], texts: Sequence[str] = ()) -> Iterator[Rows]:
        """As `read`, some rows at a time."""
        for rows in self.database.pieces(table, ints, texts):
            self.health.events_read += len(rows)
            yield rows

    def timed(self, rows: Rows, *, on_device: bool = False) -> Rows:
        """Those of the rows that have a start and no earlier end; the others are counted.

        Args:
            rows: Rows with the columns `TIMES`.
            on_device: Whether the device's clock wrote them: it writes two zeros where it failed.
        """
        start, end = rows["start"], rows["end"]
        usable = (start > -LARGEST_NS) & (start <= end) & (end < LARGEST_NS)
        if on_device:
            usable &= (start != 0) | (end != 0)
        count_untimed(self.health, int((~usable).sum()))
        return rows.where(usable)

    def leave_out(self, table: str, counter: str, text: str) -> None:
        """Count the records of a table that says nothing a trace has a place for."""
        count = self.database.count(table)
        self.health.events_read += count
        self.health.count(counter, "info", text, count=count, dropped=True)

    def intern(self, text: str) -> int:
        """Index of a name, which tells of the framework, too."""
        self.texts.add(text)
        return self.builder.intern(text)

    def framework(self) -> str:
        """The framework that the names so far tell of, or ''."""
        return framework_of(sorted(self.texts))

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
        """Interned names by their ids; (rows,)."""
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
            ids: Which call each is; (rows,).
            names: The names of the ids.
            columns: Track and correlation.
        """
        kind = each(lambda i: int(call_kind(names.get(i, ""))), ids)
        name = self.names(ids, lambda i: names.get(i, "unknown call"))
        self.add(rows, name=name, kind=kind, **columns)

    def add_copies(
        self,
        rows: Rows,
        directions: NDArray[np.int64],
        pageable: NDArray[np.int64],
        **columns: NDArray[np.int64],
    ) -> None:
        """Add copies.

        Args:
            rows: The copies, with the column 'bytes'.
            directions: Their `Copy`.
            pageable: Whether the host side is pageable memory, NULL where it is not recorded.
            columns: Track and correlation.
        """
        size = known(rows["bytes"])
        self._knows_sizes |= bool((size != NULL).any())
        self.add(
            rows,
            name=self.names(directions, lambda d: COPY_NAMES[Copy(d)]),
            kind=int(Kind.MEMCPY),
            copy=directions,
            pageable=pageable,
            bytes=size,
            **columns,
        )

    def mark_steps(self, places: NDArray[np.int64], tracks: NDArray[np.int64]) -> None:
        """Make steps of slices that were added as something else.

        Args:
            places: Which slices, by their number at the time; (steps,).
            tracks: Tracks of the steps; (steps,).
        """
        self._slices.put("kind", places, int(Kind.STEP))
        self._slices.put("track", places, tracks)

    def note(self, note: str) -> None:
        """Tell the reader of the trace something, once."""
        if note not in self.notes:
            self.notes.append(note)

    def __len__(self) -> int:
        """Number of slices so far."""
        return len(self._slices)

    @property
    def kinds(self) -> set[Kind]:
        """Kinds of the slices so far."""
        return set(map(Kind, self._slices.distinct("kind")))

    def signals(self) -> frozenset[str]:
        """What the profiler saw, as `Meta.signals` has it."""
        held = self.kinds
        seen = {name for name, kinds in _SIGNALS.items() if kinds & held}
        return frozenset(seen | {"copy-bytes"} if self._knows_sizes else seen)


__all__ = ["ABSENT", "TIMES", "CudaRows", "each", "known"]
