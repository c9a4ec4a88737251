"""Checks the invariants of every trace, to detect lost rows and mixed-up columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.narrow import is_constant
from stepwhy.trace.kinds import (
    Copy,
    Dependence,
    DeviceKind,
    FlowKind,
    Kind,
    Phase,
    Role,
    SampleRole,
    WaitKind,
)
from stepwhy.trace.schema import TABLES, columns_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.trace.model import Columns, Trace

_Enum = type[
    Kind | Role | DeviceKind | Copy | Dependence | Phase | FlowKind | SampleRole | WaitKind
]

ENUMS: dict[str, _Enum] = {
    "Kind": Kind,
    "Role": Role,
    "DeviceKind": DeviceKind,
    "Copy": Copy,
    "Dependence": Dependence,
    "Phase": Phase,
    "FlowKind": FlowKind,
    "SampleRole": SampleRole,
    "WaitKind": WaitKind,
}
"""The enumeration that a column's unit names."""


def check(trace: Trace) -> None:
    """Check every invariant of the schema.

    Raises:
        ValueError: With the table, the column and the first offending row.
    """
    for table in TABLES:
        _check_table(trace, table, trace.table(table))
    _check_order(trace)
    health = trace.health
    if health.events_read != health.events_kept + health.dropped:
        raise ValueError(
            f"read {health.events_read} events, but kept {health.events_kept} "
            f"and counted {health.dropped}"
        )


# Differences and sums of two times must fit into 64 bits.
_LARGEST = 2**62 - 1


def check_bounds(trace: Trace) -> None:
    """Check times and sizes of stored traces, whose sums must not overflow.

    Raises:
        ValueError: With the table, the column and the first offending row.
    """
    for table in TABLES:
        columns = trace.table(table)
        for column in columns_of(table):
            if column.unit in {"ns", "bytes"}:
                low = -1 if column.null == "-1" else -_LARGEST
                low = 0 if column.name == "dur_ns" and not column.null else low
                values = getattr(columns, column.name)
                _check_range(f"{table}.{column.name}", values, low, _LARGEST)


def _check_table(trace: Trace, table: str, columns: Columns) -> None:
    length = len(columns)
    for column in columns_of(table):  # type: ignore[arg-type]
        values = getattr(columns, column.name)
        where = f"{table}.{column.name}"
        if values.shape != (length,) or not _fits(values.dtype, np.dtype(column.dtype)):
            raise ValueError(
                f"{where}: {values.dtype}{values.shape}, expected {column.dtype}({length},)"
            )
        lowest = -1 if column.null == "-1" else 0
        if column.unit == "string":
            _check_range(where, values, lowest, len(trace.strings))
        elif column.unit.startswith("row of "):
            _check_range(
                where, values, lowest, len(getattr(trace, column.unit.removeprefix("row of ")))
            )
        elif column.unit in ENUMS:
            _members(where, values, ENUMS[column.unit])


def _fits(dtype: np.dtype[Any], expected: np.dtype[Any]) -> bool:
    """Whether a column has the type of the schema; integers may be narrower."""
    return dtype == expected or (dtype.kind == expected.kind == "i" and dtype < expected)


def _check_range(where: str, values: NDArray[np.int64], low: int, high: int) -> None:
    if not len(values) or (values.min() >= low and values.max() < high):
        return
    bad = np.flatnonzero((values < low) | (values >= high))
    if len(bad):
        raise ValueError(f"{where}: row {bad[0]} is {values[bad[0]]}, outside [{low}, {high})")


def _members(where: str, values: NDArray[np.int8], enum: _Enum) -> None:
    if not _distinct(values[:1] if is_constant(values) else values) <= set(enum):
        bad = np.flatnonzero(~np.isin(values, [int(m) for m in enum]))
        raise ValueError(f"{where}: row {bad[0]} is {values[bad[0]]}, not a {enum.__name__}")


def _distinct(values: NDArray[np.int8]) -> set[int]:
    """The different values."""
    counts = np.zeros(1 << 8, dtype=np.int64)
    for chunk in chunks(len(values)):
        # `bincount` takes no negative numbers; it needs eight times the memory of the values.
        counts += np.bincount(np.ascontiguousarray(values[chunk]).view(np.uint8), minlength=256)
    return set(np.flatnonzero(counts).astype(np.uint8).view(np.int8).tolist())


def _check_order(trace: Trace) -> None:
    slices = trace.slices
    if len(slices) and (slices.dur_ns < 0).any():
        raise ValueError("slices.dur_ns: negative duration")
    starts, durations = slices.start_ns, slices.dur_ns
    ahead = (starts[1:] > starts[:-1]) | (
        (starts[1:] == starts[:-1]) & (durations[1:] <= durations[:-1])
    )
    if not ahead.all():
        raise ValueError(f"slices: row {int(np.argmin(ahead)) + 1} is out of order")
