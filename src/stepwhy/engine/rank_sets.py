"""Which ranks of a run are there: copies, files that are cut off, and missing ranks, by number."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.patterns import regex
from stepwhy.trace import NULL
from stepwhy.trace.health import CUT_OFF
from stepwhy.wording.notes import cut_ranks, missing_ranks, rank_again, ranks_by_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.answers.verdict import Decision
    from stepwhy.findings import Result
    from stepwhy.passes.calls import RunCalls
    from stepwhy.passes.ranks import Rank
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


class Analysed(msgspec.Struct, frozen=True):
    """One trace of a run: its result, and what other ranks are compared with.

    Args:
        trace: The trace.
        result: Its result.
        decision: What bounds its step.
        rank: Its summary, None if nothing can be compared.
        calls: The collectives that it has entered.
    """

    trace: Trace
    result: Result
    decision: Decision
    rank: Rank | None
    calls: RunCalls


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


File = TypeVar("File", bound=OfFile)
One = TypeVar("One", bound=OfTrace)


def numbered(opened: Sequence[Opened]) -> tuple[list[Opened], list[str]]:
    """The traces with the ranks that the names of their files tell, if they record none.

    Args:
        opened: The traces.

    Returns:
        The traces, and a note if the names were used.
    """
    paths = [one.path for one in opened]
    is_unknown = all(one.trace.meta.rank == NULL for one in opened)
    numbers = _numbers(paths) if len(opened) > 1 and is_unknown else None
    if numbers is None:
        return list(opened), []
    return [
        replace(one, trace=replace(one.trace, meta=replace(one.trace.meta, rank=number)))
        for one, number in zip(opened, numbers, strict=True)
    ], [ranks_by_name()]


def _numbers(paths: Sequence[str]) -> list[int] | None:
    """The numbers of ranks in which alone some paths differ; None if they differ in more."""
    without = {_NUMBERED.sub("#", path) for path in paths}
    found = [tuple(map(int, _NUMBERED.findall(path))) for path in paths]
    if len(without) > 1 or not found[0] or len(set(found)) < len(found):
        return None
    differing = [column for column in zip(*found, strict=True) if len(set(column)) > 1]
    return list(differing[0]) if len(differing) == 1 else None


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
    world_size = max(meta.world_size for meta in metas)
    if 1 < len(recorded) >= _MOST * world_size:  # a damaged file may name any number
        missing = sorted(set(range(world_size)) - recorded)
        notes += [missing_ranks(missing)] if missing else []
    return whole or list(analysed), notes


__all__ = [
    "Analysed",
    "Opened",
    "given_twice",
    "numbered",
    "whole_ranks",
    "why_several",
    "without_copies",
]
