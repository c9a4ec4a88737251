"""Adds the iterations of a Megatron-LM training as steps, and the waits of pipeline stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.columns.growing import Growing
from stepwhy.read.formats.megascan.ranges import exchanges
from stepwhy.trace import NULL, Kind, Phase, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Times
    from stepwhy.read.formats.megascan.ranges import Ranges
    from stepwhy.trace import TraceBuilder


NOT_RECORDED = "exchange with other stages (not recorded)"
"""Name of the gaps between the passes of a pipeline stage."""


class Iteration(NamedTuple):
    """An iteration of the training loop on one rank.

    Args:
        rank: The rank.
        number: Number of the iteration.
        start_ns: Start.
        end_ns: End.
        gaps_end_ns: Until when a rank that has finished its passes waits for others; NULL if the
            wait cannot be distinguished from the update of the weights.
    """

    rank: int
    number: int
    start_ns: int
    end_ns: int
    gaps_end_ns: int


def add_iterations(builder: TraceBuilder, iterations: Iterable[Iteration]) -> None:
    """Add the iterations as step markers of their ranks."""
    for one in iterations:
        track = builder.track(
            Role.HOST_THREAD, f"rank {one.rank}", process=one.rank, thread=one.rank
        )
        name = f"iteration {one.number}"
        builder.slice(track, Kind.STEP, name, one.start_ns, one.end_ns - one.start_ns)


def add_gaps(
    builder: TraceBuilder,
    ranges: Ranges,
    iterations: Sequence[Iteration],
    devices: dict[int, int],
) -> None:
    """Add the time between the passes of a pipeline stage as waits for other stages.

    Between two passes of an iteration, a stage in Megatron-LM's schedules only exchanges
    activations and gradients with its neighbours, and waits for them. Files that record the
    exchanges, and runs without a pipeline, get no waits.

    Args:
        builder: Receives tracks and slices.
        ranges: All ranges.
        iterations: All iterations.
        devices: Row of every rank's GPU.
    """
    if not guesses_gaps(ranges):
        return
    members = _members(ranges)
    starts, ends, rank = Growing(np.int64), Growing(np.int64), Growing(np.int32)
    for one in iterations:
        rows = members.get((one.rank, one.number))
        if rows is not None:
            begin, end = _gaps(one, ranges, rows)
            starts.append(begin)
            ends.append(end)
            rank.append(np.full(len(begin), one.rank))
    if len(starts):
        _add_waits(builder, rank.values(), devices, starts.values(), ends.values())


def _add_waits(
    builder: TraceBuilder,
    rank: NDArray[np.int32],
    devices: dict[int, int],
    starts: Times,
    ends: Times,
) -> None:
    """Add waits, on one track per rank."""
    ranks, first, which = np.unique(rank, return_index=True, return_inverse=True)
    tracks, name = np.zeros(len(ranks), dtype=np.int32), NULL
    for place in np.argsort(first).tolist():
        one = int(ranks[place])
        tracks[place] = builder.track(
            Role.EXECUTOR, "pipeline", process=one, thread=one, device=devices[one]
        )
        name = builder.intern(NOT_RECORDED)
    builder.slices_from(
        {
            "track": tracks[which],
            "kind": np.broadcast_to(np.int8(Kind.WAIT), len(rank)),
            "name": np.broadcast_to(np.int32(name), len(rank)),
            "start_ns": starts,
            "dur_ns": ends - starts,
        }
    )


def guesses_gaps(ranges: Ranges) -> bool:
    """Whether the ranges are of a pipeline whose exchanges were not recorded."""
    is_pipeline = bool(((ranges.stage > 0) | (ranges.chunk > 0)).any()) or _runs_ahead(ranges)
    exchanging = np.asarray([exchanges(name) for name in ranges.names], dtype=bool)
    return is_pipeline and not exchanging[ranges.name].any()


def _runs_ahead(ranges: Ranges) -> bool:
    """Whether a rank begins a forward pass before the backward pass of the last microbatch.

    Without a pipeline, the passes of a microbatch end before those of the next one begin.
    """
    order = np.lexsort((ranges.start_ns, ranges.iteration, ranges.rank))
    phases = ranges.phases()[order]
    pending = np.cumsum((phases == Phase.FORWARD).astype(np.int64) - (phases == Phase.BACKWARD))
    rank, iteration = ranges.rank[order], ranges.iteration[order]
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (rank[1:] != rank[:-1]) | (iteration[1:] != iteration[:-1])
    first = np.flatnonzero(is_new)
    before = np.append(0, pending)[first]
    return bool((pending - np.repeat(before, np.diff(first, append=len(order))) > 1).any())


def _members(ranges: Ranges) -> dict[tuple[int, int], NDArray[np.int32]]:
    """The ranges of every rank and iteration, ordered by start."""
    order = np.lexsort((ranges.start_ns, ranges.iteration, ranges.rank)).astype(np.int32)
    rank, iteration = ranges.rank[order], ranges.iteration[order]
    cuts = np.flatnonzero((rank[1:] != rank[:-1]) | (iteration[1:] != iteration[:-1])) + 1
    groups = [rows for rows in np.split(order, cuts) if len(rows)]
    return {(int(ranges.rank[g[0]]), int(ranges.iteration[g[0]])): g for g in groups}


def _gaps(iteration: Iteration, ranges: Ranges, rows: NDArray[np.int32]) -> tuple[Times, Times]:
    """Starts and ends of the times of an iteration between the ranges of its rank.

    Before its first range, only a later stage waits: the first stage has its input at once.
    """
    starts = ranges.start_ns[rows]
    waits_at_start = bool((ranges.stage[rows] > 0).any())
    begin = iteration.start_ns if waits_at_start else int(starts[0])
    cursor = np.maximum.accumulate(np.append(begin, ranges.end_ns[rows]))
    until = np.append(starts, iteration.gaps_end_ns)
    idle = until > cursor
    return cursor[idle], until[idle]
