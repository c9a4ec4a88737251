"""Slices of some kinds on some tracks, found a piece of the table at a time.

Row numbers or a mask of all slices of a large trace would take as much memory as a column of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec
import numpy as np

from stepwhy.trace import among
from stepwhy.trace.growing import Growing
from stepwhy.trace.memory import empty

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from stepwhy.trace import Kind, Role, Trace

Rows: TypeAlias = "NDArray[np.int64]"
Tracks: TypeAlias = "NDArray[np.bool_]"
Value = TypeVar("Value", bound=np.generic)

# Rows that are looked at at a time.
_PIECE = 1 << 16


def parts(count: int) -> Iterator[slice]:
    """Rows [0, count) in pieces that fit into a processor's cache."""
    return (slice(first, min(first + _PIECE, count)) for first in range(0, count, _PIECE))


def chosen(trace: Trace, kinds: Collection[Kind], tracks: Tracks | None = None) -> Iterator[Rows]:
    """Rows of slices of some kinds, ascending, piece by piece, none of which is empty.

    Args:
        trace: The trace.
        kinds: The kinds.
        tracks: Whether slices of each track are wanted, all by default; (tracks,).
    """
    slices = trace.slices
    for part in parts(len(slices)):
        rows = np.flatnonzero(among(slices.kind[part], kinds))
        rows += part.start
        if tracks is not None:
            rows = rows[tracks[slices.track[rows]]]
        if len(rows):
            yield rows


def mask(trace: Trace, kinds: Collection[Kind], tracks: Tracks | None = None) -> NDArray[np.bool_]:
    """As `chosen`, whether each slice is one of those; (slices,)."""
    slices = trace.slices
    found = empty(len(slices), np.bool_)
    for part in parts(len(slices)):
        found[part] = among(slices.kind[part], kinds)
        if tracks is not None:
            found[part] &= tracks[slices.track[part]]
    return found


def flags(count: int) -> NDArray[np.bool_]:
    """A False for each of many slices, which the system has back as soon as they are let go."""
    found: NDArray[np.bool_] = empty(count, np.bool_)
    found[:] = False
    return found


def of_role(trace: Trace, *roles: Role) -> Tracks:
    """Whether each track has one of some roles; (tracks,)."""
    return among(trace.tracks.role, roles)


def of_threads(trace: Trace, threads: Collection[int]) -> Tracks:
    """Whether each track is one of some; (tracks,)."""
    found = np.zeros(len(trace.tracks), dtype=bool)
    found[list(threads)] = True
    return found


def joined(pieces: Iterable[NDArray[Value]], none: NDArray[Value]) -> NDArray[Value]:
    """Pieces one behind another.

    Args:
        pieces: The pieces, which are few or small.
        none: What there is without any.
    """
    found = list(pieces)
    return np.concatenate(found) if found else none


NO_ROWS = np.empty(0, dtype=np.int64)


def rows_of(trace: Trace, kinds: Collection[Kind], tracks: Tracks | None = None) -> Rows:
    """As `chosen`, all at once: of kinds of which there are few."""
    return joined(chosen(trace, kinds, tracks), NO_ROWS)


def collected(pieces: Iterable[Rows]) -> NDArray[np.int32]:
    """Rows of slices, which may be millions, one piece behind another; (rows,)."""
    found = Growing(np.int32)
    for rows in pieces:
        found.append(rows)
    return found.values()


def between(rows: NDArray[Any], part: slice) -> NDArray[Any]:
    """Those of ascending rows that lie in a piece, without a copy."""
    first, end = np.searchsorted(rows, np.array([part.start, part.stop], dtype=rows.dtype))
    return rows[first:end]


class Ranges(msgspec.Struct, frozen=True):
    """Rows that lie side by side, range by range.

    Args:
        edges: First row of each range and the first one behind it, ascending; (2 ranges,).
    """

    edges: Rows

    def hold(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether each of some rows lies in a range; (rows,).

        Args:
            rows: Rows, ascending, or a few such runs one behind another.
        """
        ends = [*(np.flatnonzero(rows[1:] < rows[:-1]) + 1).tolist(), len(rows)]
        if len(ends) > len(self.edges) + 1:
            found: NDArray[np.bool_] = np.searchsorted(self.edges, rows, side="right") % 2 == 1
            return found
        runs = zip([0, *ends], ends, strict=False)
        return np.concatenate([self._hold(rows[first:end]) for first, end in runs])

    def within(self, part: slice) -> NDArray[np.bool_]:
        """Whether each row of a piece lies in a range."""
        first, end = np.searchsorted(self.edges, [part.start, part.stop], side="right").tolist()
        places = np.minimum(self.edges[first:end], part.stop) - part.start
        return _in_turns(places, part.stop - part.start, inside=first % 2 == 1)

    def _hold(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """As `hold`, of rows that ascend."""
        if not len(rows):
            return np.empty(0, dtype=bool)
        first, end = np.searchsorted(self.edges, [rows[0], rows[-1]], side="right").tolist()
        places = np.searchsorted(rows, self.edges[first:end].astype(rows.dtype))
        return _in_turns(places, len(rows), inside=first % 2 == 1)


def _in_turns(places: Rows, count: int, *, inside: bool) -> NDArray[np.bool_]:
    """What begins as it is told and turns at some places, which ascend; (count,)."""
    lengths = np.diff(places, prepend=0, append=count)
    return np.repeat(np.arange(inside, len(lengths) + inside) % 2 == 1, lengths)


__all__ = [
    "NO_ROWS",
    "Ranges",
    "Rows",
    "Tracks",
    "between",
    "chosen",
    "collected",
    "flags",
    "joined",
    "mask",
    "of_role",
    "of_threads",
    "parts",
    "rows_of",
]
