"""What the collectives of all ranks tell about a timeline: one clock, and who waits when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.analyse.lateness.ledger import make_ledger
from stepwhy.base.columns.intervals import Intervals
from stepwhy.result.timeline import DRAWN_CATEGORIES, ClockMatch
from stepwhy.show.timeline.slices import Drawn, drawn
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.lateness.ledger import Ledger
    from stepwhy.analyse.ranks.rank_times import Rank

    Ints = NDArray[np.int64]

# Clocks that can be compared only within more than this share of the step are not aligned: the
# collectives do not end together, or the ranks leave them when they get a core.
_MOST_SPREAD = 0.02
_ENDS = ("starts", "ends")
_COMMUNICATION, _WAIT = map(DRAWN_CATEGORIES.index, ("communication", "wait"))


class RankClock(msgspec.Struct, frozen=True):
    """The clock of a rank, compared with that of the first one.

    Args:
        offset_ns: How much later it shows a time.
        drift: How much faster it runs, as a fraction.
        origin_ns: Time on it from which it drifts.
    """

    offset_ns: int = 0
    drift: float = 0.0
    origin_ns: int = 0

    def aligned(self, times_ns: Ints) -> Ints:
        """Times of the rank on the clock of the first one; the order of times stays."""
        drifted = np.rint((times_ns - self.origin_ns) * self.drift).astype(np.int64)
        result: Ints = times_ns - self.offset_ns - drifted
        return result


class Alignment(msgspec.Struct, frozen=True):
    """What the collectives tell.

    Args:
        waits: When each rank waits for the last one, on its own clock; (ranks,).
        clocks: The clocks of the ranks; None if they cannot be compared; (ranks,).
        match: How well they can be compared; None likewise.
    """

    waits: tuple[Intervals, ...]
    clocks: tuple[RankClock, ...] | None = None
    match: ClockMatch | None = None


def alignment_of(ranks: Sequence[Rank | None], world_size: int = NULL) -> Alignment | None:
    """What the collectives of some ranks tell; None if two of them have none in common.

    Args:
        ranks: The ranks by number; None for one that cannot be compared.
        world_size: Number of ranks of the job, if it is recorded.
    """
    known = [rank for rank in ranks if rank is not None]
    ledger = make_ledger(known, world_size)
    if ledger is None:
        return None
    place = {number: i for i, number in enumerate(ledger.ranks)}
    places = [NULL if rank is None else place.get(rank.number, NULL) for rank in ranks]
    waits = tuple(Intervals.empty() if i == NULL else _waits(ledger, i) for i in places)
    if NULL in places or not _is_comparable(ledger, known):
        return Alignment(waits)
    clocks = tuple(_clock(ledger, i) for i in places)
    match = ClockMatch(
        ledger.clocks.spread_ns,
        max(abs(clock.offset_ns) for clock in clocks),
        max(abs(clock.drift) for clock in clocks),
    )
    # Clocks that agree as far as can be measured stay as they are.
    return Alignment(waits, clocks if match.differs else (RankClock(),) * len(ranks), match)


def _is_comparable(ledger: Ledger, ranks: Sequence[Rank]) -> bool:
    """Whether all clocks can be compared, well enough for steps of this length."""
    clocks = ledger.clocks
    step_ns = float(np.median([rank.wall_ns for rank in ranks]))
    is_close = clocks.spread_ns != NULL and clocks.spread_ns <= _MOST_SPREAD * step_ns
    return is_close and bool((clocks.offset_ns != NULL).all())


def _clock(ledger: Ledger, place: int) -> RankClock:
    clocks = ledger.clocks
    return RankClock(
        int(clocks.offset_ns[place]), float(clocks.drift[place]), int(clocks.origin_ns[place])
    )


def _waits(ledger: Ledger, place: int) -> Intervals:
    rows = np.flatnonzero((ledger.rank == place) & ledger.split)
    starts = ledger.start_ns[rows]
    return Intervals.of(starts, starts + ledger.wait_ns[rows])


def with_waits(slices: Drawn, strip: int, waits: Intervals) -> Drawn:
    """The slices with the communication of one strip divided into waits and the rest.

    Args:
        slices: The slices.
        strip: The strip that shows where the time goes.
        waits: When the rank waits, on the clock of the slices.
    """
    is_divided = (slices.strip == strip) & (slices.category == _COMMUNICATION)
    if not len(waits) or not is_divided.any():
        return slices
    whole = Intervals.of(slices.start_ns[is_divided], slices.end_ns[is_divided])
    parts = [(whole & waits, _WAIT), (whole - waits, _COMMUNICATION)]
    starts, ends = (np.concatenate([getattr(p, name) for p, _ in parts]) for name in _ENDS)
    category = np.repeat([c for _, c in parts], [len(p) for p, _ in parts])
    added = drawn(np.full(len(starts), strip), starts, ends, category)
    return _merged(slices, np.flatnonzero(~is_divided), added)


def _merged(slices: Drawn, kept: Ints, added: Drawn) -> Drawn:
    """Some of the slices and others, in the order of strips and starts."""
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(slices, name)[kept], getattr(added, name)])
        for name in Drawn.__struct_fields__
    }
    order = np.lexsort((columns["start_ns"], columns["strip"]))
    place = np.full(len(slices), NULL, dtype=np.int64)
    inverse = np.empty_like(order)
    inverse[order] = np.arange(len(order))
    place[kept] = inverse[: len(kept)]
    launch = columns["launch"]
    columns["launch"] = np.where(launch == NULL, NULL, place[launch])
    return Drawn(**{name: values[order] for name, values in columns.items()})
