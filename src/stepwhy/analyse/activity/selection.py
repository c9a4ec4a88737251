"""Slices of some kinds on some tracks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stepwhy.base.columns.groups import keep_codes
from stepwhy.trace import among

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from stepwhy.trace import Kind, Role, Trace

Rows: TypeAlias = "NDArray[np.int64]"
Tracks: TypeAlias = "NDArray[np.bool_]"


def mask(trace: Trace, kinds: Collection[Kind], tracks: Tracks | None = None) -> NDArray[np.bool_]:
    """Mask of the slices of some kinds on some tracks; (slices,).

    Args:
        trace: The trace.
        kinds: The kinds.
        tracks: Mask of tracks, all by default; (tracks,).
    """
    found = among(trace.slices.kind, kinds)
    if tracks is not None and len(tracks):
        keep_codes(found, trace.slices.track, tracks)
    return found


def rows_of(trace: Trace, kinds: Collection[Kind], tracks: Tracks | None = None) -> Rows:
    """Rows of slices of some kinds, ascending.

    Args:
        trace: The trace.
        kinds: The kinds.
        tracks: Mask of tracks, all by default; (tracks,).
    """
    return np.flatnonzero(mask(trace, kinds, tracks))


def of_role(trace: Trace, *roles: Role) -> Tracks:
    """Mask of the tracks that have one of some roles; (tracks,)."""
    return among(trace.tracks.role, roles)


def of_threads(trace: Trace, threads: Collection[int]) -> Tracks:
    """Mask of some tracks; (tracks,)."""
    found = np.zeros(len(trace.tracks), dtype=bool)
    found[list(threads)] = True
    return found
