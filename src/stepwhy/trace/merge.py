"""Joins the traces of several profiler windows of one process."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.groups import group_rows
from stepwhy.base.columns.interning import Interner
from stepwhy.base.columns.null import NULL
from stepwhy.trace.health import Health
from stepwhy.trace.integrity import check
from stepwhy.trace.model import Columns, Meta, Trace
from stepwhy.trace.ordering import order_all
from stepwhy.trace.schema import TABLES, Table, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_SHARED: dict[Table, tuple[str, ...]] = {
    # Rows that are equal in these columns are one row of the joined table.
    "devices": ("name",),
    "tracks": ("role", "process", "thread", "device", "name"),
    "nodes": ("name", "requested", "actual"),
}
_STRINGS_AT_ONCE = 1 << 12


def concatenate(traces: Sequence[Trace]) -> Trace:
    """Join windows of one process, recorded on one clock.

    Strings, devices, tracks and graph nodes are shared; all other rows are put one after the other
    and ordered again.

    Args:
        traces: At least one trace; `meta` is that of the first, with the signals and notes of all.

    Raises:
        ValueError: No traces, or the result breaks an invariant of the schema.
    """
    if not traces:
        raise ValueError("nothing to concatenate")
    if len(traces) == 1:
        return traces[0]
    strings = Interner()
    texts = [_string_map(strings, t) for t in traces]
    rows: dict[Table, list[NDArray[np.int64]]] = {}
    tables: dict[Table, Columns] = {}
    for table in TABLES:
        parts = [_moved(t, table, texts[i], rows, i) for i, t in enumerate(traces)]
        tables[table], rows[table] = _join(table, parts)
    order_all(tables)
    trace = Trace(
        strings=strings.strings(),
        meta=_meta(traces),
        health=_health(traces),
        **{str(name): columns for name, columns in tables.items()},
    )
    check(trace)
    return trace


def _string_map(strings: Interner, trace: Trace) -> NDArray[np.int32]:
    """New index of every string of a trace, with the null at the end (index -1)."""
    parts = chunks(len(trace.strings), _STRINGS_AT_ONCE)
    numbers = [strings.numbers(trace.strings[part]) for part in parts]
    return np.concatenate([*numbers, np.full(1, NULL, dtype=np.int32)])


def _moved(
    trace: Trace,
    table: Table,
    text: NDArray[np.int32],
    rows: dict[Table, list[NDArray[np.int64]]],
    index: int,
) -> dict[str, NDArray[Any]]:
    """The columns of one part, with references pointing into the joined tables."""
    moved = {}
    for column in columns_of(table):
        values = getattr(trace.table(table), column.name)
        if column.unit == "string":
            values = text[values]
        elif column.unit.startswith("row of "):
            target: Table = column.unit.removeprefix("row of ")  # type: ignore[assignment]
            values = np.append(rows[target][index], NULL)[values]
        moved[column.name] = values.astype(column.dtype)
    return moved


def _join(
    table: Table, parts: list[dict[str, NDArray[Any]]]
) -> tuple[Columns, list[NDArray[np.int64]]]:
    """The joined columns, and the new row of each row of every part."""
    joined = {c.name: np.concatenate([p[c.name] for p in parts]) for c in columns_of(table)}
    lengths: list[int] = [len(next(iter(p.values()))) for p in parts]
    places = np.arange(len(next(iter(joined.values()))), dtype=np.int64)
    if table in _SHARED and len(places):
        kept, group = group_rows(*(joined[name] for name in _SHARED[table]))
        places = group.astype(np.int64)
        joined = {name: values[kept] for name, values in joined.items()}
    bounds: list[int] = np.cumsum([0, *lengths]).tolist()
    return Columns(**joined), [places[a:b] for a, b in pairwise(bounds)]


def _meta(traces: Sequence[Trace]) -> Meta:
    first = traces[0].meta
    is_expected = any(t.meta.device_expected for t in traces)
    idle = next(filter(None, (t.meta.idle_accelerator for t in traces)), "")
    return replace(
        first,
        signals=frozenset(s for t in traces for s in t.meta.signals),
        device_expected=is_expected,
        idle_accelerator="" if is_expected else idle,
        notes=tuple(dict.fromkeys(n for t in traces for n in t.meta.notes)),
    )


def _health(traces: Sequence[Trace]) -> Health:
    health = Health(
        sum(t.health.events_read for t in traces), sum(t.health.events_kept for t in traces)
    )
    for counter in (c for t in traces for c in t.health.counters):
        health.count(
            counter.counter,
            counter.severity,
            counter.help,
            count=counter.count,
            dropped=counter.dropped,
        )
    return health
