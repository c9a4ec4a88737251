"""Slices of a Horovod timeline: every row as recorded, and fused activities once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import chunks, take
from stepwhy.read.formats.horovod.exchanges import COPY, EXCHANGE, NEGOTIATION, WAIT, RangeRole
from stepwhy.read.formats.horovod.records import LARGEST_BYTES
from stepwhy.read.shared.chrome_json import first_seen
from stepwhy.read.shared.chrome_pairs import whole_groups
from stepwhy.read.shared.slice_columns import SliceColumns
from stepwhy.trace import NULL, Kind, Phase, Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.horovod.exchanges import Ranges
    from stepwhy.trace import TraceBuilder


class Rows:
    """Adds one track per tensor, as recorded.

    These slices repeat fused activities, so they are annotations that no total includes. Tracks and
    strings are added at once, slices by `add_slices`, because memory does not hold both the slices
    and the ranges.

    Args:
        builder: The trace to append to.
        ranges: The ranges.
    """

    def __init__(self, builder: TraceBuilder, ranges: Ranges) -> None:
        self._builder, self._ranges = builder, ranges
        row, label, names = _first_labels(ranges)
        self._strings = _intern_in_order(builder, ranges.tensors, row, names, label)
        tracks = [
            builder.track(Role.HOST_THREAD, tensor, thread=number)
            for number, tensor in enumerate(ranges.tensors, 1)
        ]
        self._tracks = np.asarray(tracks, dtype=np.int32)
        self._scopes = np.asarray(builder.intern_all(ranges.tensors), dtype=np.int32)

    def add_slices(self) -> None:
        """Append the slices, and release the ranges."""
        ranges, order = self._ranges, _order(self._ranges)
        count = len(order)
        size = np.full(count, NULL, dtype=np.int64)
        size[take(ranges.role, order) == RangeRole.EXCHANGE] = ranges.sizes_of(
            order[take(ranges.role, order) == RangeRole.EXCHANGE]
        )
        label = take(_labels(ranges), order)
        del ranges.parent, ranges.role, ranges.name
        row = take(ranges.row, order)
        del ranges.row
        start_ns = take(ranges.start_ns, order)
        del ranges.start_ns
        dur_ns = take(ranges.end_ns, order)
        del ranges.end_ns, order
        dur_ns -= start_ns
        dur_ns[label >= len(ranges.names)] = 0
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


def _order(ranges: Ranges) -> NDArray[np.int32]:
    """Order by start, then longest first, then row, then role.

    The ranges are ordered by time already, except for ticks, which are shown without a duration.
    """
    order = np.empty(len(ranges.role), dtype=np.int32)
    for low, high in whole_groups(ranges.start_ns):
        role, start_ns = ranges.role[low:high], ranges.start_ns[low:high]
        length_ns = (ranges.end_ns[low:high] - start_ns) * (role != RangeRole.TICK)
        order[low:high] = np.lexsort((role, ranges.row[low:high], -length_ns, start_ns))
        order[low:high] += np.int32(low)
    return order


def _labels(ranges: Ranges, some: slice = slice(None)) -> NDArray[np.int32]:
    """Label of every range: its name; for ticks a number above all names."""
    ticks = np.int32(len(ranges.names)) * (ranges.role[some] == RangeRole.TICK)
    label: NDArray[np.int32] = ranges.name[some] + ticks
    return label


def _first_labels(ranges: Ranges) -> tuple[NDArray[np.int32], NDArray[np.int32], list[str]]:
    """The distinct labels of each row, by role and first occurrence, and the texts of all labels.

    Returns:
        Ascending rows and their labels, (distinct,) each; the text of every label.
    """
    shown = [f"rank {rank} is ready" if rank >= 0 else "" for rank in ranges.ranks.tolist()]
    texts = ranges.names + shown
    keys, firsts = [], []
    for some in chunks(len(ranges.role)):
        place = ranges.row[some].astype(np.int64) * len(RangeRole) + ranges.role[some]
        key, first = np.unique(place * len(texts) + _labels(ranges, some), return_index=True)
        keys.append(key)
        firsts.append(first + some.start)
    key, first = np.unique(np.concatenate(keys), return_index=True)
    first = np.concatenate(firsts)[first]
    place = key // len(texts)
    order = np.lexsort((first, place))
    label = (key % len(texts)).astype(np.int32)
    return (place[order] // len(RangeRole)).astype(np.int32), label[order], texts


def _intern_in_order(
    builder: TraceBuilder,
    tensors: list[str],
    row: NDArray[np.int32],
    names: list[str],
    label: NDArray[np.int32],
) -> NDArray[np.int32]:
    """Intern tensors and the labels of their rows, in the order in which rows show them.

    Returns:
        The string of every label, NULL if no row shows it; (names,).
    """
    rows = np.searchsorted(row, np.arange(len(tensors)))
    shown, places = first_seen(label)
    texts = tensors + [names[i] for i in shown.tolist()]
    # The stable sort puts a row's tensor before its labels.
    order = np.argsort(np.concatenate([rows, places]), kind="stable").tolist()
    builder.intern_all([texts[i] for i in order])
    strings = np.full(len(names), NULL, dtype=np.int32)
    strings[shown] = builder.intern_all(texts[len(tensors) :])
    return strings


def _all(value: int, count: int) -> NDArray[np.int8]:
    """A column with one repeated value, which takes no memory."""
    return np.broadcast_to(np.int8(value), count)


def batches_of(builder: TraceBuilder, ranges: Ranges) -> SliceColumns:
    """Activities that fused tensors share, as one slice each, on a track per activity."""
    # Mask of exchanges without any recorded activity; (ranges,).
    bare: NDArray[np.bool_] = ranges.role == RangeRole.EXCHANGE
    bare[ranges.parent[ranges.parent != NULL]] = False
    counted = (ranges.role == RangeRole.NEGOTIATION) | (ranges.role == RangeRole.ACTIVITY) | bare
    rows = np.flatnonzero(counted).astype(np.int32)
    ranked = sorted(range(len(ranges.names)), key=lambda n: ranges.names[n])
    places = np.empty(len(ranked), dtype=np.int32)
    places[ranked] = np.arange(len(ranked))
    place = take(places, take(ranges.name, rows))
    # The ranges are in the order of time, the longest first.
    rows = take(rows, np.argsort(place, kind="stable"))
    name = take(ranges.name, rows)
    cuts = np.flatnonzero(name[1:] != name[:-1]) + 1
    batches = SliceColumns()
    for mine in np.split(rows, cuts):
        if len(mine):
            title = ranges.names[ranges.name[mine[0]]]
            batches.add(_together(builder, ranges, title, mine))
    return batches


def _together(
    builder: TraceBuilder, ranges: Ranges, title: str, rows: NDArray[np.int32]
) -> dict[str, NDArray[Any] | int]:
    """Merge overlapping ranges of one name.

    Args:
        builder: Receives their track.
        ranges: All ranges.
        title: The name.
        rows: The ranges with this name, ordered by time.
    """
    track = builder.track(Role.HOST_THREAD, f"all tensors: {title}")
    kind = _kind(title)
    reached = np.maximum.accumulate(take(ranges.end_ns, rows))
    starts = take(ranges.start_ns, rows)
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
        columns["bytes"] = _sums(ranges.sizes_of(rows), first)
    return columns


def _kind(name: str) -> Kind:
    """Kind of an activity; unknown ones prepare an exchange."""
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
    """Sum of sizes per group, at most `LARGEST_BYTES`; NULL if any size is unknown.

    Args:
        sizes: The sizes; (ranges,).
        first: Where each group begins; (groups,).
    """
    sums = np.add.reduceat(sizes, first)
    # Sums of int64 can overflow; doubles are exact enough to detect that.
    sums[np.add.reduceat(sizes.astype(np.float64), first) >= LARGEST_BYTES] = LARGEST_BYTES
    sums[np.minimum.reduceat(sizes, first) == NULL] = NULL
    return sums
