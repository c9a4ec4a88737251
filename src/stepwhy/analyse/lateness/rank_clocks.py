"""Clocks of ranks, aligned by collectives that end on all of them together.

"No rank finishes before the last one has arrived" bounds the offset between two clocks only by the
wait, so it is least certain where one rank is late. That ranks finish together leaves microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

# Fewer ends do not show how fast a clock runs.
_FEWEST_FOR_DRIFT = 4
# Of the ends that differ most from the others, in either direction, so many do not count.
_SPREAD = 0.95


class Clocks(msgspec.Struct, frozen=True):
    """The clocks of the ranks, compared with that of the first one.

    Args:
        offset_ns: How much later each clock shows the time of the first common end; NULL if no
            collective connects the rank with the first one; (ranks,).
        drift: How much faster each clock runs, as a fraction; (ranks,).
        origin_ns: First common end, on the clock of each rank; (ranks,).
        spread_ns: By how much common ends still differ, of 95 % of them: the error of every time
            that compares two ranks; NULL if no clock was aligned.
        ends_ns: How much later each row ends than the mean of the ranks, NULL if unknown; (rows,).
    """

    offset_ns: Ints
    drift: Floats
    origin_ns: Ints
    spread_ns: int
    ends_ns: Ints

    def aligned(self, rank: Ints, times_ns: Ints) -> Ints:
        """Times on the clock of the first rank.

        Args:
            rank: Places of the ranks; (times,).
            times_ns: Times on their clocks; (times,).
        """
        since = times_ns - self.origin_ns[rank]
        slower = np.round(since * self.drift[rank]).astype(np.int64)
        result: Ints = times_ns - self.offset_ns[rank] - slower
        return result


def align(table: Mapping[str, Ints], together: NDArray[np.bool_], ranks: int) -> Clocks:
    """Align the clocks of ranks with that of the first one.

    Args:
        table: Columns of a `Ledger`, ordered by collective and rank: role, rank, collective,
            start_ns and dur_ns.
        together: Mask of the rows of collectives that end together; (rows,).
        ranks: Number of ranks.
    """
    ends = table["start_ns"] + table["dur_ns"]
    offset, origin = np.zeros((2, ranks), dtype=np.int64)
    clocks = Clocks(offset, np.zeros(ranks), origin, NULL, np.full(len(ends), NULL))
    is_aligned = np.arange(ranks) == 0
    origin[0] = int(ends[table["rank"] == 0].min(initial=np.iinfo(np.int64).max))
    blocks = _blocks(table, together)
    while sum(_extend(clocks, is_aligned, ends[r], table["rank"][r[:, 0]]) for r in blocks):
        pass
    offset[~is_aligned] = NULL
    late = [_lateness(clocks, is_aligned, ends, table["rank"], rows) for rows in blocks]
    for rows, differences in late:
        clocks.ends_ns[rows] = differences
    known = np.concatenate([np.abs(d) for _, d in late]) if late else np.empty(0)
    spread = round(float(np.quantile(known, _SPREAD))) if len(known) else NULL
    return replace(clocks, spread_ns=spread)


def _blocks(table: Mapping[str, Ints], together: NDArray[np.bool_]) -> list[Ints]:
    """Rows of each role as a matrix; (ranks, collectives).

    The role with most ranks is first; of several, that whose ranks finish most closely together.
    """
    found = []
    ends = table["start_ns"] + table["dur_ns"]
    chosen = np.flatnonzero(together)
    first = np.flatnonzero(np.diff(table["role"][chosen], prepend=NULL))
    for rows in np.split(chosen, first[1:]) if len(chosen) else []:
        count = len(np.unique(table["collective"][rows]))
        found.append(rows.reshape(count, -1).T)
    return sorted(found, key=lambda rows: (-len(rows), _spread(ends[rows])))


def _spread(ends: Ints) -> float:
    """By how much the times between common ends differ between ranks, the median of all, ns.

    What is taken for one group, and is several, does not end together.
    """
    relative = ends - ends[:1]
    relative -= relative[:, :1]
    return float(np.median(np.abs(relative - np.median(relative, axis=1, keepdims=True))))


def _extend(clocks: Clocks, is_aligned: NDArray[np.bool_], ends: Ints, rank: Ints) -> bool:
    """Align those clocks that have common ends with an aligned one; whether there are any.

    Args:
        clocks: The clocks so far, changed in place.
        is_aligned: Which of them are aligned, changed in place; (all ranks,).
        ends: Common ends; (ranks, collectives).
        rank: Their ranks; (ranks,).
    """
    known = is_aligned[rank]
    if known.all() or not known.any():
        return False
    reference = clocks.aligned(rank[known][0], ends[known][0])
    for place in np.flatnonzero(~known).tolist():
        one, own = int(rank[place]), ends[place]
        since = (own - own[0]).astype(np.float64)
        behind = own - reference
        relative = (behind - behind[0]).astype(np.float64)
        drift = _slope(since, relative)
        clocks.origin_ns[one], clocks.drift[one] = own[0], drift
        clocks.offset_ns[one] = behind[0] + round(float(np.median(relative - drift * since)))
        is_aligned[one] = True
    return True


def _slope(x: Floats, y: Floats) -> float:
    """Slope of the least squares line; 0 with too few points."""
    if len(x) < _FEWEST_FOR_DRIFT or not np.ptp(x):
        return 0.0
    x = x - x.mean()
    return float((x * (y - y.mean())).sum() / (x * x).sum())


def _lateness(
    clocks: Clocks, is_aligned: NDArray[np.bool_], ends: Ints, rank: Ints, rows: Ints
) -> tuple[Ints, Ints]:
    """Rows of aligned ranks, and by how much each ends later than the mean of these, ns."""
    rows = rows[is_aligned[rank[rows[:, 0]]]]
    if len(rows) < 2:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    times = clocks.aligned(rank[rows.ravel()], ends[rows.ravel()]).reshape(rows.shape)
    differences = times - times[:1]
    means = np.round(differences.mean(axis=0)).astype(np.int64)
    return rows.ravel(), (differences - means).ravel()
