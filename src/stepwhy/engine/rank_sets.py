"""Which ranks of a run are there: copies, files that are cut off, and missing ranks, by number."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from stepwhy.trace import NULL
from stepwhy.trace.health import CUT_OFF
from stepwhy.wording.notes import cut_ranks, missing_ranks, rank_again

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import Meta, Trace

# If fewer ranks than this share are recorded, the others were left out on purpose.
_MOST = 0.5


class OfTrace(Protocol):
    """What a trace belongs to."""

    @property
    def trace(self) -> Trace:
        """The trace."""


class OfFile(OfTrace, Protocol):
    """What a trace of a file belongs to."""

    @property
    def path(self) -> str:
        """The file."""


File = TypeVar("File", bound=OfFile)
One = TypeVar("One", bound=OfTrace)


def without_copies(opened: Sequence[File]) -> tuple[list[File], list[str]]:
    """The traces without those that contain the same record of a rank again.

    Args:
        opened: The traces of a run.

    Returns:
        The others, and what was left out, clauses without a full stop.
    """
    kept: list[File] = []
    seen: defaultdict[int, list[File]] = defaultdict(list)
    notes = []
    for one in opened:
        rank = one.trace.meta.rank
        first = next((o for o in seen[rank] if _is_same(o.trace, one.trace)), None)
        if rank != NULL and first is not None:
            notes.append(rank_again(one.path, rank, first.path))
            continue
        seen[rank].append(one)
        kept.append(one)
    return kept, notes


def _is_same(one: Trace, other: Trace) -> bool:
    """Whether two traces contain the same slices."""
    columns = ("start_ns", "dur_ns")
    pairs = [(getattr(one.slices, name), getattr(other.slices, name)) for name in columns]
    return len(one.slices) > 0 and all(np.array_equal(*pair) for pair in pairs)


def given_twice(metas: Sequence[Meta]) -> int | None:
    """The first rank that several traces are of; None if there is none."""
    ranks = [meta.rank for meta in metas]
    return next((rank for rank in ranks if rank != NULL and ranks.count(rank) > 1), None)


def whole_ranks(analysed: Sequence[One]) -> tuple[list[One], list[str]]:
    """The ranks whose record is whole, unless none is, and notes on the others by number.

    What a rank does after its file ends is unknown, so that it cannot be compared with the others.

    Args:
        analysed: The ranks of a run.
    """
    whole = [one for one in analysed if not any(map(one.trace.health.has, CUT_OFF))]
    metas = [one.trace.meta for one in analysed]
    recorded = {meta.rank for meta in metas}
    notes = []
    if whole:
        cut = sorted(recorded - {one.trace.meta.rank for one in whole})
        notes += [cut_ranks(cut)] if cut and len(analysed) > 1 else []
    missing = sorted(set(range(max(meta.world_size for meta in metas))) - recorded)
    if missing and 1 < len(recorded) >= _MOST * (len(recorded) + len(missing)):
        notes.append(missing_ranks(missing))
    return whole or list(analysed), notes


__all__ = ["given_twice", "whole_ranks", "without_copies"]
