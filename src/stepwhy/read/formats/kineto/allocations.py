"""Allocations and samples of the allocator's totals, from Kineto's '[memory]' records.

As with slices, each pool and thread is resolved at its first occurrence in the file.
"""

from __future__ import annotations

from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.read.formats.kineto.arguments import KinetoArgs, args_of, column
from stepwhy.read.formats.kineto.codes import Codes, extended, first_new
from stepwhy.read.formats.kineto.sweep import Records
from stepwhy.read.formats.kineto.sweep_codes import SweepCodes
from stepwhy.read.formats.kineto.track_codes import TrackCodes
from stepwhy.read.shared.chrome_json import Event
from stepwhy.trace import NULL
from stepwhy.trace.builder import count_tracks_together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.kineto.facts import Facts
    from stepwhy.read.formats.kineto.sweep import SweptRecords
    from stepwhy.read.formats.kineto.tracks import Tracks
    from stepwhy.trace import TraceBuilder

_THREAD = attrgetter("pid", "tid")
# Arguments and their defaults.
_ARGUMENTS = {
    "device_type": 0,
    "device_id": 0,
    "change": 0,
    "address": NULL,
    "allocated": NULL,
    "reserved": NULL,
}
_SAMPLES = ("memory allocated", "memory reserved")
MAX_POOLS = 1 << 10
"""Devices with their own pool; a process numbers its devices from 0."""
_OTHER_POOLS = (False, "others")


