"""From the rows of a Horovod timeline to slices: all as written, and what they share once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.importers.chrome_json import first_seen
from stepwhy.importers.horovod.exchanges import COPY, EXCHANGE, NEGOTIATION, WAIT
from stepwhy.importers.horovod.exchanges import Role as Of
from stepwhy.importers.horovod.records import LARGEST_BYTES
from stepwhy.trace import NULL, Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.horovod.exchanges import Pieces
    from stepwhy.trace import TraceBuilder


def add_rows(builder: TraceBuilder, pieces: Pieces) -> None:
    """Append every row as a track, as it is written: repetitions, which nothing counts again."""
    order = np.lexsort((pieces.role, pieces.row))
    row = pieces.row[order]
    label, names = _labels(pieces, order)
    strings = _intern_in_order(builder, pieces.tensors, row, names, label)
    tracks = [
        builder.track(Role.HOST_THREAD, tensor, thread=number)
        for number, tensor in enumerate(pieces.tensors, 1)
    ]
    start_ns = pieces.start_ns[order]
    length_ns = pieces.end_ns[order]
    length_ns -= start_ns
    length_ns[pieces.role[order] == Of.TICK] = 0
    builder.slices_from(
        {
            "track": np.asarray(tracks, dtype=np.int32)[row],
            "kind": _all(int(Kind.ANNOTATION), len(order)),
            "name": strings[label],
            "start_ns": start_ns,
            "dur_ns": length_ns,
            "scope": np.asarray(builder.intern_all(pieces.tensors), dtype=np.int32)[row],
            "bytes": pieces.bytes[order],
            "phase": _all(int(Phase.COMMUNICATION), len(order)),
        }
    )


def _labels(pieces: Pieces, order: NDArray[np.int64]) -> tuple[NDArray[np.int32], list[str]]:
    """What to call every range, as a number, and the texts."""
    shown = [f"rank {rank} is ready" if rank >= 0 else "" for rank in pieces.ranks.tolist()]
    is_tick = pieces.role[order] == Of.TICK
    label = pieces.name[order] + np.where(is_tick, len(pieces.names), 0).astype(np.int32)
    return label, pieces.names + shown


def _intern_in_order(
    builder: TraceBuilder,
    tensors: list[str],
    row: NDArray[np.int32],
    names: list[str],
    label: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Name tensors and what happens on their rows, in the order in which rows show them.

    Returns:
        The string of every name, NULL of those that no row shows; (names,).
    """
    rows = np.searchsorted(row, np.arange(len(tensors)))
    shown, places = first_seen(label, len(names))
    texts = tensors + [names[i] for i in shown.tolist()]
    # A row is named before what it begins with: the sort is stable.
    order = np.argsort(np.concatenate([rows, places]), kind="stable").tolist()
    builder.intern_all([texts[i] for i in order])
    strings = np.full(len(names), NULL, dtype=np.int32)
    strings[shown] = builder.intern_all(texts[len(tensors) :])
    return strings


def _all(value: int, count: int) -> NDArray[np.int8]:
    """One value for each, without memory."""
    return np.broadcast_to(np.int8(value), count)


def add_batches(builder: TraceBuilder, pieces: Pieces) -> None:
    """Append what the tensors of a fused exchange do together, once, on a track per activity."""
    counted = (pieces.role == Of.NEGOTIATION) | (pieces.role == Of.ACTIVITY) | _bare(pieces)
    rows = np.flatnonzero(counted).astype(np.int32)
    ranked = sorted(range(len(pieces.names)), key=lambda n: pieces.names[n])
    places = np.empty(len(ranked), dtype=np.int32)
    places[ranked] = np.arange(len(ranked))
    rows = rows[
        np.lexsort((-pieces.end_ns[rows], pieces.start_ns[rows], places[pieces.name[rows]]))
    ]
    name = pieces.name[rows]
    cuts = np.flatnonzero(name[1:] != name[:-1]) + 1
    for mine in np.split(rows, cuts):
        if len(mine):
            _add_together(builder, pieces, pieces.names[pieces.name[mine[0]]], mine)


def _add_together(
    builder: TraceBuilder, pieces: Pieces, title: str, rows: NDArray[np.int32]
) -> None:
    """Append ranges of one name as one where they overlap.

    Args:
        builder: The trace to append to.
        pieces: All ranges.
        title: The name.
        rows: Those that have it, in the order of time.
    """
    track = builder.track(Role.HOST_THREAD, f"all tensors: {title}")
    name, kind = builder.intern(title), _kind(title)
    reached = np.maximum.accumulate(pieces.end_ns[rows])
    starts = pieces.start_ns[rows]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = starts[1:] >= reached[:-1]
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(rows)) - 1
    columns = {
        "track": np.full(len(first), track, dtype=np.int32),
        "kind": _all(int(kind), len(first)),
        "name": np.full(len(first), name, dtype=np.int32),
        "start_ns": starts[first],
        "dur_ns": reached[last] - starts[first],
        "phase": _all(int(Phase.COMMUNICATION), len(first)),
    }
    if kind is Kind.COLLECTIVE:
        columns["bytes"] = _sums(pieces.sizes(rows.astype(np.int64)), first)
    builder.slices_from(columns)


def _bare(pieces: Pieces) -> NDArray[np.bool_]:
    """Exchanges without any activity, of which nothing else tells; (ranges,)."""
    bare: NDArray[np.bool_] = pieces.role == Of.EXCHANGE
    bare[pieces.parent[pieces.parent != NULL]] = False
    return bare


def _kind(name: str) -> Kind:
    """What an activity is; those that are none of these prepare an exchange."""
    if name.startswith(NEGOTIATION) or WAIT.fullmatch(name):
        return Kind.WAIT
    if COPY.fullmatch(name):
        return Kind.MEMCPY
    is_exchange = EXCHANGE.fullmatch(name) or name in _BARE_EXCHANGES
    return Kind.COLLECTIVE if is_exchange else Kind.OTHER


_BARE_EXCHANGES = frozenset(
    {"ALLREDUCE", "ALLGATHER", "BROADCAST", "ALLTOALL", "REDUCESCATTER", "ADASUM"}
)


def _sums(sizes: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of the sizes of groups; NULL where one is not known, and never beyond the largest.

    Args:
        sizes: The sizes; (ranges,).
        first: Where each group begins; (groups,).
    """
    sums = np.add.reduceat(sizes, first)
    # Sums of so many cannot be told from their doubles, but that they are too large can.
    sums[np.add.reduceat(sizes.astype(np.float64), first) >= LARGEST_BYTES] = LARGEST_BYTES
    sums[np.minimum.reduceat(sizes, first) == NULL] = NULL
    return sums


__all__ = ["add_batches", "add_rows"]
