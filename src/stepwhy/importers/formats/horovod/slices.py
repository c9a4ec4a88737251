"""From the rows of a Horovod timeline to slices: all as written, and what they share once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import take
from stepwhy.importers.formats.horovod.exchanges import COPY, EXCHANGE, NEGOTIATION, WAIT
from stepwhy.importers.formats.horovod.exchanges import Role as Of
from stepwhy.importers.formats.horovod.records import LARGEST_BYTES
from stepwhy.importers.shared.chrome_json import first_seen
from stepwhy.importers.shared.chrome_pairs import whole_groups
from stepwhy.importers.shared.slice_columns import SliceColumns
from stepwhy.trace import NULL, Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.formats.horovod.exchanges import Pieces
    from stepwhy.trace import TraceBuilder

# Ranges that are looked at at a time.
_CHUNK = 1 << 16


class Rows:
    """Every row as a track, as it is written: repetitions, which nothing counts again.

    Tracks and texts are added at once, slices once nobody else needs the ranges: there is no room
    for both.

    Args:
        builder: The trace to append to.
        pieces: The ranges.
    """

    def __init__(self, builder: TraceBuilder, pieces: Pieces) -> None:
        self._builder, self._pieces = builder, pieces
        row, label, names = _first_labels(pieces)
        self._strings = _intern_in_order(builder, pieces.tensors, row, names, label)
        tracks = [
            builder.track(Role.HOST_THREAD, tensor, thread=number)
            for number, tensor in enumerate(pieces.tensors, 1)
        ]
        self._tracks = np.asarray(tracks, dtype=np.int32)
        self._scopes = np.asarray(builder.intern_all(pieces.tensors), dtype=np.int32)

    def hand_over(self) -> None:
        """Append the slices; the ranges are gone."""
        pieces, order = self._pieces, _in_order(self._pieces)
        count = len(order)
        size = np.full(count, NULL, dtype=np.int64)
        size[take(pieces.role, order) == Of.EXCHANGE] = pieces.sizes_of(
            order[take(pieces.role, order) == Of.EXCHANGE]
        )
        label = take(_labels(pieces), order)
        del pieces.parent, pieces.role, pieces.name
        row = take(pieces.row, order)
        del pieces.row
        start_ns = take(pieces.start_ns, order)
        del pieces.start_ns
        dur_ns = take(pieces.end_ns, order)
        del pieces.end_ns, order
        dur_ns -= start_ns
        dur_ns[label >= len(pieces.names)] = 0
        self._builder.slices_from(
            {
                "track": take(self._tracks, row),
                "kind": _all(int(Kind.ANNOTATION), count),
                "name": take(self._strings, label),
                "start_ns": start_ns,
                "dur_ns": dur_ns,
                "scope": take(self._scopes, row),
                "bytes": size,
                "phase": _all(int(Phase.COMMUNICATION), count),
            }
        )


def _in_order(pieces: Pieces) -> NDArray[np.int32]:
    """The order by time, then longest first; of equals the first row first, there by role.

    Ranges are in the order of time, but for ticks, which are shown without a length.
    """
    order = np.empty(len(pieces.role), dtype=np.int32)
    for low, high in whole_groups(pieces.start_ns):
        role, start_ns = pieces.role[low:high], pieces.start_ns[low:high]
        length_ns = (pieces.end_ns[low:high] - start_ns) * (role != Of.TICK)
        order[low:high] = np.lexsort((role, pieces.row[low:high], -length_ns, start_ns))
        order[low:high] += np.int32(low)
    return order


def _labels(pieces: Pieces, some: slice = slice(None)) -> NDArray[np.int32]:
    """What to call ranges, as a number: their name, and ticks by a number above all names."""
    ticks = np.int32(len(pieces.names)) * (pieces.role[some] == Of.TICK)
    label: NDArray[np.int32] = pieces.name[some] + ticks
    return label


def _first_labels(pieces: Pieces) -> tuple[NDArray[np.int32], NDArray[np.int32], list[str]]:
    """What each row calls its ranges, in the order in which it shows them, by role; and all texts.

    Returns:
        Rows, ascending, and numbers of texts; (different ones,) each. The texts.
    """
    shown = [f"rank {rank} is ready" if rank >= 0 else "" for rank in pieces.ranks.tolist()]
    texts = pieces.names + shown
    keys, firsts = [], []
    for low in range(0, len(pieces.role), _CHUNK):
        some = slice(low, low + _CHUNK)
        place = pieces.row[some].astype(np.int64) * len(Of) + pieces.role[some]
        key, first = np.unique(place * len(texts) + _labels(pieces, some), return_index=True)
        keys.append(key)
        firsts.append(first + low)
    key, first = np.unique(np.concatenate(keys), return_index=True)
    first = np.concatenate(firsts)[first]
    place = key // len(texts)
    order = np.lexsort((first, place))
    label = (key % len(texts)).astype(np.int32)
    return (place[order] // len(Of)).astype(np.int32), label[order], texts


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
    shown, places = first_seen(label)
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


def batches_of(builder: TraceBuilder, pieces: Pieces) -> SliceColumns:
    """What the tensors of a fused exchange do together, once, on a track per activity."""
    counted = (pieces.role == Of.NEGOTIATION) | (pieces.role == Of.ACTIVITY) | _bare(pieces)
    rows = np.flatnonzero(counted).astype(np.int32)
    ranked = sorted(range(len(pieces.names)), key=lambda n: pieces.names[n])
    places = np.empty(len(ranked), dtype=np.int32)
    places[ranked] = np.arange(len(ranked))
    place = take(places, take(pieces.name, rows))
    # The ranges are in the order of time, the longest first.
    rows = take(rows, np.argsort(place, kind="stable"))
    name = take(pieces.name, rows)
    cuts = np.flatnonzero(name[1:] != name[:-1]) + 1
    batches = SliceColumns()
    for mine in np.split(rows, cuts):
        if len(mine):
            title = pieces.names[pieces.name[mine[0]]]
            batches.add(_together(builder, pieces, title, mine))
    return batches


def _together(
    builder: TraceBuilder, pieces: Pieces, title: str, rows: NDArray[np.int32]
) -> dict[str, NDArray[Any] | int]:
    """Ranges of one name as one where they overlap.

    Args:
        builder: Takes their track.
        pieces: All ranges.
        title: The name.
        rows: Those that have it, in the order of time.
    """
    track = builder.track(Role.HOST_THREAD, f"all tensors: {title}")
    kind = _kind(title)
    reached = np.maximum.accumulate(take(pieces.end_ns, rows))
    starts = take(pieces.start_ns, rows)
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = starts[1:] >= reached[:-1]
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(rows)) - 1
    columns: dict[str, NDArray[Any] | int] = {
        "track": track,
        "kind": int(kind),
        "name": builder.intern(title),
        "start_ns": starts[first],
        "dur_ns": reached[last] - starts[first],
        "phase": int(Phase.COMMUNICATION),
    }
    if kind is Kind.COLLECTIVE:
        columns["bytes"] = _sums(pieces.sizes_of(rows), first)
    return columns


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


__all__ = ["Rows", "batches_of"]
