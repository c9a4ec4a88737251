"""Which ranks make the others wait, step by step, by the ledger of collectives.

Of ranks that do the same work, the one that waits least in a step is the one that the others wait
for. The wait is summed over the process groups of a rank: a rank that is late only because it
waited in another group is not to blame. A rank counts as late only if it is late in more steps than
chance explains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.lateness.ledger import make_ledger
from stepwhy.analyse.lateness.peers import find_peers
from stepwhy.analyse.lateness.slow_groups import find_slow_groups
from stepwhy.analyse.ranks.sign_test import CHANCE, even_chance, sign_test

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lateness.ledger import Ledger
    from stepwhy.analyse.lateness.peers import Peers
    from stepwhy.analyse.lateness.slow_groups import SlowGroup

    Floats = NDArray[np.float64]
    Mask = NDArray[np.bool_]

# A rank is late in a step if the others wait at least this share of what they wait for the last.
_AS_LATE = 0.5
# A step is among the longest if the last rank is late by this share of the largest lateness, apart
# from so many pauses; what happens in every n-th step takes several times longer in one than in
# another on a busy machine.
_AMONG_LONGEST = 0.2
_PAUSES = 2
# Late steps at equal distances are no chance either; but if all ranks do something in every tenth
# step, one of them may be last by chance: so likely it may be at most.
_LIKELY = 0.2
# A rank is to blame for this share of its lateness at least by what it does outside of
# communication. Otherwise, it waited where that could not be seen, or its data moved slowly.
_OWN = 0.5
# A rank that is late in this share of the steps is always late; in the others, it is about on time.
_ALWAYS = 0.8
FEWEST_TURNS = 4
"""Fewer long steps do not show that ranks take turns."""
# If one rank causes more of the waiting, ranks do not take turns.
_MOST_OF_ONE = 0.75
_NAMED = 3  # ranks that take turns


class Late(msgspec.Struct, frozen=True):
    """Ranks that are late in more steps than by chance.

    Args:
        ranks: Their numbers, the one that is late most often first.
        late_steps: In how many steps each of them is late; (ranks,).
        every: Number of steps from one late step of the first of them to the next; 1 if it is
            always late, None if the number differs.
        cost_ns: How much shorter the mean step would be if they were as early as the others.
        in_late_steps_ns: The same in the mean step in which one of them is late.
        chance: How likely it is that one of several ranks which take turns at random is late so
            often, 0..1.
        excess_ns: How much longer they spend in each category in these steps, or less, than the
            median rank; empty if unknown.
    """

    ranks: tuple[int, ...]
    late_steps: tuple[int, ...]
    every: int | None
    cost_ns: int
    in_late_steps_ns: int
    chance: float
    excess_ns: dict[str, int]


class Turns(msgspec.Struct, frozen=True):
    """Ranks of which another one is late in each step.

    Args:
        ranks: The ranks that are late in most steps, at most three.
        late_steps: In how many steps each of them is late; (ranks,).
        long_steps: Number of steps in which a rank is late.
        cost_ns: How long the others wait for the last one in the mean step: the median of them.
        even_ns: How much shorter the mean step would be if all had the same work.
        excess_ns: How much longer the last rank spends in each category in these steps, or less,
            than the median rank; empty if unknown.
    """

    ranks: tuple[int, ...]
    late_steps: tuple[int, ...]
    long_steps: int
    cost_ns: int
    even_ns: int
    excess_ns: dict[str, int]


class Lateness(msgspec.Struct, frozen=True):
    """What ranks wait for.

    Args:
        peers: The ranks that were compared: those with the same collectives.
        late: Ranks that are late too often for chance; None if there are none.
        turns: Ranks that take turns in being late; None if they do not.
        slow: Groups that move the same bytes more slowly than others like them.
    """

    peers: Peers
    late: Late | None
    turns: Turns | None
    slow: tuple[SlowGroup, ...]

    @property
    def steps(self) -> int:
        """Number of steps that were compared."""
        return int(self.peers.waits.shape[1])

    @property
    def mean_wait_ns(self) -> int:
        """Time that a rank waits in the mean step, mean of the ranks."""
        return round(float(self.peers.waits.mean()))


def ledger_of(facts: Facts) -> Ledger | None:
    """The ledger of all ranks of `Facts.ranks`; None if they have no collectives in common."""
    return make_ledger(facts.ranks, facts.trace.meta.world_size)


def lateness_of(facts: Facts) -> list[Lateness]:
    """What all ranks of `Facts.ranks` wait for, the longest waits first; empty if unknown."""
    ledger = facts.derived(ledger_of)
    if ledger is None:
        return []
    slow = find_slow_groups(ledger)
    found = [judge(peers, slow) for peers in find_peers(ledger, facts.ranks)]
    return sorted(found, key=lambda one: -one.mean_wait_ns)


def judge(peers: Peers, slow: Sequence[SlowGroup]) -> Lateness:
    """What some ranks wait for.

    Args:
        peers: The ranks.
        slow: All slow groups.
    """
    mine = [group for group in slow if set(group.ranks) <= set(peers.numbers)]
    in_slow = np.isin(peers.numbers, [number for group in mine for number in group.ranks])
    if in_slow.all():
        return Lateness(peers, None, None, tuple(mine))
    # Ranks of slow groups are late because of these.
    rest = peers.some(~in_slow) if mine else peers
    late, is_late = _find_late(rest)
    turns = _find_turns(rest.some(~is_late) if late else rest)
    return Lateness(peers, late, turns, tuple(mine))


def _find_late(peers: Peers) -> tuple[Late | None, Mask]:
    """The ranks that are late too often for chance, and a mask of them; (ranks,).

    Where ranks are on time within a tenth of the step in most steps only, all long steps show no
    rank, but the longest of them may, if they come at a fixed interval.
    """
    behind = peers.behind()
    longest = behind.max(axis=0)
    is_long = peers.is_long(longest)
    late, is_late = _late_in(peers, behind, is_long, 1)
    if late is not None or not is_long.any():
        return late, is_late
    among = np.sort(longest)[-_PAUSES - 1 :][0]
    among_longest = is_long & (longest >= _AMONG_LONGEST * among)
    regular, is_regular = _late_in(peers, behind, among_longest, 2)
    # Pauses of a machine that others use come at no fixed interval.
    return (regular, is_regular) if regular and regular.every else (None, is_late)


def _late_in(peers: Peers, behind: Floats, is_long: Mask, tests: int) -> tuple[Late | None, Mask]:
    """The ranks that are late in some steps too often for chance, and a mask of them; (ranks,).

    Args:
        peers: The ranks.
        behind: By how much the others wait longer than each; (ranks, steps).
        is_long: The steps; (steps,).
        tests: Number of choices of steps that are tested.
    """
    count = len(peers.numbers)
    is_late = (behind >= _AS_LATE * behind.max(axis=0)) & is_long
    chances = tests * count * sign_test(is_late[:, is_long])
    even = np.array([even_chance(row) for row in is_late])
    often = (chances <= CHANCE) | ((chances <= _LIKELY) & (chances * even <= CHANCE))
    blamed = often & _by_own_work(peers, behind * is_late)
    # If most ranks are late, the others are early.
    if not blamed.any() or 2 * often.sum() > count:
        return None, np.zeros(count, dtype=bool)
    times = is_late.sum(axis=1)
    order = [place for place in np.argsort(-times, kind="stable").tolist() if blamed[place]]
    cost_ns = peers.waits[~often].min(axis=0)
    late = Late(
        ranks=tuple(peers.numbers[place] for place in order),
        late_steps=tuple(int(times[place]) for place in order),
        every=_every(is_late[order[0]]),
        cost_ns=round(float(cost_ns.mean())),
        in_late_steps_ns=round(float(cost_ns[is_late[blamed].any(axis=0)].mean())),
        chance=min(float(chances[order[0]]), 1.0),
        excess_ns=peers.excess_ns(is_late & blamed[:, None]),
    )
    return late, often


def _by_own_work(peers: Peers, lateness_ns: Floats) -> Mask:
    """Whether ranks are late by what they do outside of communication, or if that is unknown.

    Args:
        peers: The ranks.
        lateness_ns: How late each is in the steps in which it is late; (ranks, steps).
    """
    own_ns = peers.own_ns()
    if own_ns is None:
        return np.ones(len(peers.numbers), dtype=bool)
    found: Mask = own_ns >= _OWN * lateness_ns.sum(axis=1)
    return found


def _every(is_late: Mask) -> int | None:
    """Number of steps from one late step to the next; 1 if most are late, None if it differs.

    Few late steps may be missing.
    """
    if is_late.mean() >= _ALWAYS:
        return 1
    gaps = np.diff(np.flatnonzero(is_late))
    if not len(gaps):
        return None
    usual = int(np.median(gaps))
    is_regular = usual > 1 and (gaps % usual == 0).all() and (gaps == usual).mean() >= _ALWAYS
    return usual if is_regular else None


def _find_turns(peers: Peers) -> Turns | None:
    """How long ranks wait for another one in each step; None if one of them causes most of it."""
    if len(peers.numbers) < 2:
        return None
    behind, count = peers.behind(), len(peers.numbers)
    longest, last = behind.max(axis=0), behind.argmax(axis=0)
    is_long = peers.is_long(longest)
    if is_long.sum() < FEWEST_TURNS:
        return None
    caused = np.bincount(last, weights=longest * is_long, minlength=count)
    if caused.max() > _MOST_OF_ONE * caused.sum():
        return None
    times = np.bincount(last[is_long], minlength=count)
    order = np.argsort(-times, kind="stable")[:_NAMED].tolist()
    return Turns(
        ranks=tuple(peers.numbers[place] for place in order),
        late_steps=tuple(int(times[place]) for place in order),
        long_steps=int(is_long.sum()),
        cost_ns=round(float(np.median(peers.waits, axis=0).mean())),
        even_ns=round(float(peers.waits.mean())),
        excess_ns=peers.excess_ns((np.arange(count)[:, None] == last) & is_long),
    )
