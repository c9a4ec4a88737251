"""From Kineto's '[memory]' records to allocations and samples of the allocator's totals.

As with slices, pools and threads are decided at their first sight.
"""

from __future__ import annotations

from itertools import compress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.importers.formats.kineto.arguments import KinetoArgs, args_of, column
from stepwhy.importers.formats.kineto.codes import Codes, first_of, longer
from stepwhy.importers.formats.kineto.numbers_of_sweep import OfSweep
from stepwhy.importers.formats.kineto.places import Places
from stepwhy.importers.formats.kineto.sweep import Records
from stepwhy.importers.shared.chrome_json import Event
from stepwhy.trace import NULL
from stepwhy.trace.builder import count_tracks_together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.formats.kineto.facts import Facts
    from stepwhy.importers.formats.kineto.sweep import Swept
    from stepwhy.importers.formats.kineto.tracks import Tracks
    from stepwhy.trace import TraceBuilder

_THREAD = attrgetter("pid", "tid")
# Arguments, and what stands for those that are not there.
_TOLD = {
    "device_type": 0,
    "device_id": 0,
    "change": 0,
    "address": NULL,
    "allocated": NULL,
    "reserved": NULL,
}
_SAMPLES = ("memory allocated", "memory reserved")
MOST_POOLS = 1 << 10
"""Devices whose memory is told apart; a process numbers its own devices from 0."""
_OTHER_POOLS = (False, "others")


class _Pools(Codes):
    """Numbers memory pools: whether one is the host's, and the number of the device."""

    def __init__(self) -> None:
        super().__init__()
        self.by_number: list[Any] = []
        self.beyond = 0

    def __missing__(self, key: Any) -> int:
        """The next number, or that of all devices beyond the most."""
        is_host, _ = key
        if len(self) >= MOST_POOLS and not is_host:
            self.beyond += 1
            key = _OTHER_POOLS
            if key in self:
                return self[key]
        self.by_number.append(key)
        return super().__missing__(key)


class Changes(msgspec.Struct):
    """Allocations and releases of one batch.

    Args:
        rows: Their rows in the batch; (changes,).
        events: Their records.
        columns: Columns of `allocations`, bytes; (changes,) each.
        pools: Number of every pool; (changes,).
        places: Number of every thread; (changes,).
        totals: What the allocator has handed out and taken from the system; (changes, 2).
        first: Positions at which something is seen for the first time, ascending.
    """

    rows: NDArray[np.int64]
    events: list[Event[KinetoArgs]] | Records
    columns: dict[str, NDArray[np.int64]]
    pools: NDArray[np.signedinteger[Any]]
    places: NDArray[np.signedinteger[Any]]
    totals: NDArray[np.int64]
    first: list[int]


