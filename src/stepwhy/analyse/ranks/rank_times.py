"""Ranks of one run compared with each other: the one that the others wait for.

Ranks that exchange data in every step take equally long: what a fast rank does not compute, it
waits. So the rank that waits least is the late one, and its time outside of communication shows
why. Only durations are compared, so the clocks of the ranks need not agree.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from stepwhy.analyse.ranks.collectives import Collectives
    from stepwhy.analyse.ranks.step_work import StepLog
    from stepwhy.trace import Phase

# A difference of means is certain from this many standard errors on; one step has no spread.
_CERTAIN = 3.0
MOST_OPERATIONS = 24
"""Number of operations, and of lines, that are kept of a rank. What one rank does longer than the
others, by a share of the step that matters, is among those that take it longest."""
MORE_WORK = 1.1
"""A rank that needs so many times the CPU time of another one has more work, however much both wait
for cores. That of ranks with the same work differs by some percent."""
_EXPLAINS = 1 / 3
"""Share of a rank's lateness from which on waits for cores may be why it is late. They are means of
samples: if twice as much was waited, most of the lateness still has another reason below it."""


class OpTime(msgspec.Struct, frozen=True):
    """The time of an operation, or of a line of the program, on one rank.

    Args:
        name: Its name.
        phase: Its phase; UNKNOWN for lines.
        on_host: Whether it ran on a thread of the host.
        self_ns: Time in the mean steady step, without that of nested operations.
    """

    name: str
    phase: Phase
    on_host: bool
    self_ns: int


class Rank(msgspec.Struct, frozen=True):
    """The mean steady step of one rank.

    Args:
        number: The rank.
        stage: Its pipeline stage; NULL if unknown.
        breakdown: ns per category.
        own_ns: Time outside of communication, as recorded, of each steady step; (steps,).
        line: Line of the program that its driving thread is most often in; '' if unknown.
        contended: Whether it often waits for a core that other threads or programs use.
        cpu_ns: CPU time of its driving thread per step; None if unknown.
        core_wait_ns: How long this thread waits for a core in the mean steady step, as recorded;
            None if unknown.
        core_waits_ns: How long all threads of its process do, in total, in the mean step of the
            run; None if unknown.
        on_cpu: Whether it computes on the CPU.
        passes: Forward passes per step, of micro-batches through the rank's layers or, in an
            interleaved schedule, through one of its model chunks; None if not recorded.
        passes_ns: Time in forward and backward passes per step.
        log: All steps that were observed; None if unknown.
        collectives: Its collectives; None if unknown.
        per_step: Time of each category of the breakdown in each steady step, as recorded;
            (steps, categories); None if unknown.
        operations: What takes longest on it, longest first, on its host and on its devices.
        lines: The lines of the program that take longest, likewise.
    """

    number: int
    stage: int
    breakdown: dict[str, int]
    own_ns: NDArray[np.int64]
    line: str = ""
    contended: bool = False
    cpu_ns: int | None = None
    core_wait_ns: int | None = None
    core_waits_ns: int | None = None
    on_cpu: bool = False
    passes: float | None = None
    passes_ns: int = 0
    log: StepLog | None = None
    collectives: Collectives | None = None
    per_step: NDArray[np.int64] | None = None
    operations: tuple[OpTime, ...] = ()
    lines: tuple[OpTime, ...] = ()

    @property
    def wall_ns(self) -> int:
        """Wall time of the step."""
        return sum(self.breakdown.values())

    @property
    def exchange_ns(self) -> int:
        """Time in which it only exchanges data, or waits to."""
        return self.breakdown["communication"]

    @property
    def work_ns(self) -> int:
        """Time of the step outside of communication."""
        return self.wall_ns - self.exchange_ns


class LateRank(msgspec.Struct, frozen=True):
    """The rank that waits least for the others, compared with the median of the others.

    Args:
        rank: The rank.
        together: Ranks that are about as late, this one first.
        waits_ns: How much longer the others wait.
        work_ns: How much longer it takes outside of communication, not less than 0.
        least_ns: What is certain to be gained if the work is spread evenly; not less than 0.
        core_wait_ns: How much longer it waits for cores, of work_ns; not less than 0, and None if
            that is unknown.
        excess_ns: How much longer it spends in each category, or less.
        is_certain: Whether its steps differ by more than they vary, and waits for cores explain
            only a small part of that.
        by_cores: Whether waits for cores may be why it is late, see `cores_explain`.
        compared: Number of ranks that were compared.
    """

    rank: Rank
    together: tuple[int, ...]
    waits_ns: int
    work_ns: int
    least_ns: int
    core_wait_ns: int | None
    excess_ns: dict[str, int]
    is_certain: bool
    by_cores: bool
    compared: int


def find_late(ranks: Sequence[Rank]) -> LateRank | None:
    """The rank that the others wait for longest; None if no two of them do the same work.

    Stages of a pipeline do different work, so ranks are compared within their stage.

    Args:
        ranks: The ranks.
    """
    stages: defaultdict[int, list[Rank]] = defaultdict(list)
    for rank in ranks:
        stages[rank.stage].append(rank)
    late = [_compare(same) for same in stages.values() if len(same) > 1]
    return max(late, key=lambda one: one.waits_ns, default=None)


def cores_explain(rank: Rank, others: Sequence[Rank], more_ns: int) -> bool:
    """Whether a rank often waits for cores, and such waits may be why it is late.

    Args:
        rank: The late rank.
        others: Those that wait for it.
        more_ns: How late it is in the mean step.
    """
    wait_ns = _core_wait(rank, others, more_ns) if others else None
    return _explain(rank, wait_ns, more_ns)


def _explain(rank: Rank, core_wait_ns: int | None, more_ns: int) -> bool:
    return rank.contended and (core_wait_ns is None or core_wait_ns >= _EXPLAINS * more_ns)


def _compare(ranks: Sequence[Rank]) -> LateRank:
    late = min(ranks, key=lambda rank: rank.exchange_ns)
    others = sorted((r for r in ranks if r is not late), key=lambda rank: rank.work_ns)
    waits_ns = _median(r.exchange_ns for r in others) - late.exchange_ns
    soon = [r for r in others if r.exchange_ns - late.exchange_ns < waits_ns / 2]
    together = (late, *sorted(soon, key=lambda rank: rank.exchange_ns))
    work_ns = max(late.work_ns - _median(r.work_ns for r in others), 0)
    more_ns = late.work_ns - max(others[-1].work_ns, _mean(r.work_ns for r in ranks))
    core_wait_ns = _core_wait(late, others, work_ns)
    return LateRank(
        rank=late,
        together=tuple(rank.number for rank in together),
        waits_ns=waits_ns,
        work_ns=work_ns,
        least_ns=max(more_ns - (core_wait_ns or 0), 0),
        core_wait_ns=core_wait_ns,
        excess_ns={
            name: time_ns - _median(r.breakdown[name] for r in others)
            for name, time_ns in late.breakdown.items()
        },
        is_certain=_differ(late, others[len(others) // 2], core_wait_ns),
        by_cores=_explain(late, core_wait_ns, work_ns),
        compared=len(ranks),
    )


def _median(times_ns: Iterable[int]) -> int:
    return round(float(np.median(list(times_ns))))


def _mean(times_ns: Iterable[int]) -> int:
    return round(float(np.mean(list(times_ns))))


def _core_wait(late: Rank, others: Sequence[Rank], work_ns: int) -> int | None:
    """How much longer a rank waits for cores than the median of others; None if unknown.

    The driving thread may wait for other threads of its process, which wait for a core. So the
    larger of both differences counts, although threads that wait at the same time count twice.

    Args:
        late: The rank.
        others: The others.
        work_ns: How much longer it takes outside of communication, which is the most that counts.
    """
    driver_ns = _longer(late.core_wait_ns, [rank.core_wait_ns for rank in others])
    threads_ns = _longer(late.core_waits_ns, [rank.core_waits_ns for rank in others])
    if driver_ns is None or threads_ns is None:
        return None
    return min(max(driver_ns, threads_ns, 0), work_ns)


def _longer(own_ns: int | None, others_ns: Sequence[int | None]) -> int | None:
    """How much longer a time is than the median of others; None if any is unknown."""
    known = [time_ns for time_ns in others_ns if time_ns is not None]
    if own_ns is None or len(known) < len(others_ns):
        return None
    return own_ns - _median(known)


def _differ(late: Rank, other: Rank, core_wait_ns: int | None) -> bool:
    """Whether the work of two ranks differs by more than chance.

    On a CPU, the time of an operation in a few recorded steps depends on what else runs; CPU time
    is known of many steps.

    Args:
        late: The late rank.
        other: Another one.
        core_wait_ns: How much longer the late rank waits for cores; None if unknown.
    """
    more_ns = late.work_ns - other.work_ns
    if late.cpu_ns and other.cpu_ns:
        if late.cpu_ns >= MORE_WORK * other.cpu_ns:
            return True
        computes_more = late.breakdown["compute"] - other.breakdown["compute"] > more_ns / 2
        if late.on_cpu and computes_more:
            return False
    if _explain(late, core_wait_ns, more_ns):
        return False
    some, others = late.own_ns, other.own_ns
    if min(len(some), len(others)) < 2:
        return True
    error = float(np.sqrt(some.var(ddof=1) / len(some) + others.var(ddof=1) / len(others)))
    return bool(abs(some.mean() - others.mean()) > _CERTAIN * error)
