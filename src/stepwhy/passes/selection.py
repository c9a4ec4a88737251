"""Slices of some kinds on some tracks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stepwhy.columns.chunks import NO_ROWS, chunks, joined
from stepwhy.columns.memory import empty
from stepwhy.trace import among

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from stepwhy.trace import Kind, Role, Trace

Rows: TypeAlias = "NDArray[np.int64]"
Tracks: TypeAlias = "NDArray[np.bool_]"


def chosen(trace: Trace, kinds: Collection[Kind], tracks: Tracks | None = None) -> Iterator[Rows]:
    """Rows of slices of some kinds, ascending, piece by piece, none of which is empty.

    Args:
        trace: The trace.
        kinds: The kinds.
        tracks: Whether slices of each track are wanted, all by default; (tracks,).
    """
    slices = trace.slices
    for part in chunks(len(slices)):
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
    for part in chunks(len(slices)):
        found[part] = among(slices.kind[part], kinds)
        if tracks is not None:
            found[part] &= tracks[slices.track[part]]
    return found


def of_role(trace: Trace, *roles: Role) -> Tracks:
    """Whether each track has one of some roles; (tracks,)."""
    return among(trace.tracks.role, roles)


def of_threads(trace: Trace, threads: Collection[int]) -> Tracks:
    """Whether each track is one of some; (tracks,)."""
    found = np.zeros(len(trace.tracks), dtype=bool)
    found[list(threads)] = True
    return found


def rows_of(trace: Trace, kinds: Collection[Kind], tracks: Tracks | None = None) -> Rows:
    """As `chosen`, all at once: of kinds of which there are few."""
    return joined(chosen(trace, kinds, tracks), NO_ROWS)


__all__ = ["Rows", "Tracks", "chosen", "mask", "of_role", "of_threads", "rows_of"]