class Allocations:
    """Hands allocations to the builder.

    Args:
        builder: Takes them.
        facts: Learns that there are some.
        tracks: Adds the threads that they lie on.
    """

    def __init__(self, builder: TraceBuilder, facts: Facts, tracks: Tracks) -> None:
        self._builder, self._facts, self._tracks = builder, facts, tracks
        self._pools, self._places = _Pools(), Places()
        self._of_sweep = OfSweep()
        # String of every pool and track of every place, by their numbers.
        self._names = np.empty(0, dtype=np.int32)
        self._rows = np.empty(0, dtype=np.int32)
        self._sampled = [False, False]

    def group(self, events: list[Event[KinetoArgs]], rows: NDArray[np.int64]) -> Changes:
        """Number pools and threads of records; `meet` those at its `first` before `add`.

        Args:
            events: The records of a batch.
            rows: Those that are allocations or releases; only newer traces carry totals.
        """
        chosen = [events[i] for i in rows.tolist()]
        args = list(map(args_of, chosen))
        told = {name: column(args, name, default) for name, default in _TOLD.items()}
        rows, told, chosen = self._with_sizes(rows, told, chosen)
        return self._grouped(rows, chosen, told, self._places.of(map(_THREAD, chosen), len(rows)))

    def group_swept(self, swept: Swept, rows: NDArray[np.int64]) -> Changes:
        """As `group`, for those records of a sweep that have times."""
        said = swept.said
        rows, told, _ = self._with_sizes(rows, {n: c[rows] for n, c in swept.changes.items()}, [])
        records = Records(swept.data, told["offset"], told["length"], Event[KinetoArgs])
        numbers = self._of_sweep.numbers(
            said, "thread", told["thread"], self._places.of, said.threads_of
        )
        return self._grouped(rows, records, told, numbers)

    def _grouped(
        self,
        rows: NDArray[np.int64],
        events: list[Event[KinetoArgs]] | Records,
        told: dict[str, NDArray[np.int64]],
        places: NDArray[np.signedinteger[Any]],
    ) -> Changes:
        host = told["device_type"] == 0
        pool = np.where(host, NULL, told["device_id"])
        pools = self._pools.of(zip(host.tolist(), pool.tolist(), strict=True), len(rows))
        # On the host it counts from the start of the profiler.
        totals = np.stack([told["allocated"], told["reserved"]], axis=1)
        totals = np.where(host[:, np.newaxis], NULL, totals)
        first = {*first_of(pools, len(self._names)), *first_of(places, len(self._rows))}
        first.update(self._first_samples(totals))
        self._names = longer(self._names, len(self._pools))
        self._rows = longer(self._rows, len(self._places))
        columns = {
            "host": host.astype(np.int64),
            "change": told["change"],
            "block": told["address"],
        }
        return Changes(rows, events, columns, pools, places, totals, sorted(first))

    def _with_sizes(
        self, rows: NDArray[np.int64], told: dict[str, NDArray[np.int64]], events: list[Any]
    ) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]], list[Any]]:
        untold = (told["allocated"] == NULL) | (told["device_type"] == 0)
        sized = (told["change"] != 0) | ~untold
        self._builder.health.count(
            "allocation-without-size",
            "info",
            "Allocations that say neither their size nor the allocator's total.",
            count=int((~sized).sum()),
            dropped=True,
        )
        kept = {name: values[sized] for name, values in told.items()}
        return rows[sized], kept, list(compress(events, sized.tolist()))

    def finish(self) -> None:
        """Count what was not told apart."""
        self._builder.health.count(
            "pools-together",
            "warning",
            f"The memory of devices beyond the first {MOST_POOLS:,} counts as that of one device.",
            count=self._pools.beyond,
            dropped=False,
        )
        count_tracks_together(self._builder.health, self._places.count_beyond())

    def _first_samples(self, totals: NDArray[np.int64]) -> list[int]:
        """Where either total is told for the first time."""
        return [
            int(told[0])
            for told, known in zip(
                map(np.flatnonzero, (totals != NULL).T), self._sampled, strict=True
            )
            if len(told) and not known
        ]

    def meet(self, group: Changes, position: int) -> None:
        """Add the pool, the thread and the names of the samples of the record at a position."""
        pool, place = group.pools[position], group.places[position]
        host, number = self._pools.by_number[pool]
        # The allocator numbers devices on its own (0 where activity rows say 2).
        if self._names[pool] == NULL:
            name = "CPU" if host else f"GPU:{number}"
            self._names[pool] = self._builder.intern(name)
        if self._rows[place] == NULL:
            self._rows[place] = self._row_of(int(place), group.events[position])
        for kind, value in enumerate(group.totals[position].tolist()):
            if value != NULL:
                self._builder.intern(_SAMPLES[kind])
                self._sampled[kind] = True

    def _row_of(self, place: int, event: Event[KinetoArgs]) -> int:
        shared = self._places.shared.get(place)
        return self._tracks.thread(event) if shared is None else self._tracks.shared(shared, event)

    def add(self, group: Changes, time_ns: NDArray[np.int64]) -> None:
        """Add allocations and samples.

        Args:
            group: The allocations.
            time_ns: Their times; (changes,).
        """
        if not len(group.rows):
            return
        self._facts.memory = True
        told = {"total": group.totals[:, 0], "reserved": group.totals[:, 1]}
        place = {"pool": self._names[group.pools], "track": self._rows[group.places]}
        self._builder.rows_from(
            "allocations", {"time_ns": time_ns, **place, **group.columns, **told}
        )
        known = group.totals != NULL
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
                    "value": group.totals[known],
                },
            )
        self._builder.health.events_kept += len(group.rows)
