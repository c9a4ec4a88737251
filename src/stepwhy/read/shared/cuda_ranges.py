"""Adds NVTX ranges of a database to a trace; ranges of a training loop become its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.base.columns.growing import Growing
from stepwhy.read.shared.nvtx import CALL_STACKS, find_steps, may_be_step, read_range
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.read.shared.cuda_activity import CudaActivity
    from stepwhy.read.shared.database import Rows
    from stepwhy.read.shared.nvtx import Range

_STACKS = (
    "Each operation wrote its call stack and its arguments into the trace (pyprof): that is work "
    "of the host, which is faster without it."
)


class NvtxRanges(NamedTuple):
    """A chunk of NVTX ranges.

    Args:
        rows: Their records, with the columns `TIMES`.
        texts: Their texts.
        domains: Names of their domains, '' for the default one.
        track: Tracks of their threads; (rows,).
        annotation_track: Tracks for the ranges that are plain annotations, because start-end ranges
            need not nest on their thread; `track` by default; (rows,).
    """

    rows: Rows
    texts: Sequence[str]
    domains: Sequence[str]
    track: NDArray[np.int64]
    annotation_track: NDArray[np.int64] | None = None

    def meanings(self) -> list[Range]:
        """Name, kind and phase of each range, by its text."""
        return [read_range(t, d) for t, d in zip(self.texts, self.domains, strict=True)]


def add_ranges(activity: CudaActivity, chunks: Iterable[NvtxRanges]) -> None:
    """Add NVTX ranges; the iterations of a training loop become its steps."""
    candidates = _StepCandidates()
    for chunk in chunks:
        ranges = chunk.meanings()
        candidates.add(len(activity), chunk, ranges)
        _add(activity, chunk, ranges)
    activity.mark_steps(*candidates.steps())


def _add(activity: CudaActivity, chunk: NvtxRanges, ranges: Sequence[Range]) -> None:
    """Add a chunk of ranges; steps are marked later, when all ranges are known."""
    if any(text.startswith(CALL_STACKS) for text in chunk.texts):
        activity.note(_STACKS)
    track = chunk.track
    # A range that only its name makes a step is an annotation.
    kind = _column(ranges, lambda r: int(Kind.ANNOTATION if r.kind is Kind.STEP else r.kind))
    if chunk.annotation_track is not None:
        track = np.where(kind == Kind.ANNOTATION, chunk.annotation_track, track)
    activity.add(
        chunk.rows,
        track=track,
        kind=kind,
        name=_column(ranges, lambda r: activity.intern(r.name)),
        phase=_column(ranges, lambda r: int(r.phase)),
        sequence=_column(ranges, lambda r: r.sequence),
        source=_column(ranges, lambda r: activity.intern(r.source) if r.source else NULL),
    )


class _StepCandidates:
    """The ranges whose names allow that they are steps."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._columns = [Growing(np.int64) for _ in range(4)]

    def add(self, first: int, chunk: NvtxRanges, ranges: Sequence[Range]) -> None:
        """Collect the candidates of a chunk.

        Args:
            first: Number of the slice of the chunk's first range; the others follow.
            chunk: The ranges.
            ranges: Their meanings; (rows,).
        """
        found = [(i, r.name) for i, r in enumerate(ranges) if may_be_step(r.name)]
        self._names += [name for _, name in found]
        chosen = np.asarray([i for i, _ in found], dtype=np.int64)
        rows = chunk.rows
        values = first + chosen, chunk.track[chosen], rows["start"][chosen], rows["end"][chosen]
        for column, added in zip(self._columns, values, strict=True):
            column.append(added)

    def steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Slices and tracks of the steps among the candidates; (steps,) each."""
        slices, tracks, *times = (column.values() for column in self._columns)
        steps = find_steps(self._names, tracks, *times)
        return slices[steps], tracks[steps]


def _column(ranges: Sequence[Range], value: Callable[[Range], int]) -> NDArray[np.int64]:
    return np.asarray([value(r) for r in ranges], dtype=np.int64)
