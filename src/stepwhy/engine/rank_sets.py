"""Which ranks of a run are there: copies, files that are cut off, and missing ranks, by number."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.base.patterns import regex
from stepwhy.result.wording.notes import cut_ranks, missing_ranks, rank_again, ranks_by_name
from stepwhy.trace import NULL
from stepwhy.trace.health import CUT_OFF

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import Meta, Trace

# What tools call the number of a rank in names of files and folders.
_NUMBERED = regex(r"(?:rank|worker|process|proc|task|host|node)[-_.]?(\d{1,6})", re.IGNORECASE)
# If fewer ranks than this share are recorded, the others were left out on purpose.
_MOST = 0.5


class Opened(msgspec.Struct, frozen=True):
    """One trace to explain, with the path and the format of its file."""

    path: str
    format: str
    trace: Trace

    @property
    def meta(self) -> Meta:
        """Facts about its run."""
        return self.trace.meta

    @property
    def record(self) -> bytes:
        """Digest of its slices, see `record_of`."""
        return record_of(self.trace)

    def numbered(self, rank: int) -> Self:
        """The same as a trace of a rank.

        Args:
            rank: Number of the rank.
        """
        return replace(self, trace=replace(self.trace, meta=replace(self.trace.meta, rank=rank)))


class OfRank(Protocol):
    """What is known of a trace of a run."""

    @property
    def path(self) -> str:
        """Its file."""

    @property
    def meta(self) -> Meta:
        """Facts about its run."""

    @property
    def record(self) -> bytes:
        """Digest of its slices, see `record_of`."""

    def numbered(self, rank: int) -> Self:
        """The same as a trace of a rank.

        Args:
            rank: Number of the rank.
        """


class OfFile(Protocol):
    """What may be cut off."""

    @property
    def meta(self) -> Meta:
        """Facts about its run."""

    @property
    def is_cut(self) -> bool:
        """Whether the end of its file is missing."""


def record_of(trace: Trace) -> bytes:
    """Digest of the times of all slices, the same for two copies of a record; b'' without slices.

    Args:
        trace: The trace.
    """
    if not len(trace.slices):
        return b""
    digest = blake2b(digest_size=16)
    for column in (trace.slices.start_ns, trace.slices.dur_ns):
        digest.update(np.ascontiguousarray(column, dtype=np.int64).data)
    return digest.digest()


def is_cut(trace: Trace) -> bool:
    """Whether the end of a trace's file is missing."""
    return any(map(trace.health.has, CUT_OFF))


def same_run(metas: Sequence[Meta]) -> bool:
    """Whether several traces are ranks of one run: same job size, every rank once."""
    return len({m.rank for m in metas}) == len(metas) and not why_several(metas)


def why_several(metas: Sequence[Meta]) -> str:
    """Why traces are not all of ranks of one run, a clause; '' if they may be."""
    unknown = sum(meta.rank == NULL for meta in metas)
    if unknown:
        return f"{unknown} of them {'records' if unknown == 1 else 'record'} no rank"
    kinds = {
        # A rank of which no step was traced has only the log of its steps.
        "formats": {meta.format for meta in metas} - {"step-log"},
        "frameworks": {meta.framework for meta in metas},
        "numbers of ranks": {str(meta.world_size) for meta in metas},
    }
    return next((f"their {name} differ" for name, found in kinds.items() if len(found) > 1), "")


Ranked = TypeVar("Ranked", bound=OfRank)
One = TypeVar("One", bound=OfFile)


def numbered(opened: Sequence[Ranked]) -> tuple[list[Ranked], list[str]]:
    """The traces with the ranks that the names of their files tell, if they record none.

    Args:
        opened: The traces.

    Returns:
        The traces, and a note if the names were used.
    """
    paths = [one.path for one in opened]
    is_unknown = all(one.meta.rank == NULL for one in opened)
    numbers = numbers_in(paths) if len(opened) > 1 and is_unknown else None
    if numbers is None:
        return list(opened), []
    ranked = [one.numbered(number) for one, number in zip(opened, numbers, strict=True)]
    return ranked, [ranks_by_name()]


def numbers_in(paths: Sequence[str]) -> list[int] | None:
    """The numbers of ranks in which alone some paths differ; None if they differ in more."""
    without = {_NUMBERED.sub("#", path) for path in paths}
    found = [tuple(map(int, _NUMBERED.findall(path))) for path in paths]
    if len(without) > 1 or not found[0] or len(set(found)) < len(found):
        return None
    differing = [column for column in zip(*found, strict=True) if len(set(column)) > 1]
    return list(differing[0]) if len(differing) == 1 else None


def without_copies(opened: Sequence[Ranked]) -> tuple[list[Ranked], list[str]]:
    """The traces without those that contain the same record of a rank again.

    Args:
        opened: The traces of a run.

    Returns:
        The others, and what was left out, clauses without a full stop.
    """
    kept: list[Ranked] = []
    seen: defaultdict[int, list[Ranked]] = defaultdict(list)
    notes = []
    for one in opened:
        rank = one.meta.rank
        # Most ranks are there once, and nothing has to be digested.
        others = seen[rank] if rank != NULL else []
        first = next((o for o in others if one.record and o.record == one.record), None)
        if first is not None:
            notes.append(rank_again(one.path, rank, first.path))
            continue
        seen[rank].append(one)
        kept.append(one)
    return kept, notes


def given_twice(metas: Sequence[Meta]) -> int | None:
    """The first rank that several traces are of; None if there is none."""
    counts = Counter(meta.rank for meta in metas)
    return next((rank for rank, count in counts.items() if rank != NULL and count > 1), None)


def whole_ranks(analysed: Sequence[One]) -> tuple[list[One], list[str]]:
    """The ranks whose record is whole, unless none is, and notes on the others by number.

    What a rank does after its file ends is unknown, so that it cannot be compared with the others.

    Args:
        analysed: The ranks of a run.
    """
    whole = [one for one in analysed if not one.is_cut]
    metas = [one.meta for one in analysed]
    recorded = {meta.rank for meta in metas}
    notes = []
    if whole:
        cut = sorted(recorded - {one.meta.rank for one in whole})
        notes += [cut_ranks(cut)] if cut and len(analysed) > 1 else []
    world_size = max(meta.world_size for meta in metas)
    if 1 < len(recorded) >= _MOST * world_size:  # a damaged file may name any number
        missing = sorted(set(range(world_size)) - recorded)
        notes += [missing_ranks(missing)] if missing else []
    return whole or list(analysed), notes
