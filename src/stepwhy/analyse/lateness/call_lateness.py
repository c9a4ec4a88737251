"""Ranks that are late in the collectives of a process group, by lists of calls alone.

What a collective takes longer on a rank than where it is shortest is a wait, as in the ledger of
traces. Where durations are not recorded, arrivals are compared: then the clocks of the ranks must
agree. They may only if no rank enters a collective before all have entered the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from stepwhy.analyse.lateness.late_ranks import judge
from stepwhy.analyse.lateness.ledger import make_ledger
from stepwhy.analyse.lateness.peers import find_peers
from stepwhy.analyse.ranks.calls import rank_number
from stepwhy.analyse.ranks.collectives import Collectives, Role
from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.read.kernel_names.collectives import ENDS_TOGETHER, collective_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.lateness.late_ranks import Late
    from stepwhy.analyse.ranks.calls import RankCalls, RunCalls
    from stepwhy.result.hangs import Call

    Ints = NDArray[np.int64]
    Basis = Literal["durations", "arrivals"]

FEWEST_COLLECTIVES = 8
"""With fewer collectives of a group, a rank that is last in all of them may be so by chance."""
# Arrivals that contradict the clocks; more of them than by late wake-ups of a thread.
_MOST_CONTRADICTIONS = 0.02
# One of so many collectives belongs to the first steps, which ranks enter at different times.
_PER_WARM_UP = 50
_LONGEST_NS = 1 << 40  # 18 minutes: sums of a million fit into 64 bits


class CallLateness(msgspec.Struct, frozen=True):
    """What the ranks of a process group wait for.

    Args:
        description: What the program calls the group; '' if unknown.
        call: What the late ranks called first.
        collectives: Number of collectives that were compared.
        basis: What was compared.
        period_ns: Mean time from one collective to the next; NULL if unknown.
        mean_ns: Mean duration of a collective, on the rank that waits longest.
        late: The late ranks; None if there are none.
    """

    description: str
    call: Call
    collectives: int
    basis: Basis
    period_ns: int
    mean_ns: int
    late: Late | None


class Unclear(msgspec.Struct, frozen=True):
    """Why the ranks of no group can be compared.

    Args:
        why: 'ranks': there are not two of them; 'few': they have too few collectives in common;
            'clocks': only arrivals are known, and the clocks differ.
    """

    why: Literal["ranks", "few", "clocks"]


def call_lateness(run: RunCalls) -> CallLateness | Unclear:
    """The group whose late ranks cost most, or else one without; why not if there is none.

    Args:
        run: The calls of all ranks.
    """
    judged = [_judged(group) for group in run.groups()]
    found = [one for one in judged if isinstance(one, CallLateness)]
    if found:
        return max(found, key=lambda one: one.late.cost_ns if one.late else -1)
    return max(
        (one for one in judged if isinstance(one, Unclear)),
        key=lambda one: ("ranks", "few", "clocks").index(one.why),
        default=Unclear("ranks"),
    )


def lateness_of_calls(facts: Facts) -> CallLateness | Unclear:
    """`call_lateness` of all ranks, for `Facts.derived`."""
    return call_lateness(facts.calls)


def late_by_calls(facts: Facts) -> tuple[int, ...]:
    """The ranks that enter collectives late, the latest first; empty if there are none."""
    found = facts.derived(lateness_of_calls)
    late = found.late if isinstance(found, CallLateness) else None
    return late.ranks if late else ()


class _Joint(NamedTuple):
    """The collectives that all ranks of a group have ended.

    Args:
        ranks: The calls of each rank.
        sequence: Numbers of the collectives; (collectives,).
        rows: Places of the collectives among the calls of each rank; (ranks, collectives).
    """

    ranks: Sequence[RankCalls]
    sequence: Ints
    rows: Ints

    def column(self, name: Literal["dur_ns", "entered_ns"]) -> Ints:
        """A column of all ranks; (ranks, collectives)."""
        pairs = zip(self.ranks, self.rows, strict=True)
        return np.stack([getattr(calls, name)[rows] for calls, rows in pairs])


def _judged(ranks: Sequence[RankCalls]) -> CallLateness | Unclear:
    known = [calls for calls in ranks if calls.rank is not None]
    if len(known) < 2:
        return Unclear("ranks")
    joint = _joint(known)
    if len(joint.sequence) < FEWEST_COLLECTIVES:
        return Unclear("few")
    durations, arrivals = joint.column("dur_ns"), joint.column("entered_ns")
    basis: Basis = "durations" if (durations != NULL).all() else "arrivals"
    if basis == "arrivals":
        if (arrivals == NULL).any() or _contradict(arrivals):
            return Unclear("clocks")
        durations = arrivals.max(axis=0) - arrivals
    period_ns = _period(arrivals)
    mean_ns = round(float(durations.max(axis=0).mean()))
    late = _late(joint, durations, mean_ns if period_ns == NULL else period_ns)
    return CallLateness(
        description=known[0].description,
        call=_usual_call(joint, late),
        collectives=len(joint.sequence),
        basis=basis,
        period_ns=period_ns,
        mean_ns=mean_ns,
        late=late,
    )


def _usual_call(joint: _Joint, late: Late | None) -> Call:
    """What the late rank calls most often, or the first one."""
    places = [n for n, c in enumerate(joint.ranks) if late and c.rank == late.ranks[0]]
    calls, rows = joint.ranks[(places or [0])[0]], joint.rows[(places or [0])[0]]
    return calls.kinds[int(np.bincount(calls.code[rows]).argmax())]


def _joint(ranks: Sequence[RankCalls]) -> _Joint:
    """The collectives that end together, and that all ranks have ended."""
    ended = []
    for calls in ranks:
        kinds = [collective_of(call.operation) in ENDS_TOGETHER for call in calls.kinds]
        is_first = np.append(True, calls.sequence[1:] != calls.sequence[:-1])
        is_joint = np.array(kinds, dtype=bool)[calls.code] & is_first & (calls.done == 1)
        ended.append(np.flatnonzero(is_joint))
    numbers = [calls.sequence[rows] for calls, rows in zip(ranks, ended, strict=True)]
    common = numbers[0]
    for mine in numbers[1:]:
        common = np.intersect1d(common, mine)
    common = common[len(common) // _PER_WARM_UP :]
    pairs = zip(ended, numbers, strict=True)
    rows = np.stack([rows[np.searchsorted(mine, common)] for rows, mine in pairs])
    return _Joint(ranks, common, rows)


def _contradict(arrivals: Ints) -> bool:
    """Whether ranks enter collectives before all have entered the one before, by their clocks.

    Args:
        arrivals: When each rank entered each collective, ns; (ranks, collectives).
    """
    is_early = arrivals[:, 1:].min(axis=0) < arrivals[:, :-1].max(axis=0)
    return bool(is_early.mean() > _MOST_CONTRADICTIONS)


def _period(arrivals: Ints) -> int:
    """Mean time from one collective to the next; NULL if unknown."""
    known = arrivals[(arrivals != NULL).all(axis=1)]
    if not len(known):
        return NULL
    span_ns = float(np.median(known[:, -1] - known[:, 0]))
    return int(span_ns) // (len(arrivals[0]) - 1)


def _late(joint: _Joint, durations: Ints, wall_ns: int) -> Late | None:
    """The ranks that are late too often for chance, by the ledger of these collectives.

    Args:
        joint: The collectives.
        durations: How long each takes on each rank; (ranks, collectives).
        wall_ns: Time from one to the next.
    """
    ranks = [_summary(joint, n, times, wall_ns) for n, times in enumerate(durations)]
    ledger = make_ledger(ranks, len(ranks))
    if ledger is None:
        return None
    found = [judge(peers, ()).late for peers in find_peers(ledger, ranks)]
    return max((late for late in found if late), key=lambda late: late.cost_ns, default=None)


def _summary(joint: _Joint, place: int, durations: Ints, wall_ns: int) -> Rank:
    """A rank of the ledger, each of whose steps is one collective.

    All ranks end a collective together, and only durations matter.

    Args:
        joint: The collectives.
        place: Place of the rank.
        durations: How long each takes on it; (collectives,).
        wall_ns: Time from one to the next.
    """
    calls, count = joint.ranks[place], len(joint.sequence)
    names = [collective_of(call.operation) for call in calls.kinds]
    operations = sorted(set(names))
    size = len(joint.ranks)
    role = np.array([operations.index(name) for name in names])[calls.code[joint.rows[place]]]
    ends_ns = np.arange(1, count + 1) * 2 * _LONGEST_NS
    return Rank(
        number=rank_number(calls.rank),
        stage=NULL,
        breakdown={"communication": wall_ns},
        own_ns=np.zeros(0, dtype=np.int64),
        collectives=Collectives(
            roles=tuple(Role(name, "group", "", calls.description, size) for name in operations),
            role=role,
            step=joint.sequence,
            start_ns=ends_ns - np.minimum(durations, _LONGEST_NS),
            dur_ns=np.minimum(durations, _LONGEST_NS),
            bytes=np.full(count, NULL),
            steps=joint.sequence,
            numbering="marker",
        ),
    )
