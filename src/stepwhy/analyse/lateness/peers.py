"""Ranks that have the same collectives, and how long each waits in each step."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.lateness.ledger import members_of
from stepwhy.analyse.ranks.others import median_of_others
from stepwhy.result import CATEGORIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.lateness.ledger import Ledger
    from stepwhy.analyse.ranks.rank_times import Rank

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

# A step is long if a rank is late by this share of the step. Less is the variation between steps,
# and where no step is long, no rank costs as much.
_LONG = 0.1


class Peers(msgspec.Struct, frozen=True):
    """Ranks that have the same collectives, and wait for each other.

    Args:
        numbers: Numbers of the ranks.
        waits: How long each waits; (ranks, steps), ns.
        times: Time of each category; (ranks, steps, categories), ns; without steps if unknown.
        wall_ns: Wall time of the step.
        complete: Whether all ranks of all their groups are recorded.
    """

    numbers: tuple[int, ...]
    waits: Ints
    times: Ints
    wall_ns: int
    complete: bool = True

    def some(self, chosen: Mask) -> Peers:
        """Some of them, as if the others were as early as the earliest of these.

        Args:
            chosen: Mask of the ranks; (ranks,).
        """
        waits = self.waits[chosen] - self.waits[chosen].min(axis=0)
        numbers = tuple(np.array(self.numbers)[chosen].tolist())
        return Peers(numbers, waits, self.times[chosen], self.wall_ns, self.complete)

    def behind(self) -> Floats:
        """By how much the others, their median, wait longer than each rank; (ranks, steps)."""
        result: Floats = np.maximum(median_of_others(self.waits) - self.waits, 0)
        return result

    def is_long(self, behind_ns: Floats) -> Mask:
        """Whether a rank is so late in a step that it matters; (steps,).

        Args:
            behind_ns: How late the last rank is in each step; (steps,).
        """
        found: Mask = behind_ns >= max(_LONG * self.wall_ns, 1)
        return found

    def own_ns(self) -> Floats | None:
        """How much longer each spends outside of communication than the others; (ranks,).

        Sums of all steps, compared with the median of the others; None if unknown. Where the host
        runs ahead, work of one step may be recorded in the next one.
        """
        if not self.times.shape[1]:
            return None
        is_own = np.array([name != "communication" for name in CATEGORIES])
        own = self.times[:, :, is_own].sum(axis=(1, 2))
        result: Floats = own - median_of_others(own)
        return result

    def excess_ns(self, chosen: Mask) -> dict[str, int]:
        """How much longer some ranks in some steps spend in each category than the median rank.

        Args:
            chosen: Mask of the ranks in each step; (ranks, steps).
        """
        if not self.times.shape[1]:
            return {}
        means = (self.times - np.median(self.times, axis=0))[chosen].mean(axis=0)
        return dict(zip(CATEGORIES, np.round(means).astype(np.int64).tolist(), strict=True))


def find_peers(ledger: Ledger, ranks: Sequence[Rank]) -> list[Peers]:
    """All sets of at least two ranks that have the same collectives, and wait for each other.

    Args:
        ledger: The ledger of the ranks.
        ranks: The ranks.
    """
    by_number = {rank.number: rank for rank in ranks}
    known = [by_number[number] for number in ledger.ranks]
    waits = ledger.per_step(ledger.wait_ns, ledger.split)
    times = _times(ledger, known)
    wall_ns = round(float(np.median([rank.wall_ns for rank in known])))
    found = []
    for places in _alike(ledger, [rank.stage for rank in known]):
        rows = np.isin(ledger.rank, places) & ledger.split
        numbers = tuple(ledger.ranks[place] for place in places)
        complete = bool(ledger.complete[rows].all())
        found.append(Peers(numbers, waits[places], times[places], wall_ns, complete))
    return found


def _times(ledger: Ledger, ranks: Sequence[Rank]) -> Ints:
    """Time of each category in the steps of the ledger; (ranks, steps, categories).

    Without steps if it is not known of all ranks.
    """
    found = []
    for rank in ranks:
        if rank.per_step is None or rank.collectives is None:
            return np.empty((len(ranks), 0, len(CATEGORIES)), dtype=np.int64)
        found.append(rank.per_step[np.searchsorted(rank.collectives.steps, ledger.steps)])
    return np.array(found)


def _alike(ledger: Ledger, stages: Sequence[int]) -> list[list[int]]:
    """Places of the ranks of each set.

    Args:
        ledger: The ledger.
        stages: Pipeline stage of each rank; (ranks,).
    """
    rows = np.flatnonzero(ledger.split)
    pairs = np.stack(members_of(ledger.role[rows], ledger.rank[rows]))
    joined = list(range(len(ledger.ranks)))
    first: dict[int, int] = {}
    roles = defaultdict(list)
    for place, rank in pairs.T.tolist():
        role = ledger.roles[place]
        roles[rank].append((role.operation, role.description, role.size))
        joined[_root(joined, rank)] = _root(joined, first.setdefault(place, rank))
    found = defaultdict(list)
    for rank, mine in sorted(roles.items()):
        found[_root(joined, rank), stages[rank], tuple(sorted(mine))].append(rank)
    return [same for same in found.values() if len(same) > 1]


def _root(joined: list[int], place: int) -> int:
    """The rank that stands for all ranks with which a rank has groups in common."""
    while joined[place] != place:
        place = joined[place]
    return place
