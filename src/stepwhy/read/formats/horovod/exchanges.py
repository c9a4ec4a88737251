"""The ranges of a Horovod timeline: negotiations and exchanges, with one row per tensor."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepwhy.base.columns.chunks import chunks, take
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import SLICE, Codes, first_seen
from stepwhy.read.shared.chrome_spans import outermost_first, spans_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.formats.horovod.records import Found
    from stepwhy.read.shared.chrome_json import Place
    from stepwhy.trace import Health

NEGOTIATION: Final = "NEGOTIATE_"
"""Prefix of the names of negotiations; the kind of exchange follows."""

# A rank that becomes ready is an instant named by its number.
_RANK = regex(r"\d{1,7}")
# Activities: the exchange itself, copies for it, waits before it, and what prepares it.
EXCHANGE = regex(r"(?:NCCL|MPI|GLOO|CCL|DDL)_\w+")
COPY = regex(r"MEMCPY_\w+|COPY_\w+")
WAIT = regex(r"WAIT_\w+|QUEUE")
_OTHER_ACTIVITY = regex(r"(?:INIT|ALLOCATE)_\w+")
_ACTIVITIES = (EXCHANGE, COPY, WAIT, _OTHER_ACTIVITY)
_NO_RANK = -1


class RangeRole(IntEnum):
    """What a range is; also the order in which a row shows them."""

    NEGOTIATION = 0
    EXCHANGE = 1
    ACTIVITY = 2  # of an exchange
    TICK = 3  # a rank has become ready


class Ranges(msgspec.Struct):
    """The ranges on all rows, ordered by time, outer before inner.

    Args:
        tensors: Tensor of every row, in the order of first appearance.
        names: Distinct names of ranges.
        ranks: Rank that each name is the number of, negative for other names; (names,).
        row: Row of every range; (ranges,).
        name: Index into `names`; (ranges,).
        role: A `RangeRole`; (ranges,).
        start_ns, end_ns: Start and end; (ranges,).
        parent: Exchange that contains an activity, NULL for none; (ranges,).
        sizes: Bytes of the tensor of every exchange, NULL where unknown; (exchanges,).
    """

    tensors: list[str]
    names: list[str]
    ranks: NDArray[np.int32]
    row: NDArray[np.int32]
    name: NDArray[np.int32]
    role: NDArray[np.int8]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    parent: NDArray[np.int32]
    sizes: NDArray[np.int64]

    def of(self, role: RangeRole) -> NDArray[np.int64]:
        """Indices of the ranges with a role."""
        return np.flatnonzero(self.role == role)

    def sizes_of(self, which: NDArray[np.int32]) -> NDArray[np.int64]:
        """Bytes of the tensors of some ranges, NULL where unknown; (which,)."""
        parent = take(self.parent, which)
        exchange = np.where(parent == NULL, which, parent)
        found = take(self.sizes, np.searchsorted(self.of(RangeRole.EXCHANGE), exchange))
        found[take(self.role, exchange) != RangeRole.EXCHANGE] = NULL
        return found


def ranges_of(found: Found, health: Health) -> Ranges:
    """The ranges on the rows of a timeline.

    Args:
        found: Contents of the file; `found.ranges` is emptied.
        health: Counts incomplete ranges.
    """
    table = found.ranges.finish()
    spans = spans_of(table, health)
    last, start_ns, end_ns = spans.last, spans.start_ns, spans.dur_ns
    use, is_slice = take(table.use, spans.first), take(table.phase, spans.first) == SLICE
    names, of_use = list(table.names), table.name_of_use
    places, place_of_use = table.places, table.place_of_use
    del table, spans  # What follows needs the memory.
    order = outermost_first(start_ns, end_ns)
    use, is_slice, last = take(use, order), take(is_slice, order), take(last, order)
    start_ns, end_ns = take(start_ns, order), take(end_ns, order)
    end_ns += start_ns
    del order
    row, tensors = _rows(found.tensors, places, place_of_use, use)
    name = take(of_use, use)
    del use
    ranks = np.asarray(
        [int(text) if _RANK.fullmatch(text) else _NO_RANK for text in names], dtype=np.int32
    )
    role = _roles(names, name, (take(ranks, name) != _NO_RANK) & is_slice)
    _mark_inner_exchanges(role, row, start_ns, end_ns)
    sizes = found.sizes.of(last[role == RangeRole.EXCHANGE])
    del last
    parent = _parents(role, row, start_ns, end_ns)
    return Ranges(tensors, names, ranks, row, name, role, start_ns, end_ns, parent, sizes)


def _rows(
    tensor_names: Mapping[object, str],
    places: Sequence[Place],
    place_of_use: NDArray[np.int32],
    use: NDArray[np.int32],
) -> tuple[NDArray[np.int32], list[str]]:
    """Row of every range, in the order of first appearance, and the tensor of every row."""
    processes = Codes()
    of_place = processes.of((pid for pid, _ in places), len(places))
    of_use = of_place[place_of_use]
    shown, _ = first_seen(take(of_use, use))
    numbers = np.empty(len(processes), dtype=np.int32)
    numbers[shown] = np.arange(len(shown))
    pids = list(processes)
    tensors = [tensor_names.get(pids[i], f"tensor {pids[i]}") for i in shown.tolist()]
    return take(numbers[of_use], use), tensors


def _roles(
    names: list[str], name: NDArray[np.int32], is_tick: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Roles by name; any unknown name counts as an exchange for now."""
    of_name = np.full(len(names), RangeRole.EXCHANGE, dtype=np.int8)
    of_name[_matching(names, _is_activity)] = RangeRole.ACTIVITY
    of_name[_matching(names, lambda text: text.startswith(NEGOTIATION))] = RangeRole.NEGOTIATION
    role = take(of_name, name)
    role[is_tick] = RangeRole.TICK
    return role


