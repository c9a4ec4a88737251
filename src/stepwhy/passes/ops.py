"""The op table: where time goes by name, device and phase."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.passes.grouping import numbered
from stepwhy.passes.sums import LARGEST, sums_of
from stepwhy.trace import NULL, Kind, Phase, Role

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


def op_table(
    trace: Trace, nesting: Nesting, phases: NDArray[np.int8], is_steady: NDArray[np.bool_]
) -> list[OpRow]:
    """Operations in the steady steps, largest self time first.

    Args:
        trace: The trace.
        nesting: Its call trees.
        phases: Phase of every slice; (slices,).
        is_steady: Whether each slice starts in a steady step; (slices,).
    """
    rows = np.flatnonzero(trace.is_kind(*_listed(trace)) & is_steady)
    sums: dict[tuple[int, ...], list[int]] = {}
    for first in range(0, len(rows), _PIECE):
        piece = rows[first : first + _PIECE]
        keys, group = _keys(trace, phases, piece)
        parts = zip(keys.tolist(), _sums(trace, nesting, piece, group, len(keys)), strict=True)
        for key, part in parts:
            known = sums.get(tuple(key), [0] * len(part))
            sums[tuple(key)] = [min(a + b, LARGEST) for a, b in zip(known, part, strict=True)]
    table = [_row(trace, key, sums[key]) for key in sorted(sums)]
    return sorted(table, key=lambda r: (-r.self_ns, r.name))


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
) -> list[list[int]]:
    """Count, total, self, bytes and number of known sizes per group."""
    sizes = trace.slices.bytes[rows]
    known = np.flatnonzero(sizes != NULL)
    sizes = sizes[known]
    columns = (
        np.bincount(group, minlength=groups).tolist(),
        sums_of(trace.slices.dur_ns[rows], group, groups),
        sums_of(nesting.self_ns[rows], group, groups),
        sums_of(sizes, group[known], groups),
        np.bincount(group[known], minlength=groups).tolist(),
    )
    return [list(row) for row in zip(*columns, strict=True)]


def _row(trace: Trace, key: tuple[int, ...], sums: list[int]) -> OpRow:
    name, device, phase, kind = key
    count, total_ns, self_ns, size, sized = sums
    where = "host" if device == NULL else trace.string(int(trace.devices.name[device]))
    return OpRow(
        trace.string(name),
        where,
        Phase(phase),
        Kind(kind),
        count,
        total_ns,
        self_ns,
        size if sized else None,
    )
