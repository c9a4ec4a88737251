"""Which collective ranks wait in, who has not entered it, and which calls do not match.

The ranks of a process group number their collectives alike. So the first number that a rank has not
reached, while others wait in it, names the collective that hangs; and two ranks that called
something else under the same number do not fit each other.

Where no collectives are recorded, as with JAX and TensorFlow, the ranks that stand in a function of
the framework wait for those that stand elsewhere in the program, or that are behind.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Literal

import numpy as np

from stepwhy.analyse.ranks.calls import rank_number
from stepwhy.analyse.ranks.collectives import ALL_RANKS
from stepwhy.base.patterns import regex
from stepwhy.read.kernel_names.collectives import collective_of
from stepwhy.result.hangs import At, Call, Group, Hang, Mismatch, Variant
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.ranks.calls import Position, RankCalls, RunCalls

    Difference = Literal["operation", "elements", "types"]

    Ints = NDArray[np.int64]

# Collectives to which all ranks give equally much: the others may differ by rank.
_EQUAL = frozenset({"all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce"})
# A library may gather lists of different lengths; what has ended has worked.
_MAY_DIFFER = frozenset({"all-gather"})
_MOST_RANKS = 1 << 17  # more is damage
_NUMBER = regex(r"\d{1,9}")
# Packages whose functions wait for other ranks; they also compile, or wait for input.
_WAITS_IN = frozenset(
    {
        "flax",
        "horovod",
        "jax",
        "jaxlib",
        "keras",
        "mpi4py",
        "optax",
        "tensorflow",
        "tf_keras",
        "torch",
    }
)
_FETCHES = "__next__"  # the function of an iterator over batches


def find_hang(run: RunCalls) -> Hang | None:
    """The collective in which ranks wait for another one, or all of them; None without one.

    Of several, the one whose missing ranks do not wait in another collective themselves, and then
    the one that was entered first.

    Args:
        run: The calls of all ranks.
    """
    if not run.calls:
        return _standstill(run)
    found = [hang for group in run.groups() if (hang := _hang(group, run)) is not None]
    return min(found, key=_distance, default=None)


def _distance(hang: Hang) -> tuple[bool, bool, int]:
    """Sort key: how far a hang is from its cause."""
    return (not hang.missing, any(at.inside for at in hang.missing), hang.sequence or 0)


def _standstill(run: RunCalls) -> Hang | None:
    """Ranks that stand in a function of the framework, and those that they may wait for.

    Returns:
        None if no two ranks have noted where they stand, or none of them stands in such a function.
        Nobody is missing if it is not known which rank the others wait for.
    """
    waiting, missing = _divided(run.positions)
    if len(run.positions) < 2 or not waiting:
        return None
    first = max(waiting, key=lambda p: p.lasted_ns)
    return Hang(
        group=Group(""),
        description="",
        sequence=None,
        call=Call(_function(first), line=first.line),
        waiting=tuple(p.rank for p in waiting),
        missing=tuple(At(p.rank, p.line, is_now=True, inside=_function(p)) for p in missing),
        waited_ns=first.lasted_ns,
    )


def _divided(positions: Sequence[Position]) -> tuple[list[Position], list[Position]]:
    """The ranks that wait, and those that they wait for, as far as that is known."""
    inside = [p for p in positions if _may_wait(p)]
    outside = [p for p in positions if not _may_wait(p)]
    if not inside or not outside:
        behind = min((p.steps for p in positions), default=NULL)
        outside = [p for p in positions if p.steps == behind]
        further = [p for p in positions if p.steps > behind]
        return (further, outside) if further else (inside, [])
    # Who has ended more steps than all that wait is not what they wait for.
    is_ahead = any(p.steps > max(q.steps for q in inside) for p in outside)
    return (inside, []) if is_ahead else (inside, outside)


def _function(position: Position) -> str:
    """The function of a library that a rank stands in, with its package; '' for none."""
    package, _, function = position.inside.partition(": ")
    return f"{function} ({package.replace('jaxlib', 'jax')})" if function else ""


def _may_wait(position: Position) -> bool:
    """Whether a rank stands where it may wait for other ranks."""
    package, _, function = position.inside.partition(": ")
    return package in _WAITS_IN and not function.endswith(_FETCHES)


def _hang(ranks: Sequence[RankCalls], run: RunCalls) -> Hang | None:
    last = {calls.rank: int(calls.sequence[-1]) for calls in ranks}
    behind, ahead = min(last.values()), max(last.values())
    numbers = range(behind + 1, ahead + 1) if behind < ahead else range(ahead, ahead + 1)
    sequence = next((n for n in numbers if not _is_over(ranks, n)), NULL)
    waiting = [calls for calls in ranks if _waits(calls, sequence, is_last=behind == ahead)]
    if not waiting:
        return None
    first = waiting[0]
    absent = _unrecorded(first, last, run.world_size)
    recorded = {calls.rank for calls in run.calls} | {p.rank for p in run.positions}
    missing = [rank for rank, reached in last.items() if reached < sequence]
    missing += [rank for rank in absent if rank in recorded]  # its record lists none of this group
    lasted = [p.lasted_ns for p in run.positions if p.rank in {calls.rank for calls in waiting}]
    return Hang(
        group=first.group,
        description=first.description,
        sequence=sequence,
        call=first.call(first.at(sequence)),
        waiting=tuple(calls.rank for calls in waiting),
        missing=tuple(where(rank, run) for rank in missing),
        unrecorded=tuple(rank for rank in absent if rank not in recorded),
        waited_ns=max(lasted, default=None),
    )


def _unrecorded(
    calls: RankCalls, recorded: Collection[int | None], world_size: int
) -> tuple[int, ...]:
    """Ranks of a group of which nothing is recorded, as far as its members are known.

    The members of a group of all ranks follow from their number, or else from gaps between those
    that are recorded.
    """
    members = set(map(int, _NUMBER.findall(calls.group.members)))
    if not members and calls.description == ALL_RANKS and None not in recorded:
        last = max(rank for rank in recorded if rank is not None)
        members = set(range(min(max(world_size, last), _MOST_RANKS)))
    return tuple(sorted(members.difference(recorded)))


def _waits(calls: RankCalls, sequence: int, *, is_last: bool) -> bool:
    """Whether a rank is in a collective, or may be where it is not known whether it has left.

    Args:
        calls: The calls of the rank in a group.
        sequence: Number of the collective.
        is_last: Whether no rank has entered a later one: all may have left it.
    """
    place = calls.at(sequence)
    if place == NULL:
        return False
    return bool(calls.done[place] == 0 or (calls.done[place] == NULL and not is_last))


def _is_over(ranks: Sequence[RankCalls], sequence: int) -> bool:
    """Whether some rank has left a collective: then the others need not wait for all."""
    places = [(calls, calls.at(sequence)) for calls in ranks]
    return any(place != NULL and calls.done[place] == 1 for calls, place in places)


def where(rank: int | None, run: RunCalls) -> At:
    """Where a rank stands.

    What it noted itself comes first, then the call that it waits in, then the last call that it
    made.

    Args:
        rank: The rank.
        run: The calls of all ranks.
    """
    newest, place = _newest(rank, run)
    is_open = newest is not None and bool(newest.done[place] == 0)
    inside = _named(newest, place) if newest is not None and is_open else ""
    noted = next((p for p in run.positions if p.rank == rank and p.line), None)
    if noted is not None:
        return At(rank, noted.line, is_now=True, inside=inside)
    line = newest.call(place).line if newest is not None else ""
    return At(rank, line, is_now=bool(is_open and line), inside=inside)


def _newest(rank: int | None, run: RunCalls) -> tuple[RankCalls | None, int]:
    """The call of a rank that it entered last, in any group."""
    mine = [calls for calls in run.calls if calls.rank == rank and len(calls.sequence)]
    newest = max(mine, key=lambda calls: int(calls.entered_ns.max()), default=None)
    if newest is None or newest.entered_ns.max() == NULL:
        return newest, -1
    return newest, int(np.argmax(newest.entered_ns))


def _named(calls: RankCalls, place: int) -> str:
    call = calls.call(place)
    return f"{call.operation} {int(calls.sequence[place])}"


def find_mismatch(run: RunCalls) -> Mismatch | None:
    """The first call that does not match those of other ranks; None without one.

    Args:
        run: The calls of all ranks.
    """
    found = [m for group in run.groups() if (m := _first_mismatch(group)) is not None]
    return min(found, key=lambda one: one.sequence, default=None)


def hangs_by_mismatch(run: RunCalls) -> bool:
    """Whether ranks wait because they have called different things in the same group.

    Args:
        run: The calls of all ranks.
    """
    hang, mismatch = find_hang(run), find_mismatch(run)
    if hang is None or hang.sequence is None or mismatch is None:
        return False
    return mismatch.group == hang.group and mismatch.sequence <= hang.sequence


def _first_mismatch(ranks: Sequence[RankCalls]) -> Mismatch | None:
    if len(ranks) < 2:
        return None
    for sequence in _common(ranks):
        made = {c.rank: (c, c.at(sequence)) for c in ranks if c.at(sequence) != NULL}
        calls = {rank: of.call(place) for rank, (of, place) in made.items()}
        is_over = all(of.done[place] == 1 for of, place in made.values())
        what = _difference(list(calls.values()), is_over=is_over)
        if what:
            group, description = ranks[0].group, ranks[0].description
            return Mismatch(group, description, sequence, what, _variants(calls, what))
    return None


def _common(ranks: Sequence[RankCalls]) -> list[int]:
    """Numbers that at least two ranks have and under which they called different things.

    The lines of the program do not count. Comparing whole columns first keeps this fast.
    """
    kinds: dict[tuple[object, ...], int] = {}
    parts = []
    for calls in ranks:
        of_kind = [kinds.setdefault(kind[:-1], len(kinds)) for kind in calls.kinds]
        parts.append(np.stack([calls.sequence, np.array(of_kind, dtype=np.int64)[calls.code]]))
    pairs = np.unique(np.concatenate(parts, axis=1), axis=1)
    numbers, counts = np.unique(pairs[0], return_counts=True)
    found: list[int] = numbers[counts > 1].tolist()
    return found


def _difference(calls: Sequence[Call], *, is_over: bool) -> Difference | None:
    """In what calls that should match differ; None if they match.

    Args:
        calls: What the ranks called.
        is_over: Whether all of them have ended.
    """
    kinds = {collective_of(call.operation) or call.operation for call in calls}
    if len(kinds) > 1:
        return "operation"
    kind = kinds.pop()
    if kind not in _EQUAL:
        return None
    if len({call.types for call in calls if call.types}) > 1:
        return "types"
    may_differ = is_over and kind in _MAY_DIFFER
    sizes = {call.elements for call in calls if call.elements is not None}
    return "elements" if len(sizes) > 1 and not may_differ else None


def _variants(calls: Mapping[int | None, Call], what: Difference) -> tuple[Variant, ...]:
    """The different calls, those of the fewest ranks first; of equally many, those of later ranks.

    Args:
        calls: What each rank called.
        what: In what they differ.
    """
    by_value: defaultdict[object, list[int | None]] = defaultdict(list)
    for rank in sorted(calls, key=rank_number):
        value = getattr(calls[rank], what)
        by_value[collective_of(value) or value if what == "operation" else value].append(rank)
    groups = sorted(by_value.values(), key=lambda ranks: (len(ranks), -rank_number(ranks[0])))
    return tuple(Variant(calls[ranks[0]], tuple(ranks)) for ranks in groups)
