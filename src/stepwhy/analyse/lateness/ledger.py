"""The ledger of collectives: for each and each rank, how long it waited and how long data moved.

All ranks of an all-reduce, all-gather or reduce-scatter finish together, soon after the last one
has arrived. So the shortest duration of a collective is that of the rank that arrived last, and is
the time in which data moved; what it takes longer on another rank is that rank's wait. Only
durations are compared, so the clocks of the ranks need not agree.

A group runs its collectives one after the other. One that a rank calls while an earlier one is
still running, as DistributedDataParallel does with its buckets, counts from the end of that one:
otherwise a rank would wait for both at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.lateness.rank_clocks import align
from stepwhy.base.columns.groups import distinct
from stepwhy.read.kernel_names.collectives import ALL_TO_ALL, ENDS_TOGETHER
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.lateness.rank_clocks import Clocks
    from stepwhy.analyse.ranks.collectives import Collectives, Role
    from stepwhy.analyse.ranks.rank_times import Rank

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# A set of ranks may be one group although the trace names none. If it is, they finish together:
# their ends differ by less than this share of the waits: microseconds with NCCL, and with Gloo on
# busy cores some milliseconds. Ends of groups that do not wait for each other differ by about half.
_TOGETHER = 0.25


class Ledger(msgspec.Struct, frozen=True):
    """All collectives of all ranks; one row per collective and rank.

    Rows are ordered by role, step, place in the step, and rank. Times are in ns.

    Args:
        ranks: Numbers of the ranks; (ranks,).
        roles: What the collectives are, and their process groups.
        steps: Numbers of the steps that all ranks recorded, ascending.
        collective: Number of the collective, from 0 on; (rows,).
        role: Row of `roles`; (rows,).
        step: Number of the step; (rows,).
        rank: Place in `ranks`; (rows,).
        start_ns: Start on the clock of the rank; (rows,).
        dur_ns: Duration, without the time in which an earlier collective of the same rank and group
            was still running; (rows,).
        bytes: Size of the message, NULL if not recorded; (rows,).
        wait_ns: Duration beyond the shortest one of the collective; NULL if it cannot be split: of
            broadcasts, of sending and receiving, and where ranks do not have the same collectives.
            Of an all-to-all it contains what a rank moves longer than the one that moves least;
            (rows,).
        transfer_ns: The shortest duration of the collective, NULL likewise; (rows,).
        arrival_ns: Start after the first rank's, NULL where clocks cannot be aligned; (rows,).
        complete: Whether all ranks of the group are recorded. Otherwise waits may be longer, and
            transfers shorter; (rows,).
        clocks: The clocks of the ranks.
    """

    ranks: tuple[int, ...]
    roles: tuple[Role, ...]
    steps: Ints
    collective: Ints
    role: Ints
    step: Ints
    rank: Ints
    start_ns: Ints
    dur_ns: Ints
    bytes: Ints
    wait_ns: Ints
    transfer_ns: Ints
    arrival_ns: Ints
    complete: Mask
    clocks: Clocks

    @property
    def split(self) -> Mask:
        """Mask of the rows whose time is split; (rows,)."""
        known: Mask = self.wait_ns != NULL
        return known

    def per_step(self, values: Ints, where: Mask) -> Ints:
        """Sums of a column by rank and step; (ranks, steps).

        Args:
            values: The column; (rows,).
            where: Mask of the rows to add up; (rows,).
        """
        sums = np.zeros((len(self.ranks), len(self.steps)), dtype=np.int64)
        rows = np.flatnonzero(where)
        step = np.searchsorted(self.steps, self.step[rows])
        np.add.at(sums, (self.rank[rows], step), values[rows])
        return sums


def make_ledger(ranks: Sequence[Rank], world_size: int = NULL) -> Ledger | None:
    """The ledger of some ranks; None if there is no collective that two of them have.

    Where no step is of all ranks, because some were traced at another time, the ledger has the
    ranks that most of them share a step with.

    Args:
        ranks: The ranks.
        world_size: Number of ranks of the job, for groups whose size is not recorded.
    """
    known = sorted((r for r in ranks if r.collectives is not None), key=lambda r: r.number)
    known = _with_common_steps(known)
    parts = [r.collectives for r in known if r.collectives is not None]
    steps = _common_steps(parts)
    if len(parts) < 2 or not len(steps):
        return None
    table = _joined(parts, steps)
    if not len(table["dur_ns"]):
        return None
    roles, table["role"] = _common_roles(parts, table)
    table = _matched(table)
    holders = np.bincount(members_of(table["role"], table["rank"])[0], minlength=len(roles))
    table |= _split(table, roles, holders)
    sizes = np.array([world_size if r.size == NULL else r.size for r in roles])
    complete = (holders >= sizes) & (sizes != NULL)
    is_joint = np.array([role.operation in ENDS_TOGETHER for role in roles])
    clocks = align(table, is_joint[table["role"]] & (table["wait_ns"] != NULL), len(parts))
    unproven = _unproven(table, roles, clocks.ends_ns)
    for name in ("wait_ns", "transfer_ns"):
        table[name] = np.where(unproven[table["role"]], NULL, table[name])
    del table["expected"]
    return Ledger(
        ranks=tuple(r.number for r in known),
        roles=tuple(roles),
        steps=steps,
        complete=complete[table["role"]],
        arrival_ns=_arrivals(table, clocks),
        clocks=clocks,
        **table,
    )


def _with_common_steps(ranks: list[Rank]) -> list[Rank]:
    """The ranks that have steps in common, in the same order: all, or else as many as possible."""
    parts = [rank.collectives for rank in ranks if rank.collectives is not None]
    if len(_common_steps(parts)) or len({part.numbering for part in parts}) != 1:
        return ranks
    steps, counts = np.unique(np.concatenate([part.steps for part in parts]), return_counts=True)
    most = steps[np.argmax(counts)] if len(steps) else NULL
    return [rank for rank, part in zip(ranks, parts, strict=True) if most in part.steps]


def _common_steps(parts: Sequence[Collectives]) -> Ints:
    """Numbers of the steps that all ranks have; (steps,)."""
    if not parts or len({part.numbering for part in parts}) > 1:
        return np.empty(0, dtype=np.int64)
    steps = parts[0].steps
    for part in parts[1:]:
        steps = np.intersect1d(steps, part.steps)
    return steps


def _joined(parts: Sequence[Collectives], steps: Ints) -> dict[str, Ints]:
    """The collectives of all ranks in the common steps; roles are still those of each rank."""
    chosen = [np.flatnonzero(np.isin(part.step, steps)) for part in parts]
    names = ("role", "step", "start_ns", "dur_ns", "bytes")
    pairs = list(zip(parts, chosen, strict=True))
    table = {n: np.concatenate([getattr(p, n)[rows] for p, rows in pairs]) for n in names}
    table["dur_ns"] = np.concatenate([_successive_ns(p)[rows] for p, rows in pairs])
    counts = [len(rows) for rows in chosen]
    return table | {"rank": np.repeat(np.arange(len(parts)), counts)}


def _successive_ns(part: Collectives) -> Ints:
    """Durations of a rank's collectives, without overlap with earlier ones of the same group."""
    groups = {role.group: place for place, role in enumerate(part.roles)}
    of_role = np.array([groups[role.group] for role in part.roles], dtype=np.int64)
    found, ends_ns = part.dur_ns.copy(), part.start_ns + part.dur_ns
    for group in groups.values():
        rows = np.flatnonzero(of_role[part.role] == group)
        rows = rows[np.argsort(part.start_ns[rows], kind="stable")]
        until = np.maximum.accumulate(ends_ns[rows])[:-1]
        begin = np.maximum(part.start_ns[rows][1:], until)
        found[rows[1:]] = np.maximum(ends_ns[rows][1:] - begin, 0)
    return found


