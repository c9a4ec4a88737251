"""Splits the trace of a file with several ranks into one trace per rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from stepwhy.base.columns.groups import distinct, numbered, rows_by_group
from stepwhy.base.columns.null import NULL
from stepwhy.trace.model import Columns, Trace
from stepwhy.trace.schema import TABLES, Table, columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyRows

    Owners = NDArray[np.int64]

SIGNAL = "ranks"
"""Signal of `Meta`: every process of the file is a rank, and its id the rank's number."""

# Owners besides the numbers of ranks. A row that refers to rows of two ranks is in no trace.
_NO_RANK, _EVERY_RANK = -2, -1


def split_ranks(trace: Trace) -> list[Trace]:
    """The traces of all ranks, in their order; the trace itself if its processes are no ranks.

    Rows of no rank, and the health counters of the file, are in all of them.
    """
    if SIGNAL not in trace.meta.signals:
        return [trace]
    ranks, number = numbered(trace.tracks.process)
    owners: dict[Table, Owners] = {"tracks": number.astype(np.int64)}
    owners["devices"] = _owners_of_devices(trace, owners["tracks"])
    for table in TABLES:
        if table not in owners and any(target in owners for target in _targets(table).values()):
            owners[table] = _owners(trace, table, owners)
    rows = {table: _group_by_rank(owner, len(ranks)) for table, owner in owners.items()}
    return [
        _select_rank(trace, rank, {table: of_ranks[place] for table, of_ranks in rows.items()})
        for place, rank in enumerate(ranks.tolist())
    ]


def _targets(table: Table) -> dict[str, Table]:
    """The tables that the columns of a table refer to, by column."""
    prefix = "row of "
    named = {c.name: c.unit for c in columns_of(table) if c.unit.startswith(prefix)}
    return {name: unit.removeprefix(prefix) for name, unit in named.items()}  # type: ignore[misc]


def _owners_of_devices(trace: Trace, owner: Owners) -> Owners:
    """The rank with tracks on each device, `_EVERY_RANK` for several or none; (devices,)."""
    device = trace.tracks.device
    device, owner = device[device != NULL], owner[device != NULL]
    lowest = np.full(len(trace.devices), np.iinfo(np.int64).max)
    highest = np.full(len(trace.devices), _EVERY_RANK)
    np.minimum.at(lowest, device, owner)
    np.maximum.at(highest, device, owner)
    return np.where(lowest == highest, lowest, _EVERY_RANK)


def _owners(trace: Trace, table: Table, owners: Mapping[Table, Owners]) -> Owners:
    """The rank whose rows each row refers to; (rows,)."""
    owner = np.full(len(trace.table(table)), _EVERY_RANK)
    for name, target in _targets(table).items():
        if target in owners:
            rows = getattr(trace.table(table), name)
            other = np.append(owners[target], _EVERY_RANK)[rows]  # the last one is for NULL
            differs = (owner != other) & (owner != _EVERY_RANK) & (other != _EVERY_RANK)
            owner = np.where(differs, _NO_RANK, np.where(owner == _EVERY_RANK, other, owner))
    return owner


def _group_by_rank(owner: Owners, ranks: int) -> list[AnyRows]:
    """The rows of each rank, ascending, those of every rank included."""
    _, (_, shared, *own) = rows_by_group(owner - _NO_RANK, ranks - _NO_RANK)
    return [np.sort(np.concatenate([shared, rows])) if len(shared) else rows for rows in own]


def _select_rank(trace: Trace, rank: int, rows: Mapping[Table, AnyRows]) -> Trace:
    """The trace of one rank.

    Args:
        trace: All ranks.
        rank: The rank.
        rows: AnyRows that may belong to the rank, ascending; missing tables are kept whole.
    """
    devices = trace.tracks.device[rows["tracks"]]
    kept: dict[Table, AnyRows] = {"devices": distinct(devices[devices != NULL])}
    tables = {table: trace.table(table) for table in TABLES}
    tables["devices"] = _chosen(trace.devices, kept["devices"])
    for table in TABLES:
        if table in rows and table not in kept:
            kept[table], tables[table] = _moved(trace, table, rows[table], kept)
    meta = replace(trace.meta, rank=rank, signals=trace.meta.signals - {SIGNAL})
    return Trace(strings=trace.strings, meta=meta, health=trace.health, **tables)


def _moved(
    trace: Trace, table: Table, rows: AnyRows, kept: Mapping[Table, AnyRows]
) -> tuple[AnyRows, Columns]:
    """The rows that refer only to kept rows, and their columns.

    References are changed to the positions of the kept rows in the tables of the rank.
    """
    columns, is_kept = _chosen(trace.table(table), rows), np.ones(len(rows), dtype=bool)
    for name, target in _targets(table).items():
        if target in kept:
            values = getattr(columns, name)
            place = np.searchsorted(kept[target], values)
            is_there = (np.append(kept[target], NULL)[place] == values) & (values != NULL)
            is_kept &= is_there | (values == NULL)
            setattr(columns, name, np.where(is_there, place, NULL).astype(values.dtype))
    return (rows, columns) if is_kept.all() else (rows[is_kept], _chosen(columns, is_kept))


def _chosen(columns: Columns, rows: AnyRows | NDArray[np.bool_]) -> Columns:
    """Some rows of a table."""
    return Columns(**{name: values[rows] for name, values in vars(columns).items()})
