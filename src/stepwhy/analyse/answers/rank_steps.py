"""How long each rank works and waits in each step; of many ranks and steps, a summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.lateness.late_ranks import ledger_of
from stepwhy.result import RankSteps, RankStepsRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lateness.ledger import Ledger
    from stepwhy.analyse.ranks.rank_times import Rank

    Ints = NDArray[np.int64]

# More rows or columns do not fit on a page.
_MOST_ROWS, _MOST_COLUMNS = 64, 80
# Of more ranks, so many have a row of their own.
_ALONE = 32


class StepTimes(msgspec.Struct, frozen=True):
    """What ranks do in each step that all of them recorded.

    Args:
        ranks: Numbers of the ranks, ascending; (ranks,).
        steps: Numbers of the steps; (steps,).
        work: Time outside of communication, as recorded, ns; (ranks, steps).
        wait: Time in collectives until the last rank has arrived, ns; (ranks, steps).
    """

    ranks: Ints
    steps: Ints
    work: Ints
    wait: Ints


def rank_steps(facts: Facts) -> RankSteps | None:
    """A summary of the steps of all ranks; None if the waits of no two of them are known."""
    times = step_times(facts)
    return None if times is None else _summary(times)


def step_times(facts: Facts) -> StepTimes | None:
    """The steps of all ranks of `Facts.ranks`; None if the waits of no two of them are known."""
    ledger = facts.derived(ledger_of)
    if ledger is None:
        return None
    places = np.flatnonzero(np.bincount(ledger.rank[ledger.split], minlength=len(ledger.ranks)))
    work = _work(ledger, facts.ranks)
    if len(places) < 2 or work is None:
        return None
    wait = ledger.per_step(ledger.wait_ns, ledger.split)
    return StepTimes(np.array(ledger.ranks)[places], ledger.steps, work[places], wait[places])


def _work(ledger: Ledger, ranks: Sequence[Rank]) -> Ints | None:
    """Time outside of communication in the steps of the ledger; (ranks, steps); None if unknown."""
    by_number = {rank.number: rank for rank in ranks}
    found = []
    for number in ledger.ranks:
        rank = by_number[number]
        if rank.collectives is None or len(rank.own_ns) != len(rank.collectives.steps):
            return None
        found.append(rank.own_ns[np.searchsorted(rank.collectives.steps, ledger.steps)])
    return np.array(found)


def _summary(times: StepTimes) -> RankSteps:
    """At most so many rows and columns as a page can show."""
    per_column = -(-len(times.steps) // _MOST_COLUMNS)
    first = np.arange(0, len(times.steps), per_column)
    work, wait = _means(times.work, first), _means(times.wait, first)
    return RankSteps(
        steps=tuple(times.steps[first].tolist()),
        per_column=per_column,
        rows=tuple(
            RankStepsRow(
                tuple(times.ranks[places].tolist()),
                _medians(work[places]),
                _medians(wait[places]),
            )
            for places in _rows(work)
        ),
    )


def _means(times: Ints, first: Ints) -> Ints:
    """Means of the steps of each column; (ranks, columns)."""
    lengths = np.diff(first, append=times.shape[1])
    means: Ints = np.rint(np.add.reduceat(times, first, axis=1) / lengths).astype(np.int64)
    return means


def _medians(times: Ints) -> tuple[int, ...]:
    return tuple(np.rint(np.median(times, axis=0)).astype(np.int64).tolist())


def _rows(work: Ints) -> list[Ints]:
    """Places of the ranks of each row.

    Args:
        work: Time outside of communication; (ranks, columns).
    """
    every = np.arange(len(work))
    if len(work) <= _MOST_ROWS:
        return list(every[:, None])
    more = (work - np.median(work, axis=0)).max(axis=1)
    alone = np.sort(np.argsort(-more, kind="stable")[:_ALONE])
    others = np.setdiff1d(every, alone)
    return [*alone[:, None], *np.array_split(others, _MOST_ROWS - _ALONE)]
