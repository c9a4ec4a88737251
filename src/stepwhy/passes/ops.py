"""The op table: where time goes by name, device and phase."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.passes.sums import LARGEST
from stepwhy.trace import NULL, Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.passes.nesting import Nesting
    from stepwhy.passes.steps import StepTable
    from stepwhy.trace import Trace

_LISTED = (Kind.OP, Kind.KERNEL, Kind.COLLECTIVE, Kind.MEMCPY, Kind.MEMSET, Kind.INPUT, Kind.SYNC)
# Where the breakdown explains nothing, the table says how long what was waited for.
_LISTED_OF_LIMITED = (Kind.WAIT, Kind.OTHER)
_RANGES = (Kind.ANNOTATION, Kind.PYTHON)
_HALF_BITS = 31


@dataclass(frozen=True, slots=True)
class OpRow:
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
    trace: Trace, nesting: Nesting, phases: NDArray[np.int8], steps: StepTable
) -> list[OpRow]:
    """Operations in the steady steps, largest self time first."""
    slices = trace.slices
    rows = trace.rows(*_listed(trace))
    rows = rows[steps.in_steady(slices.start_ns[rows])]
    if not len(rows):
        return []
    device = np.where(
        trace.tracks.role[slices.track] == Role.HOST_THREAD, NULL, trace.tracks.device[slices.track]
    )
    unique, inverse = _groups(slices.name[rows], device[rows], phases[rows], slices.kind[rows])
    table = [
        _row(trace, key, sums)
        for key, sums in zip(
            unique.tolist(), _sums(trace, nesting, rows, inverse, len(unique)), strict=True
        )
    ]
    return sorted(table, key=lambda r: (-r.self_ns, r.name))


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
    sizes = tuple(int(c.max()) - low + 1 for c, low in zip(columns, lowest, strict=True))
    moved = [c.astype(np.int64) - low for c, low in zip(columns, lowest, strict=True)]
    keys, inverse = np.unique(np.ravel_multi_index(tuple(moved), sizes), return_inverse=True)
    return np.stack(np.unravel_index(keys, sizes), axis=1) + np.asarray(lowest), inverse


def _sums(
    trace: Trace, nesting: Nesting, rows: NDArray[np.int64], group: NDArray[np.int64], groups: int
) -> list[list[int]]:
    """Count, total, self, bytes and number of known sizes per group."""
    slices = trace.slices
    sizes = slices.bytes[rows]
    values = (
        np.ones(len(rows), dtype=np.int64),
        slices.dur_ns[rows],
        nesting.self_ns[rows],
        np.where(sizes == NULL, 0, sizes),
        (sizes != NULL).astype(np.int64),
    )
    columns = [_exact_sums(value, group, groups) for value in values]
    return [list(row) for row in zip(*columns, strict=True)]


def _exact_sums(values: NDArray[np.int64], group: NDArray[np.int64], groups: int) -> list[int]:
    """Sums per group, at most what 64 bits hold: a damaged file can hold times that sum to more."""
    halves = np.zeros((2, groups), dtype=np.int64)
    np.add.at(halves[0], group, values >> _HALF_BITS)
    np.add.at(halves[1], group, values & ((1 << _HALF_BITS) - 1))
    return [min((high << _HALF_BITS) + low, LARGEST) for high, low in halves.T.tolist()]


def _row(trace: Trace, key: list[int], sums: list[int]) -> OpRow:
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
