"""The op table: where time goes by name, device and phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.activity.devices import MOST_DEVICES
from stepwhy.base.columns.groups import group_rows, rows_by_group
from stepwhy.base.columns.strings import texts_at
from stepwhy.base.columns.sums import counts_of, sums_of
from stepwhy.trace import NULL, Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.base.columns.nesting import Nesting
    from stepwhy.trace import Trace

    Ints = NDArray[np.int64]

_LISTED = (Kind.OP, Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET, Kind.INPUT, Kind.SYNC)
# If the breakdown explains nothing, the table shows the waits and their times.
_LISTED_OF_LIMITED = (Kind.WAIT, Kind.OTHER)
_RANGES = (Kind.ANNOTATION, Kind.PYTHON)


class OpRow(msgspec.Struct, frozen=True):
    """One operation over the steady steps; sums, not means.

    Args:
        name: Op or kernel name.
        device: Device that ran it; 'host' for calls on host threads.
        phase: Phase.
        kind: What it is.
        count: Number of slices.
        total_ns: Sum of durations.
        self_ns: Sum of durations not spent in children.
        bytes: Bytes moved or produced, None if not recorded.
    """

    name: str
    device: str
    phase: Phase
    kind: Kind
    count: int
    total_ns: int
    self_ns: int
    bytes: int | None


class OpTable(msgspec.Struct, frozen=True):
    """All operations over the steady steps: slices of the same name, device, phase and kind.

    There may be as many as there are names, so rows are created only for the largest.

    Args:
        trace: The trace.
        name, device, phase, kind: What slices of an operation have in common; `device` is NULL on
            host threads; (operations,).
        count: Number of slices; (operations,).
        total_ns: Sum of durations; (operations,).
        self_ns: Sum of durations not spent in children; (operations,).
        bytes: Sum of the recorded sizes, NULL if there are none; (operations,).
    """

    trace: Trace
    name: Ints
    device: Ints
    phase: Ints
    kind: Ints
    count: Ints
    total_ns: Ints
    self_ns: Ints
    bytes: Ints

    def __len__(self) -> int:
        """Number of operations."""
        return len(self.name)

    def largest(self, most: int) -> list[OpRow]:
        """Return the operations with the largest self time, largest first, then by name.

        Args:
            most: Number of operations per device name, at most.
        """
        if not len(self):
            return []
        # Devices of the same name are listed together; -1 is the host.
        labels = np.append(self.trace.devices.name, NULL)[self.device]
        first, label = group_rows(labels)
        by_device = rows_by_group(label, len(first))[1][:MOST_DEVICES]
        rows = [row for ops in by_device for row in self._largest(ops, most)]
        return sorted(rows, key=lambda row: (-row.self_ns, row.name))

    def _largest(self, ops: NDArray[np.int32], most: int) -> list[OpRow]:
        if len(ops) > most:
            self_ns = self.self_ns[ops]
            ops = ops[self_ns >= np.partition(self_ns, -most)[-most]]
        names = texts_at(self.trace.strings, self.name[ops])
        keys = (column[ops] for column in (-self.self_ns, self.device, self.phase, self.kind))
        own_ns, *others = (key.tolist() for key in keys)
        order = sorted(zip(own_ns, names, *others, ops.tolist(), strict=True))
        return [self._row(op, name) for _, name, *_, op in order[:most]]

    def _row(self, op: int, name: str) -> OpRow:
        device, size = int(self.device[op]), int(self.bytes[op])
        return OpRow(
            name,
            "host" if device == NULL else self.trace.string(int(self.trace.devices.name[device])),
            Phase(self.phase[op]),
            Kind(self.kind[op]),
            int(self.count[op]),
            int(self.total_ns[op]),
            int(self.self_ns[op]),
            None if size == NULL else size,
        )


def op_table(
    trace: Trace, nesting: Nesting, phases: NDArray[np.int8], is_steady: NDArray[np.bool_]
) -> OpTable:
    """Sum up the operations of the steady steps.

    Args:
        trace: The trace.
        nesting: Its call trees.
        phases: Phase of every slice; (slices,).
        is_steady: Mask of the slices that start in a steady step; (slices,).
    """
    slices, tracks = trace.slices, trace.tracks
    limited = _LISTED_OF_LIMITED if trace.meta.limit else ()
    ranges = _RANGES if "ranges" in trace.meta.signals else ()
    kinds = (*_LISTED, *limited, *ranges)
    rows = np.flatnonzero(trace.is_kind(*kinds) & is_steady)
    device_of = np.where(tracks.role == Role.HOST_THREAD, NULL, tracks.device)
    first, op = group_rows(
        slices.name[rows], device_of[slices.track[rows]], phases[rows], slices.kind[rows]
    )

    def summed(values: Ints) -> Ints:
        return sums_of(values, op, len(first))

    like = rows[first]
    keys = slices.name[like], device_of[slices.track[like]], phases[like], slices.kind[like]
    name, device, phase, kind = (key.astype(np.int64) for key in keys)
    count = counts_of(op, len(first))
    total_ns, self_ns = summed(slices.dur_ns[rows]), summed(nesting.self_ns(rows))
    sizes = _known_sums(slices.bytes[rows], op, len(first))
    return OpTable(trace, name, device, phase, kind, count, total_ns, self_ns, sizes)


def _known_sums(sizes: Ints, op: NDArray[np.int32], count: int) -> Ints:
    """Sums of the recorded sizes per operation, NULL if there are none; (count,)."""
    sums = sums_of(sizes, op, count, where=sizes > 0)
    sums[sums_of(sizes != NULL, op, count) == 0] = NULL
    return sums