def _matching(names: list[str], test: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.asarray([test(text) for text in names], dtype=bool)


def _is_activity(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in _ACTIVITIES)


def _mark_inner_exchanges(
    role: NDArray[np.int8],
    row: NDArray[np.int32],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
) -> None:
    """Turn exchanges inside another exchange of their row into activities."""
    reached: dict[int, int] = {}
    candidates = np.flatnonzero(role == RangeRole.EXCHANGE)
    for chunk in chunks(len(candidates)):
        some = candidates[chunk]
        inner = []
        columns = (row[some].tolist(), start_ns[some].tolist(), end_ns[some].tolist())
        for tensor, start, end in zip(*columns, strict=True):
            inner.append(start < reached.get(tensor, start))
            if not inner[-1]:
                reached[tensor] = end
        role[some[np.asarray(inner)]] = RangeRole.ACTIVITY


def _parents(
    role: NDArray[np.int8],
    row: NDArray[np.int32],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
) -> NDArray[np.int32]:
    """Exchange that contains each activity, NULL if the file ends inside it; (ranges,)."""
    some = np.flatnonzero((role == RangeRole.EXCHANGE) | (role == RangeRole.ACTIVITY)).astype(
        np.int32
    )
    some = take(some, np.argsort(take(row, some), kind="stable"))
    is_exchange = take(role, some) == RangeRole.EXCHANGE
    last = np.where(is_exchange, np.arange(len(some), dtype=np.int32), np.int32(0))
    np.maximum.accumulate(last, out=last)
    around = take(some, last)
    del last
    is_inside = ~is_exchange & (take(role, around) == RangeRole.EXCHANGE)
    is_inside &= take(row, around) == take(row, some)
    is_inside &= take(start_ns, some) < take(end_ns, around)
    parents = np.full(len(role), NULL, dtype=np.int32)
    parents[some[is_inside]] = around[is_inside]
    return parents