def _common_roles(parts: Sequence[Collectives], table: dict[str, Ints]) -> tuple[list[Role], Ints]:
    """The roles of all ranks, and the role of each row among them; (rows,)."""
    found: dict[Role, int] = {}
    places = [[found.setdefault(role, len(found)) for role in part.roles] for part in parts]
    first = np.cumsum([0, *map(len, places[:-1])])
    every = np.array([place for part in places for place in part], dtype=np.int64)
    return list(found), every[first[table["rank"]] + table["role"]]


def _matched(table: dict[str, Ints]) -> dict[str, Ints]:
    """The rows in the order of their collectives, with the numbers of these.

    The n-th collective of a role in a step is the same one on all ranks: a library runs those of a
    group in the order in which each rank calls them.
    """
    order = np.lexsort((table["rank"], table["step"], table["role"]))  # stable: by launch
    table = {name: values[order] for name, values in table.items()}
    is_first = np.ones(len(order), dtype=bool)
    for name in ("role", "step", "rank"):
        is_first[1:] &= table[name][1:] == table[name][:-1]
    is_first[1:] = ~is_first[1:]
    starts = np.flatnonzero(is_first)
    lengths = np.diff(starts, append=len(order))
    place = np.arange(len(order)) - np.repeat(starts, lengths)
    table["expected"] = np.repeat(lengths, lengths)
    order = np.lexsort((table["rank"], place, table["step"], table["role"]))
    table, place = {name: values[order] for name, values in table.items()}, place[order]
    differs = np.zeros(len(order), dtype=bool)
    for values in (table["role"], table["step"], place):
        differs[1:] |= values[1:] != values[:-1]
    return table | {"collective": np.cumsum(differs)}


