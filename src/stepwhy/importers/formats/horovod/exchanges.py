"""The rows of a Horovod timeline: one per tensor, with its negotiations and exchanges."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepwhy.columns.chunks import take
from stepwhy.importers.shared.chrome_json import SLICE, Codes, first_seen
from stepwhy.importers.shared.chrome_spans import outermost_first, spans_of
from stepwhy.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.formats.horovod.records import Found
    from stepwhy.importers.shared.chrome_json import Place
    from stepwhy.trace import Health

NEGOTIATION: Final = "NEGOTIATE_"
"""What the name of every negotiation begins with; the kind of exchange follows."""

# Each rank that is ready is a tick of no length, named by its number.
_RANK = regex(r"\d{1,7}")
# Activities: the exchange itself, copies for it, waits before it, and what prepares it.
EXCHANGE = regex(r"(?:NCCL|MPI|GLOO|CCL|DDL)_\w+")
COPY = regex(r"MEMCPY_\w+|COPY_\w+")
WAIT = regex(r"WAIT_\w+|QUEUE")
_OTHER_ACTIVITY = regex(r"(?:INIT|ALLOCATE)_\w+")
_ACTIVITIES = (EXCHANGE, COPY, WAIT, _OTHER_ACTIVITY)
# Ranges that are Python's objects at a time.
_CHUNK = 1 << 14
_NO_RANK = -1


class Role(IntEnum):
    """What a range on a row is, in the order in which a row shows them."""

    NEGOTIATION = 0
    EXCHANGE = 1
    ACTIVITY = 2  # of an exchange
    TICK = 3  # a rank has become ready


class Pieces(msgspec.Struct):
    """The ranges on all rows, in the order of time, the outer before the inner.

    Args:
        tensors: What each row is about, in the order in which they first appear.
        names: Names of ranges.
        ranks: The rank that each name is the number of, negative where it is none; (names,).
        row: Number of the tensor; (ranges,).
        name: Number of the name; (ranges,).
        role: A `Role`; (ranges,).
        start_ns, end_ns: When; (ranges,).
        parent: Of an activity the exchange that it is a part of, NULL where there is none;
            (ranges,).
        sizes: Size of the tensor of every exchange, in their order, NULL where it is not known;
            (exchanges,).
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

    def of(self, role: Role) -> NDArray[np.int64]:
        """The ranges of a role."""
        return np.flatnonzero(self.role == role)

    def sizes_of(self, which: NDArray[np.int32]) -> NDArray[np.int64]:
        """Bytes of the tensors that some ranges are about, NULL where not known; (which,)."""
        parent = take(self.parent, which)
        exchange = np.where(parent == NULL, which, parent)
        found = take(self.sizes, np.searchsorted(self.of(Role.EXCHANGE), exchange))
        found[take(self.role, exchange) != Role.EXCHANGE] = NULL
        return found


def pieces_of(found: Found, health: Health) -> Pieces:
    """The ranges on the rows of a timeline.

    Args:
        found: What the file holds; its records of ranges are gone from there.
        health: Takes what is no range.
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
    ranks = np.asarray([_rank(text) for text in names], dtype=np.int32)
    role = _roles(names, name, (take(ranks, name) != _NO_RANK) & is_slice)
    _tell_exchanges(role, row, start_ns, end_ns)
    sizes = found.sizes.of(last[role == Role.EXCHANGE])
    del last
    parent = _parents(role, row, start_ns, end_ns)
    return Pieces(tensors, names, ranks, row, name, role, start_ns, end_ns, parent, sizes)


def _rows(
    told: Mapping[object, str],
    places: Sequence[Place],
    place_of_use: NDArray[np.int32],
    use: NDArray[np.int32],
) -> tuple[NDArray[np.int32], list[str]]:
    """Number of every range's row, in the order of their first ranges, and the rows' tensors."""
    processes = Codes()
    of_place = processes.of((pid for pid, _ in places), len(places))
    of_use = of_place[place_of_use]
    shown, _ = first_seen(take(of_use, use))
    numbers = np.empty(len(processes), dtype=np.int32)
    numbers[shown] = np.arange(len(shown))
    pids = list(processes)
    tensors = [told.get(pids[i], f"tensor {pids[i]}") for i in shown.tolist()]
    return take(numbers[of_use], use), tensors


def _rank(name: str) -> int:
    return int(name) if _RANK.fullmatch(name) else _NO_RANK


def _roles(
    names: list[str], name: NDArray[np.int32], is_tick: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """What ranges are by their names; what may be an exchange is called one."""
    of_name = np.full(len(names), Role.EXCHANGE, dtype=np.int8)
    of_name[_among(names, _is_activity)] = Role.ACTIVITY
    of_name[_among(names, lambda text: text.startswith(NEGOTIATION))] = Role.NEGOTIATION
    role = take(of_name, name)
    role[is_tick] = Role.TICK
    return role


def _among(names: list[str], test: Callable[[str], bool]) -> NDArray[np.bool_]:
    return np.asarray([test(text) for text in names], dtype=bool)


def _is_activity(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in _ACTIVITIES)


def _tell_exchanges(
    role: NDArray[np.int8],
    row: NDArray[np.int32],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
) -> None:
    """Of what may be exchanges, call an activity what lies in another one of its row."""
    reached: dict[int, int] = {}
    candidates = np.flatnonzero(role == Role.EXCHANGE)
    for begin in range(0, len(candidates), _CHUNK):
        some = candidates[begin : begin + _CHUNK]
        inner = []
        columns = (row[some].tolist(), start_ns[some].tolist(), end_ns[some].tolist())
        for tensor, start, end in zip(*columns, strict=True):
            inner.append(start < reached.get(tensor, start))
            if not inner[-1]:
                reached[tensor] = end
        role[some[np.asarray(inner)]] = Role.ACTIVITY


def _parents(
    role: NDArray[np.int8],
    row: NDArray[np.int32],
    start_ns: NDArray[np.int64],
    end_ns: NDArray[np.int64],
) -> NDArray[np.int32]:
    """The exchange around every activity, NULL where the file stops inside of it; (ranges,)."""
    some = np.flatnonzero((role == Role.EXCHANGE) | (role == Role.ACTIVITY)).astype(np.int32)
    some = take(some, np.argsort(take(row, some), kind="stable"))
    is_exchange = take(role, some) == Role.EXCHANGE
    last = np.where(is_exchange, np.arange(len(some), dtype=np.int32), np.int32(0))
    np.maximum.accumulate(last, out=last)
    around = take(some, last)
    del last
    is_inside = ~is_exchange & (take(role, around) == Role.EXCHANGE)
    is_inside &= take(row, around) == take(row, some)
    is_inside &= take(start_ns, some) < take(end_ns, around)
    parents = np.full(len(role), NULL, dtype=np.int32)
    parents[some[is_inside]] = around[is_inside]
    return parents


__all__ = ["COPY", "EXCHANGE", "NEGOTIATION", "WAIT", "Pieces", "Role", "pieces_of"]
