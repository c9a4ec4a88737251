"""The op table: where time goes by name, device and phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.passes.grouping import distinct, numbered
from stepwhy.passes.sums import sums_of
from stepwhy.trace import NULL, Kind, Phase, Role, among

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.nesting import Nesting
    from stepwhy.trace import Trace

_LISTED = (Kind.OP, Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET, Kind.INPUT, Kind.SYNC)
# Where the breakdown explains nothing, the table says how long what was waited for.
_LISTED_OF_LIMITED = (Kind.WAIT, Kind.OTHER)
_RANGES = (Kind.ANNOTATION, Kind.PYTHON)
# Operations that are added up at a time.
_PIECE = 1 << 17


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
        bytes: Bytes moved or produced, None when not recorded.
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
    """All operations over the steady steps, of which there may be as many as names.

    Args:
        trace: The trace.
        keys: Name, device, phase and kind of each; (operations, 4).
        sums: Count, total, self, bytes and number of known sizes of each; (5, operations).
    """

    trace: Trace
    keys: NDArray[np.int64]
    sums: NDArray[np.int64]

    def __len__(self) -> int:
        """How many operations there are."""
        return len(self.keys)

    def largest(self, most: int) -> list[OpRow]:
        """The operations with the largest self time, largest first.

        Args:
            most: How many of each device, at most.
        """
        found = [row for devices in self._devices() for row in self._largest_on(devices, most)]
        return sorted(found, key=_by_self_time)

    def _devices(self) -> list[list[int]]:
        """Rows of `devices`, or NULL, that have one name."""
        by_name: dict[str, list[int]] = {}
        for device in distinct(self.keys[:, 1]).tolist():
            by_name.setdefault(_device_name(self.trace, device), []).append(device)
        return list(by_name.values())

    def _largest_on(self, devices: list[int], most: int) -> list[OpRow]:
        places = np.flatnonzero(among(self.keys[:, 1], devices))
        self_ns = self.sums[2, places]
        if len(places) > most:
            places = places[self_ns >= np.partition(self_ns, -most)[-most]]
        rows = zip(self.keys[places].tolist(), self.sums[:, places].T.tolist(), strict=True)
        return sorted((_row(self.trace, *row) for row in rows), key=_by_self_time)[:most]


def _by_self_time(row: OpRow) -> tuple[int, str]:
    return -row.self_ns, row.name


def op_table(
    trace: Trace, nesting: Nesting, phases: NDArray[np.int8], is_steady: NDArray[np.bool_]
) -> OpTable:
    """Operations in the steady steps.

    Args:
        trace: The trace.
        nesting: Its call trees.
        phases: Phase of every slice; (slices,).
        is_steady: Whether each slice starts in a steady step; (slices,).
    """
    rows = np.flatnonzero(trace.is_kind(*_listed(trace)) & is_steady)
    keys, sums = [np.empty((0, 4), dtype=np.int64)], [np.empty((5, 0), dtype=np.int64)]
    for first in range(0, len(rows), _PIECE):
        piece = rows[first : first + _PIECE]
        found, group = _keys(trace, phases, piece)
        keys.append(found)
        sums.append(_sums(trace, nesting, piece, group, len(found)))
    return OpTable(trace, *_united(np.concatenate(keys), np.hstack(sums)))


def _united(
    keys: NDArray[np.int64], sums: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Operations that stand there several times, added up."""
    if not len(keys):
        return keys, sums
    one_each, group = _groups(*keys.T)
    added = [sums_of(column, group, len(one_each)) for column in sums]
    return one_each, np.array(added, dtype=np.int64)


def _keys(
    trace: Trace, phases: NDArray[np.int8], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Name, device, phase and kind of operations, as `_groups` does."""
    slices, tracks = trace.slices, trace.tracks
    device = np.where(tracks.role == Role.HOST_THREAD, NULL, tracks.device)[slices.track[rows]]
    return _groups(slices.name[rows], device, phases[rows], slices.kind[rows])


def _listed(trace: Trace) -> tuple[Kind, ...]:
    """What counts as an operation in this trace."""
    limited = _LISTED_OF_LIMITED if trace.meta.limit else ()
    ranges = _RANGES if "ranges" in trace.meta.signals else ()
    return (*_LISTED, *limited, *ranges)


def _groups(*columns: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct rows in ascending order, and which of them each row is; (groups, columns), (rows,).

    Each column is small integers, so that a row of them is one integer.
    """
    lowest = [int(c.min()) for c in columns]
    sizes = [int(c.max()) - low + 1 for c, low in zip(columns, lowest, strict=True)]
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column, low, size in zip(columns, lowest, sizes, strict=True):
        codes *= size
        codes += column
        codes -= low
    keys, group = numbered(codes)
    return np.stack(np.unravel_index(keys, sizes), axis=1) + np.asarray(lowest), group


def _sums(
    trace: Trace, nesting: Nesting, rows: NDArray[np.int64], group: NDArray[np.int64], groups: int
) -> NDArray[np.int64]:
    """Count, total, self, bytes and number of known sizes per group; (5, groups)."""
    sizes = trace.slices.bytes[rows]
    known = np.flatnonzero(sizes != NULL)
    columns = (
        np.bincount(group, minlength=groups),
        sums_of(trace.slices.dur_ns[rows], group, groups),
        sums_of(nesting.self_ns[rows], group, groups),
        sums_of(sizes[known], group[known], groups),
        np.bincount(group[known], minlength=groups),
    )
    return np.array(columns, dtype=np.int64)


def _row(trace: Trace, key: list[int], sums: list[int]) -> OpRow:
    name, device, phase, kind = key
    count, total_ns, self_ns, size, sized = sums
    return OpRow(
        trace.string(name),
        _device_name(trace, device),
        Phase(phase),
        Kind(kind),
        count,
        total_ns,
        self_ns,
        size if sized else None,
    )


def _device_name(trace: Trace, device: int) -> str:
    return "host" if device == NULL else trace.string(int(trace.devices.name[device]))