def members_of(role: Ints, rank: Ints) -> tuple[Ints, Ints]:
    """The distinct pairs of a role and a rank, ascending; (pairs,) each.

    Args:
        role: The role of each row of a ledger; (rows,).
        rank: The rank of each row, its place; (rows,).
    """
    ranks = int(rank.max(initial=0)) + 1
    pairs = distinct(role * ranks + rank)
    return pairs // ranks, pairs % ranks


def _split(table: dict[str, Ints], roles: Sequence[Role], holders: Ints) -> dict[str, Ints]:
    """Wait and transfer of each row, NULL where the time cannot be split; (rows,)."""
    collective, dur_ns, expected = table["collective"], table["dur_ns"], table["expected"]
    count = int(collective[-1]) + 1
    shortest = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(shortest, collective, dur_ns)
    present = np.bincount(collective, minlength=count)
    fewest, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, dtype=np.int64)
    np.minimum.at(fewest, collective, expected)
    np.maximum.at(most, collective, expected)
    waits = np.array(
        [
            (role.operation in ENDS_TOGETHER or role.operation == ALL_TO_ALL) and n > 1
            for role, n in zip(roles, holders, strict=True)
        ]
    )
    is_split = waits[table["role"]] & (present[collective] == holders[table["role"]])
    is_split &= (fewest == most)[collective]
    transfer = shortest[collective]
    return {
        "wait_ns": np.where(is_split, dur_ns - transfer, NULL),
        "transfer_ns": np.where(is_split, transfer, NULL),
    }


def _unproven(table: dict[str, Ints], roles: Sequence[Role], ends_ns: Ints) -> Mask:
    """Mask of the roles without a recorded group whose ranks do not finish together; (roles,).

    Args:
        table: The rows, with waits.
        roles: The roles.
        ends_ns: How much later than the other ranks each row ends, by aligned clocks, NULL if
            unknown; (rows,).
    """
    found = np.zeros(len(roles), dtype=bool)
    for place, role in enumerate(roles):
        if role.size != NULL or role.operation not in ENDS_TOGETHER:
            continue
        rows = rows_of_role(table["role"], place)
        rows = rows[ends_ns[rows] != NULL]
        if len(rows):
            spread = float(np.median(np.abs(ends_ns[rows])))
            waits = table["wait_ns"][rows]
            found[place] = spread > _TOGETHER * float(waits[waits != NULL].mean() or 0)
    return found


def rows_of_role(role: Ints, place: int) -> Ints:
    """The rows of a role.

    Args:
        role: The role of each row of a ledger, ascending; (rows,).
        place: The role.
    """
    first, stop = np.searchsorted(role, [place, place + 1]).tolist()
    return np.arange(first, stop)


def _arrivals(table: dict[str, Ints], clocks: Clocks) -> Ints:
    """When each rank arrived after the first one, ns; NULL where it is unknown; (rows,)."""
    rank, collective = table["rank"], table["collective"]
    start_ns = clocks.aligned(rank, table["start_ns"])
    first = np.full(int(collective[-1]) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, collective, start_ns)
    is_known = np.ones(len(first), dtype=bool)
    np.logical_and.at(is_known, collective, (clocks.offset_ns != NULL)[rank])
    is_known &= clocks.spread_ns != NULL
    return np.where(is_known[collective], start_ns - first[collective], NULL)
