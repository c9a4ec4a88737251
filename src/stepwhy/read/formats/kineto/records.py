"""Rows of a trace from Kineto records."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from stepwhy.read.formats.kineto.allocations import AllocationBatch, Allocations
from stepwhy.read.formats.kineto.facts import Facts
from stepwhy.read.formats.kineto.slices import SliceBatch, Slices
from stepwhy.read.formats.kineto.sweep import SweptRecords
from stepwhy.read.formats.kineto.tracks import Tracks
from stepwhy.read.shared.chrome_json import SLICE, count_untimed, usable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.kineto.arguments import KinetoArgs
    from stepwhy.read.formats.kineto.plain import PlainDocument
    from stepwhy.read.shared.chrome_json import Batch, Document, Event
    from stepwhy.trace import Health, TraceBuilder

# Arrows from a launch to its device work, in newer and older traces.
_LAUNCH_ARROWS = frozenset({"ac2g", "async_gpu"})
_INSTANTS = (ord("i"), ord("I"))
_ARROWS = tuple(map(ord, "stf"))
_METADATA = ord("M")


def add_records(
    builder: TraceBuilder,
    document: Document[KinetoArgs] | PlainDocument,
    offset_ns: int,
    model: str,
) -> Facts:
    """Add every record to the builder, or count it with the reason why it was left out.

    Args:
        builder: Receives devices, tracks, slices and counters.
        document: The file's records.
        offset_ns: Clock offset of the file (`baseTimeNanoseconds`).
        model: Model name of the accelerators, '' when not recorded.
    """
    rows = _Rows(builder, offset_ns, model)
    for batch in document:
        if isinstance(batch, SweptRecords):
            rows.add_swept(batch)
        else:
            rows.add(batch)
    rows.slices.finish()
    rows.allocations.finish()
    _count_left_out(builder.health, rows)
    rows.facts.complete = document.complete
    return rows.facts


class _Rows:
    """Adds records to the tables they belong to, and counts the others."""

    def __init__(self, builder: TraceBuilder, offset_ns: int, model: str) -> None:
        self.facts = Facts()
        self.offset_ns = offset_ns
        tracks = Tracks(builder, self.facts, model)
        self.slices = Slices(builder, self.facts, tracks)
        self.allocations = Allocations(builder, self.facts, tracks)
        self.untimed = self.arrows = self.metadata = self.others = 0

    def add(self, batch: Batch[KinetoArgs]) -> None:
        """Add the records of a batch."""
        is_slice = batch.phase == SLICE
        start_ns = batch.start_ns + self.offset_ns
        rows = np.flatnonzero(is_slice & batch.timed & ~_is_unset(batch.start_ns, batch.dur_ns))
        self.facts.slices |= bool(is_slice.any())
        self.untimed += int(is_slice.sum()) - len(rows)
        slices = self.slices.number(_select(batch.events, rows))
        instants = np.flatnonzero(np.isin(batch.phase, _INSTANTS) & batch.timed)
        named = [batch.events[i].name == "[memory]" for i in instants.tolist()]
        memory: NDArray[np.int64] = instants[np.asarray(named, dtype=bool)]
        changes = self.allocations.number(batch.events, memory) if len(memory) else None
        self._resolve(slices, rows, changes, np.arange(len(batch.events)))
        self.slices.add(slices, start_ns[rows], batch.dur_ns[rows])
        if changes is not None:
            self.allocations.add(changes, start_ns[changes.rows])
        is_slice[memory] = True
        self._count(batch, np.flatnonzero(~is_slice))

    def add_swept(self, swept: SweptRecords) -> None:
        """Add the records of a sweep."""
        columns, memory_columns = swept.slices, swept.changes
        timed = usable(columns["start_ns"], columns["dur_ns"])
        timed &= ~_is_unset(columns["start_ns"], columns["dur_ns"])
        rows = np.flatnonzero(timed)
        self.facts.slices |= len(timed) > 0
        self.untimed += len(timed) - len(rows)
        slices = self.slices.number_swept(swept, rows)
        time_ns = memory_columns["time_ns"]
        memory = np.flatnonzero(usable(time_ns, np.int64(0)))
        changes = self.allocations.number_swept(swept, memory) if len(memory) else None
        self._resolve(slices, columns["offset"][rows], changes, memory_columns["offset"])
        self.slices.add(slices, columns["start_ns"][rows] + self.offset_ns, columns["dur_ns"][rows])
        if changes is not None:
            self.allocations.add(changes, time_ns[changes.rows] + self.offset_ns)
        self.arrows += swept.arrows
        self.metadata += swept.metadata
        self.others += swept.others + len(time_ns) - len(memory)
        self.facts.device_rows |= swept.hint

    def _resolve(
        self,
        slices: SliceBatch,
        slice_offsets: NDArray[np.int64],
        changes: AllocationBatch | None,
        change_offsets: NDArray[np.int64],
    ) -> None:
        """Resolve new codes of slices and allocations in the order of the file.

        Args:
            slices: Numbered slices.
            slice_offsets: Position of each slice in the file; (slices,).
            changes: Numbered allocations.
            change_offsets: Position in the file of each row that `changes.rows` refers to.
        """
        if changes is None:
            self.slices.resolve_all(slices)
            return
        calls = [
            (int(slice_offsets[i]), partial(self.slices.resolve, slices, i))
            for i in slices.unresolved
        ]
        calls += [
            (int(change_offsets[changes.rows[i]]), partial(self.allocations.resolve, changes, i))
            for i in changes.unresolved
        ]
        for _, resolve in sorted(calls, key=itemgetter(0)):
            resolve()

    def _count(self, batch: Batch[KinetoArgs], rows: NDArray[np.int64]) -> None:
        phases = batch.phase[rows]
        arrows = int(np.isin(phases, _ARROWS).sum())
        metadata = int((phases == _METADATA).sum())
        self.arrows += arrows
        self.metadata += metadata
        self.others += len(rows) - arrows - metadata
        if not self.facts.device_rows:
            self.facts.device_rows = any(map(_hints_at_device, _select(batch.events, rows)))


def _is_unset(start_ns: NDArray[np.int64], dur_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether start and duration are 0: device work without a time from the driver; (records,)."""
    unset: NDArray[np.bool_] = (start_ns == 0) & (dur_ns == 0)
    return unset


def _select(events: list[Event[KinetoArgs]], rows: NDArray[np.int64]) -> list[Event[KinetoArgs]]:
    return events if len(rows) == len(events) else [events[i] for i in rows.tolist()]


def _hints_at_device(event: Event[KinetoArgs]) -> bool:
    """Whether a record proves an accelerator even where its device work is missing."""
    if event.ph == "M":
        name = event.args.name if event.args and event.name == "thread_name" else None
        return isinstance(name, str) and name.startswith("stream ")
    return event.cat in _LAUNCH_ARROWS


def _count_left_out(health: Health, rows: _Rows) -> None:
    count_untimed(health, rows.untimed)
    health.count(
        "flow-arrow",
        "info",
        "Flow arrows; correlation ids hold the same information.",
        count=rows.arrows,
        dropped=True,
    )
    health.count(
        "metadata-record",
        "info",
        "Names of processes and threads.",
        count=rows.metadata,
        dropped=True,
    )
    health.count(
        "other-record",
        "info",
        "Instants and records of kinds that carry no time.",
        count=rows.others,
        dropped=True,
    )
    health.count(
        "profiler-range",
        "warning",
        "Kernels were recorded by the range profiler, which runs them one by one: their times "
        "say nothing about a normal run. Record again without performance counters.",
        count=rows.facts.profiler_ranges,
        dropped=True,
    )
