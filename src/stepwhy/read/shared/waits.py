"""Waits between streams and host, joined with the calls that caused them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from stepwhy.base.columns.groups import distinct
from stepwhy.base.columns.growing import Growing
from stepwhy.trace import NULL, Kind, WaitKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import ArrayLike, NDArray

    from stepwhy.base.columns.types import AnyInts
    from stepwhy.trace import TraceBuilder


_NAMES: Final = ("time_ns", "kind", "slice", "waiting", "awaited", "correlation", "recorded_by")


class Waits:
    """Collects waits as columns."""

    def __init__(self) -> None:
        self._columns = {name: Growing(np.int64) for name in _NAMES}

    def __len__(self) -> int:
        """Number of waits."""
        return len(self._columns["time_ns"])

    def add(self, time_ns: AnyInts, **columns: ArrayLike) -> None:
        """Append waits.

        Args:
            time_ns: Start of each wait, ns; (waits,).
            columns: 'kind', 'slice' (the wait on the device), 'waiting' and 'awaited' as in the
                schema; 'correlation' of the call that waits, 'recorded_by': correlation of the
                call that recorded the event. (waits,) each, or one value for all; NULL by default.
        """
        for name, column in self._columns.items():
            values = time_ns if name == "time_ns" else columns.get(name, NULL)
            column.append(np.broadcast_to(np.asarray(values), (len(time_ns),)))

    def column(self, name: str) -> NDArray[np.int64]:
        """The values of a column so far; (waits,)."""
        values: NDArray[np.int64] = self._columns[name].values()
        return values

    def add_to(self, builder: TraceBuilder, blocks: Iterable[Mapping[str, AnyInts]]) -> None:
        """Add the waits to a trace; a query of an event, which does not wait, is none.

        Args:
            builder: Receives the waits.
            blocks: Columns 'correlation' and 'kind' of the slices, in the order of their rows.
        """
        if not len(self):
            return
        ids = [self.column(name) for name in ("correlation", "recorded_by")]
        (call, kind), (event, _) = _calls_of(ids, blocks)
        is_query = (self.column("kind") == WaitKind.EVENT) & (call != NULL) & (kind != Kind.SYNC)
        rows = np.flatnonzero(~is_query)
        call, kind, event = call[rows], kind[rows], event[rows]
        columns = {name: self.column(name)[rows] for name in _NAMES[:5]}
        columns["slice"] = np.where(call == NULL, columns["slice"], call)
        _repair(columns, kind)
        builder.rows_from("waits", {**columns, "event": event})


def _repair(columns: dict[str, NDArray[np.int64]], call: NDArray[np.int64]) -> None:
    """Correct waits of streams that were calls on which the host waits, in place.

    Some versions of Nsight Systems write `cudaStreamSynchronize` as the wait of a stream.

    Args:
        columns: Columns of the waits.
        call: Kind of the slice of each one's call; (waits,).
    """
    rows = np.flatnonzero((columns["kind"] == WaitKind.STREAM_EVENT) & (call == Kind.SYNC))
    columns["kind"][rows] = WaitKind.STREAM
    columns["awaited"][rows] = columns["waiting"][rows]
    columns["waiting"][rows] = NULL


def _calls_of(
    ids: list[NDArray[np.int64]], blocks: Iterable[Mapping[str, AnyInts]]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Row and kind of the host's call with each correlation id, NULL without one.

    Args:
        ids: Arrays of correlation ids; (any,) each.
        blocks: As for `Waits.add_to`.
    """
    known = distinct(np.concatenate([np.asarray([NULL]), *ids]))
    rows, kinds, first = np.full(len(known), NULL), np.full(len(known), NULL), 0
    for block in blocks:
        correlation, kind = block["correlation"], block["kind"]
        calls = np.flatnonzero((correlation > 0) & (kind < Kind.KERNEL))
        place = np.minimum(np.searchsorted(known, correlation[calls]), len(known) - 1)
        is_hit = known[place] == correlation[calls]
        rows[place[is_hit]] = first + calls[is_hit]
        kinds[place[is_hit]] = kind[calls[is_hit]]
        first += len(kind)
    places = [np.searchsorted(known, each) for each in ids]
    return [(rows[place], kinds[place]) for place in places]
