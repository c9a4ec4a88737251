"""A row per rank: how long it works and waits, and how long the others wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.analyse.lateness.late_ranks import lateness_of, ledger_of
from stepwhy.analyse.lateness.late_work import late_work
from stepwhy.analyse.lateness.ledger import rows_of_role
from stepwhy.read.kernel_names.collectives import ALL_TO_ALL, bus_bandwidth
from stepwhy.result import GroupUse, RankUse
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lateness.ledger import Ledger
    from stepwhy.analyse.ranks.rank_times import Rank

    Ints = NDArray[np.int64]


def rank_uses(facts: Facts) -> tuple[RankUse, ...]:
    """A row per rank of `Facts.ranks`, in their order; empty for a single rank."""
    if len(facts.ranks) < 2:
        return ()
    ledger = facts.derived(ledger_of)
    times = {} if ledger is None else _times(ledger)
    for number, late in _late(facts).items():
        times[number] |= late
    ranks = sorted(facts.ranks, key=lambda rank: rank.number)
    return tuple(_row(facts, rank, times.get(rank.number, {})) for rank in ranks)


def _row(facts: Facts, rank: Rank, times: dict[str, int]) -> RankUse:
    work, scale = late_work(facts, rank), _scale(rank)
    times = {
        name: round(scale * value) if name.endswith("_ns") else value
        for name, value in times.items()
    }
    return RankUse(
        rank=rank.number,
        step_ns=rank.wall_ns,
        work_ns=rank.work_ns,
        longer="" if work is None else work.category,
        longer_ns=None if work is None else work.more_ns,
        operation="" if work is None else work.operation,
        phase="" if work is None else work.phase,
        line="" if work is None else work.line,
        **times,
    )


def _scale(rank: Rank) -> float:
    """What times of recorded steps are multiplied by, to have the time scale of unprofiled ones."""
    if rank.per_step is None or not rank.per_step.size:
        return 1.0
    recorded_ns = float(rank.per_step.sum(axis=1).mean())
    return min(rank.wall_ns / recorded_ns, 1.0) if recorded_ns else 1.0


def _late(facts: Facts) -> dict[int, dict[str, int]]:
    """How late each rank is in the mean step, and in how many steps, if too many for chance."""
    found: dict[int, dict[str, int]] = {}
    for one in facts.derived(lateness_of):
        means = np.round(one.peers.behind().mean(axis=1)).astype(np.int64).tolist()
        found |= {
            number: {"late_ns": ns} for number, ns in zip(one.peers.numbers, means, strict=True)
        }
        if one.late is not None:
            for number, count in zip(one.late.ranks, one.late.late_steps, strict=True):
                found[number]["late_steps"] = count
    return found


def _times(ledger: Ledger) -> dict[int, dict[str, int]]:
    """Times in collectives, and of what others wait, per rank and mean step, as far as known."""
    split, last = np.flatnonzero(ledger.split), last_rows(ledger)
    waits = np.zeros(int(ledger.collective[-1]) + 1, dtype=np.int64)
    np.add.at(waits, ledger.collective[split], ledger.wait_ns[split])
    sums = {
        "wait_ns": _sums(ledger, split, ledger.wait_ns),
        "transfer_ns": _sums(ledger, split, ledger.transfer_ns),
        "caused_wait_ns": _sums(ledger, last, waits[ledger.collective]),
    }
    unsplit_ns = _sums(ledger, np.flatnonzero(~ledger.split), ledger.dur_ns)
    counts = np.bincount(ledger.rank[last], minlength=len(ledger.ranks)).tolist()
    is_known = np.bincount(ledger.rank[split], minlength=len(ledger.ranks)) > 0
    found = {}
    for place, number in enumerate(ledger.ranks):
        found[number] = {"unsplit_ns": round(unsplit_ns[place] / len(ledger.steps))}
        if is_known[place]:
            means = {name: round(ns[place] / len(ledger.steps)) for name, ns in sums.items()}
            found[number] |= means | {"last": counts[place]}
    return found


def _sums(ledger: Ledger, rows: Ints, values: Ints) -> list[int]:
    """Sums of some rows of a column per rank; (ranks,)."""
    sums = np.zeros(len(ledger.ranks), dtype=np.int64)
    np.add.at(sums, ledger.rank[rows], values[rows])
    return sums.tolist()


def last_rows(ledger: Ledger) -> Ints:
    """The row of the rank that arrived last, of each collective whose time is split."""
    rows = np.flatnonzero(ledger.wait_ns == 0)
    _, first = np.unique(ledger.collective[rows], return_index=True)
    return rows[first]


def group_uses(facts: Facts) -> tuple[GroupUse, ...]:
    """A row per kind of collective and process group, the longest first."""
    ledger = facts.derived(ledger_of)
    if ledger is None:
        return ()
    found = [_group(ledger, place) for place in np.unique(ledger.role).tolist()]
    return tuple(sorted(found, key=lambda group: -group.time_ns))


def _group(ledger: Ledger, place: int) -> GroupUse:
    role, steps = ledger.roles[place], len(ledger.steps)
    rows = rows_of_role(ledger.role, place)
    ranks = np.unique(ledger.rank[rows])
    per_rank = steps * len(ranks)
    first = rows[np.diff(ledger.collective[rows], prepend=NULL).astype(bool)]
    is_split = bool(ledger.split[rows].all())
    sizes, moves = ledger.bytes[first], int(ledger.transfer_ns[first].sum())
    total = int(sizes.sum()) if (sizes != NULL).all() else None
    size = len(ranks) if role.size == NULL and ledger.complete[rows].all() else role.size
    return GroupUse(
        operation=role.operation,
        group=role.group,
        description=role.description,
        ranks=tuple(ledger.ranks[rank] for rank in ranks.tolist()),
        size=None if size == NULL else size,
        count=len(first) / steps,
        bytes=None if total is None else round(total / steps),
        time_ns=round(int(ledger.dur_ns[rows].sum()) / per_rank),
        wait_ns=round(int(ledger.wait_ns[rows].sum()) / per_rank) if is_split else None,
        transfer_ns=round(moves / steps) if is_split else None,
        bus_bandwidth=bus_bandwidth(role.operation, size, total, moves) if is_split else None,
        split=_how(ledger, rows, is_split=is_split),
    )


def _how(ledger: Ledger, rows: Ints, *, is_split: bool) -> str:
    if not is_split:
        return "no"
    is_own = ledger.roles[int(ledger.role[rows[0]])].operation == ALL_TO_ALL
    return "bound" if is_own or not ledger.complete[rows].all() else "exact"