class _Pools(Codes):
    """Codes of memory pools, keyed by whether it is the host's and the device number."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_by_code: list[Any] = []
        self.beyond = 0

    def __missing__(self, key: Any) -> int:
        """Assign the next code, or the shared one to devices beyond the limit."""
        is_host, _ = key
        if len(self) >= MAX_POOLS and not is_host:
            self.beyond += 1
            key = _OTHER_POOLS
            if key in self:
                return self[key]
        self.keys_by_code.append(key)
        return super().__missing__(key)


class AllocationBatch(msgspec.Struct):
    """Numbered allocations and releases of one batch.

    Args:
        rows: Their rows in the batch; (changes,).
        events: Their records.
        columns: Columns of the table `allocations`, sizes in bytes; (changes,) each.
        pools: Code of every pool; (changes,).
        threads: Code of every thread; (changes,).
        totals: Bytes allocated and reserved in the allocator, NULL where absent; (changes, 2).
        unresolved: Positions at which a code occurs for the first time, ascending.
    """

    rows: NDArray[np.int64]
    events: list[Event[KinetoArgs]] | Records
    columns: dict[str, NDArray[np.int64]]
    pools: NDArray[np.signedinteger[Any]]
    threads: NDArray[np.signedinteger[Any]]
    totals: NDArray[np.int64]
    unresolved: list[int]


class Allocations:
    """Adds allocations and samples of the allocator to a trace.

    Args:
        builder: Receives the rows.
        facts: Notes whether allocations were recorded.
        tracks: Adds the threads of the allocations.
    """

    def __init__(self, builder: TraceBuilder, facts: Facts, tracks: Tracks) -> None:
        self._builder, self._facts, self._tracks = builder, facts, tracks
        self._pools, self._threads = _Pools(), TrackCodes()
        self._sweep_codes = SweepCodes()
        # Name of every pool and track of every thread, by code.
        self._pool_names = np.empty(0, dtype=np.int32)
        self._thread_tracks = np.empty(0, dtype=np.int32)
        self._sampled = [False, False]

    def number(self, events: list[Event[KinetoArgs]], rows: NDArray[np.int64]) -> AllocationBatch:
        """Number pools and threads; `resolve` those at `unresolved` before `add`.

        Args:
            events: The records of a batch.
            rows: The allocations and releases among them; only newer traces record totals.
        """
        chosen = [events[i] for i in rows.tolist()]
        args = list(map(args_of, chosen))
        arguments = {name: column(args, name, default) for name, default in _ARGUMENTS.items()}
        rows, arguments, chosen = self._select_sized(rows, arguments, chosen)
        threads = self._threads.of(map(_THREAD, chosen), len(rows))
        return self._batch(rows, chosen, arguments, threads)

    def number_swept(self, swept: SweptRecords, rows: NDArray[np.int64]) -> AllocationBatch:
        """Number some records of a sweep, as `number` does.

        Args:
            swept: The sweep.
            rows: The records with usable times.
        """
        strings = swept.strings
        columns = {name: values[rows] for name, values in swept.changes.items()}
        rows, columns, _ = self._select_sized(rows, columns, [])
        records = Records(swept.data, columns["offset"], columns["length"], Event[KinetoArgs])
        threads = self._sweep_codes.translate(
            strings, "thread", columns["thread"], self._threads.of, strings.threads_of
        )
        return self._batch(rows, records, columns, threads)

    def _batch(
        self,
        rows: NDArray[np.int64],
        events: list[Event[KinetoArgs]] | Records,
        arguments: dict[str, NDArray[np.int64]],
        threads: NDArray[np.signedinteger[Any]],
    ) -> AllocationBatch:
        host = arguments["device_type"] == 0
        pool = np.where(host, NULL, arguments["device_id"])
        pools = self._pools.of(zip(host.tolist(), pool.tolist(), strict=True), len(rows))
        # Totals of the host count from the start of the profiler only.
        totals = np.stack([arguments["allocated"], arguments["reserved"]], axis=1)
        totals = np.where(host[:, np.newaxis], NULL, totals)
        first = {
            *first_new(pools, len(self._pool_names)),
            *first_new(threads, len(self._thread_tracks)),
            *self._first_samples(totals),
        }
        self._pool_names = extended(self._pool_names, len(self._pools))
        self._thread_tracks = extended(self._thread_tracks, len(self._threads))
        columns = {
            "host": host.astype(np.int64),
            "change": arguments["change"],
            "block": arguments["address"],
        }
        return AllocationBatch(rows, events, columns, pools, threads, totals, sorted(first))

    def _select_sized(
        self, rows: NDArray[np.int64], arguments: dict[str, NDArray[np.int64]], events: list[Any]
    ) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]], list[Any]]:
        """Rows, arguments and records of those that record a size or a total."""
        has_total = (arguments["allocated"] != NULL) & (arguments["device_type"] != 0)
        sized = (arguments["change"] != 0) | has_total
        self._builder.health.count(
            "allocation-without-size",
            "info",
            "Allocations without their size and without the allocator's total.",
            count=int((~sized).sum()),
            dropped=True,
        )
        kept = {name: values[sized] for name, values in arguments.items()}
        return rows[sized], kept, list(compress(events, sized.tolist()))

    def finish(self) -> None:
        """Count pools and threads that share a code."""
        self._builder.health.count(
            "pools-together",
            "warning",
            f"The memory of devices beyond the first {MAX_POOLS:,} counts as that of one device.",
            count=self._pools.beyond,
            dropped=False,
        )
        count_tracks_together(self._builder.health, self._threads.count_beyond())

    def _first_samples(self, totals: NDArray[np.int64]) -> list[int]:
        """Positions at which either total is recorded for the first time."""
        recorded = map(np.flatnonzero, (totals != NULL).T)
        return [
            int(rows[0])
            for rows, known in zip(recorded, self._sampled, strict=True)
            if len(rows) and not known
        ]

    def resolve(self, batch: AllocationBatch, position: int) -> None:
        """Add the pool, the thread and the counter names of one record."""
        pool, thread = batch.pools[position], batch.threads[position]
        host, number = self._pools.keys_by_code[pool]
        # The allocator numbers devices on its own (0 where activity rows say 2).
        if self._pool_names[pool] == NULL:
            name = "CPU" if host else f"GPU:{number}"
            self._pool_names[pool] = self._builder.intern(name)
        if self._thread_tracks[thread] == NULL:
            self._thread_tracks[thread] = self._track_of(int(thread), batch.events[position])
        for kind, value in enumerate(batch.totals[position].tolist()):
            if value != NULL:
                self._builder.intern(_SAMPLES[kind])
                self._sampled[kind] = True

    def _track_of(self, thread: int, event: Event[KinetoArgs]) -> int:
        shared = self._threads.shared.get(thread)
        return self._tracks.thread(event) if shared is None else self._tracks.shared(shared, event)

    def add(self, batch: AllocationBatch, time_ns: NDArray[np.int64]) -> None:
        """Add allocations and samples.

        Args:
            batch: The numbered allocations.
            time_ns: Their times; (changes,).
        """
        if not len(batch.rows):
            return
        self._facts.memory = True
        self._builder.rows_from(
            "allocations",
            {
                "time_ns": time_ns,
                "pool": self._pool_names[batch.pools],
                "track": self._thread_tracks[batch.threads],
                **batch.columns,
                "total": batch.totals[:, 0],
                "reserved": batch.totals[:, 1],
            },
        )
        known = batch.totals != NULL
        sample = np.nonzero(known)
        if len(sample[0]):
            names = np.asarray(
                [self._builder.intern(_SAMPLES[k]) if self._sampled[k] else NULL for k in (0, 1)]
            )
            self._builder.rows_from(
                "counters",
                {
                    "time_ns": time_ns[sample[0]],
                    "name": names[sample[1]],
                    "value": batch.totals[known],
                },
            )
        self._builder.health.events_kept += len(batch.rows)
