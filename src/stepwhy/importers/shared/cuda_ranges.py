"""NVTX ranges from the tables of a database, some at a time; those that repeat become steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.importers.shared.chrome_json import Growing
from stepwhy.importers.shared.nvtx import CALL_STACKS, find_steps, may_be_step, read_range
from stepwhy.trace import NULL, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.importers.shared.cuda_rows import CudaRows
    from stepwhy.importers.shared.database import Rows
    from stepwhy.importers.shared.nvtx import Range

_STACKS = (
    "Each operation wrote its call stack and its arguments into the trace (pyprof): that is work "
    "of the host, which is faster without it."
)


class Described(NamedTuple):
    """What NVTX ranges are.

    Args:
        texts: Their texts.
        domains: Names of their domains.
        track: Their threads; (rows,).
        beside: Where those lie that say nothing about their thread: a track of their own for
            ranges that need not nest; (rows,).
    """

    texts: Sequence[str]
    domains: Sequence[str]
    track: NDArray[np.int64]
    beside: NDArray[np.int64] | None = None

    def ranges(self) -> list[Range]:
        """What their texts say."""
        return [read_range(t, d) for t, d in zip(self.texts, self.domains, strict=True)]


def add_ranges(
    rows: CudaRows, pieces: Iterable[Rows], describe: Callable[[Rows], Described]
) -> None:
    """Add NVTX ranges; those that are steps of a loop become its markers.

    Args:
        rows: Takes them.
        pieces: The ranges, some at a time.
        describe: What some of them are.
    """
    loops = _Loops()
    for piece in pieces:
        described = describe(piece)
        ranges = described.ranges()
        loops.add(len(rows), piece, ranges, described.track)
        _add(rows, piece, described, ranges)
    rows.mark_steps(*loops.steps())


def _add(rows: CudaRows, piece: Rows, described: Described, ranges: Sequence[Range]) -> None:
    """Add some ranges, none of which is known to be a step."""
    if any(text.startswith(CALL_STACKS) for text in described.texts):
        rows.note(_STACKS)
    track = described.track
    kind = _column(ranges, lambda r: _unproven(r.kind))
    if described.beside is not None:
        track = np.where(kind == Kind.ANNOTATION, described.beside, track)
    rows.add(
        piece,
        track=track,
        kind=kind,
        name=_column(ranges, lambda r: rows.intern(r.name)),
        phase=_column(ranges, lambda r: int(r.phase)),
        sequence=_column(ranges, lambda r: r.sequence),
        source=_column(ranges, lambda r: rows.intern(r.source) if r.source else NULL),
    )


class _Loops:
    """The ranges that are steps if they repeat."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._columns = [Growing(np.int64) for _ in range(4)]

    def add(
        self, first: int, piece: Rows, ranges: Sequence[Range], track: NDArray[np.int64]
    ) -> None:
        """Take those of some ranges that may be steps.

        Args:
            first: Number of the first one's slice; the others follow.
            piece: The ranges.
            ranges: What their texts say; (rows,).
            track: Their threads; (rows,).
        """
        found = [(i, r.name) for i, r in enumerate(ranges) if may_be_step(r.name)]
        self._names += [name for _, name in found]
        chosen = np.asarray([i for i, _ in found], dtype=np.int64)
        held = first + chosen, track[chosen], piece["start"][chosen], piece["end"][chosen]
        for column, values in zip(self._columns, held, strict=True):
            column.append(values)

    def steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Slices and tracks of those that are steps; (steps,) each."""
        slices, tracks, *times = (column.values() for column in self._columns)
        steps = find_steps(self._names, tracks, *times)
        return slices[steps], tracks[steps]


def _column(ranges: Sequence[Range], value: Callable[[Range], int]) -> NDArray[np.int64]:
    return np.asarray([value(r) for r in ranges], dtype=np.int64)


def _unproven(kind: Kind) -> int:
    """The kind of a range that is no step of a loop, whatever its name."""
    return int(Kind.ANNOTATION if kind is Kind.STEP else kind)


__all__ = ["Described", "add_ranges"]
