"""How long ranks wait for each other, and whether what was found explains it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.late_ranks import lateness_of, ledger_of
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.units import format_ns
from stepwhy.diagnose.shared.measure import mean_within, on_scale
from stepwhy.result import Abstention, Evidence, Finding

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
# What says that no rank waits for another one, if it is clear.
_OF_WAITS = frozenset({"straggler", "start-skew", "sequence-imbalance", "slow-group"})


def waits_ns(facts: Facts) -> int | None:
    """Time of the step in which a rank only waits for others; None if it cannot be told, ns.

    Args:
        facts: Facts of the rank, with all ranks in `Facts.ranks`.
    """
    ledger = facts.derived(ledger_of)
    if ledger is None or facts.trace.meta.rank not in ledger.ranks:
        return None
    mine = ledger.rank == ledger.ranks.index(facts.trace.meta.rank)
    if not (ledger.split & ledger.complete & mine).any():
        return None
    rows = np.flatnonzero(ledger.split & mine)
    waits = Intervals.of(ledger.start_ns[rows], ledger.start_ns[rows] + ledger.wait_ns[rows])
    for activity in facts.leading:
        waits = waits - activity.compute
    return on_scale(facts, mean_within(facts, waits))


def sees_all_ranks(facts: Facts) -> bool:
    """Whether a late rank would be seen: all ranks of a rank's collectives are recorded."""
    ledger = facts.derived(ledger_of)
    if ledger is None or facts.trace.meta.rank not in ledger.ranks:
        return False
    mine = ledger.split & (ledger.rank == ledger.ranks.index(facts.trace.meta.rank))
    return bool(mine.any() and ledger.complete[mine].all())


def slow_transfers_ns(facts: Facts) -> int:
    """How much longer the data of a rank moves because its group is slow, ns per step."""
    groups = [group for one in facts.derived(lateness_of) for group in one.slow]
    mine = [group.cost_ns for group in groups if facts.trace.meta.rank in group.ranks]
    return on_scale(facts, sum(mine))


def unexplained_ns(facts: Facts, causes: Sequence[Finding]) -> int:
    """Time per step that ranks wait, the mean of them, beyond what was found to cause it, ns.

    Args:
        facts: Facts of a rank, with all ranks in `Facts.ranks`.
        causes: What the comparison of the ranks found.
    """
    longest = next(iter(facts.derived(lateness_of)), None)
    if longest is None:
        return 0
    numbers = longest.peers.numbers
    exposed = [rank.exchange_ns for rank in facts.ranks if rank.number in numbers]
    wait_ns = min(on_scale(facts, longest.mean_wait_ns), round(float(np.mean(exposed))))
    return max(wait_ns - sum(cause.cost_ns_per_step or 0 for cause in causes), 0)


def unless_waiting(facts: Facts, findings: Sequence[Finding]) -> list[Finding]:
    """The findings; while much waiting is unexplained, none says that no rank waits.

    Args:
        facts: Facts of a rank, with all ranks in `Facts.ranks`.
        findings: What the comparison of the ranks found.
    """
    rest_ns = unexplained_ns(facts, [f for f in findings if f.verdict == "found"])
    if rest_ns < SHARE * facts.wall_ns:
        return list(findings)
    return [_unexplained(f, rest_ns) if f.id in _OF_WAITS else f for f in findings]


def _unexplained(finding: Finding, rest_ns: int) -> Finding:
    """A finding that is not clear."""
    if finding.verdict != "clear":
        return finding
    waits = Evidence("waits for other ranks, not explained", rest_ns, "ns")
    return replace(
        finding,
        verdict="incomplete",
        title="Why ranks wait for each other",
        evidence=(waits, *finding.evidence),
        reason=unexplained_reason(rest_ns),
        abstention=Abstention("incomplete-record", ("causes-of-waits",)),
    )


def unexplained_reason(rest_ns: int) -> str:
    """A sentence on waits that nothing explains."""
    return (
        f"Ranks wait {format_ns(rest_ns)} of each step for others, and no rank is late often "
        "enough to be the cause. Record more steps, of all ranks."
    )
