"""The collectives that ranks have entered, joined over all records of a run."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepwhy.result.hangs import Call, Group
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from stepwhy.trace import Trace

    Ints = NDArray[np.int64]


class RankCalls(NamedTuple):
    """The collectives of one group that a rank has entered, ordered by their numbers.

    Args:
        rank: Number of the rank; None if unknown.
        group: The group.
        description: What the program calls the group; '' if unknown.
        size: Number of ranks in the group; NULL if unknown.
        p2p: Whether these are calls between two ranks.
        sequence: Numbers of the calls; (calls,).
        done: 1 if a call had ended when the record was written, 0 if not, NULL if unknown;
            (calls,).
        entered_ns: When they were entered, NULL if unknown; (calls,).
        dur_ns: How long they ran, NULL if unknown; (calls,).
        code: Index into `kinds`; (calls,).
        kinds: The different calls.
    """

    rank: int | None
    group: Group
    description: str
    size: int
    p2p: bool
    sequence: Ints
    done: Ints
    entered_ns: Ints
    dur_ns: Ints
    code: Ints
    kinds: tuple[Call, ...]

    def at(self, sequence: int) -> int:
        """Place of the call with a number; NULL if it is not there."""
        place = int(np.searchsorted(self.sequence, sequence))
        is_there = place < len(self.sequence) and self.sequence[place] == sequence
        return place if is_there else NULL

    def call(self, place: int) -> Call:
        """What was called at a place."""
        return self.kinds[int(self.code[place])]


class Position(NamedTuple):
    """Where a rank stood when its step took much longer than usual.

    Args:
        rank: The rank; None if unknown.
        line: Innermost line of the program, 'file(line): function'; '' in other code.
        lasted_ns: How long the step had taken by then.
        steps: Number of steps before it; NULL if unknown.
        usual_ns: Median step time; NULL if unknown.
        inside: Package and function that the line has called, 'jax: block_until_ready'; '' if
            unknown.
    """

    rank: int | None
    line: str
    lasted_ns: int
    steps: int
    usual_ns: int
    inside: str = ""


class RunCalls(NamedTuple):
    """The collectives of all records of a run, and where its ranks stood.

    Args:
        calls: By rank and group.
        positions: One for each rank that noted it.
        world_size: Number of ranks of the run; NULL if unknown.
        shows_open: Whether all records tell which calls have not ended.
    """

    calls: tuple[RankCalls, ...] = ()
    positions: tuple[Position, ...] = ()
    world_size: int = NULL
    shows_open: bool = True

    def groups(self) -> list[list[RankCalls]]:
        """The calls of each process group by rank, without those between two ranks."""
        found: defaultdict[Group, dict[int | None, RankCalls]] = defaultdict(dict)
        for calls in self.calls:
            if not calls.p2p and len(calls.sequence):
                found[calls.group].setdefault(calls.rank, calls)
        return [[of[rank] for rank in sorted(of, key=rank_number)] for of in found.values()]


def rank_number(rank: int | None) -> int:
    """The number of a rank for sorting; the unknown comes first."""
    return NULL if rank is None else rank


def calls_of(trace: Trace) -> RunCalls:
    """The collectives in one trace, and the newest position of its process."""
    shows_open = "open-collectives" in trace.meta.signals or not len(trace.collective_calls)
    calls, positions = tuple(_calls(trace)), tuple(_positions(trace))
    return RunCalls(calls, positions, trace.meta.world_size, shows_open)


def joined(parts: Iterable[RunCalls]) -> RunCalls:
    """The collectives of several traces of a run."""
    found = list(parts)
    return RunCalls(
        tuple(calls for part in found for calls in part.calls),
        tuple(position for part in found for position in part.positions),
        max((part.world_size for part in found), default=NULL),
        all(part.shows_open for part in found),
    )


def _calls(trace: Trace) -> Iterator[RankCalls]:
    table = trace.collective_calls
    if not len(table):
        return
    columns = (table.of_rank, table.group, table.members, table.p2p)
    keys = np.stack([column.astype(np.int64) for column in columns])
    distinct, place = np.unique(keys, axis=1, return_inverse=True)
    for number, key in enumerate(distinct.T.tolist()):
        rows = np.flatnonzero(place.reshape(-1) == number)
        rows = rows[np.argsort(table.sequence[rows], kind="stable")]
        yield _of_group(trace, rows, key)


def _of_group(trace: Trace, rows: Ints, key: Sequence[int]) -> RankCalls:
    table, string = trace.collective_calls, trace.string
    rank, group, members, p2p = key
    columns = (table.operation, table.elements, table.shapes, table.types, table.line)
    kinds, code = np.unique(
        np.stack([column[rows].astype(np.int64) for column in columns]), axis=1, return_inverse=True
    )
    return RankCalls(
        rank=_known(trace.meta.rank if rank == NULL else rank),
        group=Group(string(group), string(members)),
        description=string(int(table.description[rows[0]])),
        size=int(table.size[rows[0]]),
        p2p=bool(p2p),
        sequence=table.sequence[rows],
        done=table.done[rows].astype(np.int64),
        entered_ns=table.entered_ns[rows],
        dur_ns=table.dur_ns[rows],
        code=code.reshape(-1),
        kinds=tuple(
            Call(string(operation), _known(elements), string(shapes), string(types), string(line))
            for operation, elements, shapes, types, line in kinds.T.tolist()
        ),
    )


def _positions(trace: Trace) -> Iterator[Position]:
    table = trace.positions
    if not len(table):
        return
    lines = trace.string(int(table.lines[-1])).split("; ")
    yield Position(
        _known(trace.meta.rank),
        lines[-1],
        int(table.time_ns[-1] - table.since_ns[-1]),
        int(table.steps[-1]),
        int(table.usual_ns[-1]),
        trace.string(int(table.inside[-1])),
    )


def _known(number: int) -> int | None:
    return None if number == NULL else number
