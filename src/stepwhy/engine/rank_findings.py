"""Findings of every rank of a run: one per problem, with the ranks in which it occurs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.diagnose import TABLE, load
from stepwhy.diagnose.shared.causes import STALLS
from stepwhy.result import Evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stepwhy.engine.analysed import Analysed
    from stepwhy.result import Finding

# What only the comparison of ranks shows, what describes the record, and what is said only where
# nothing else explains the step.
_NOT_OF_A_RANK = ("ranks", "measurement", "any")
# Problems of a rank that are hidden while the others wait for another one.
_LATE = ("straggler", "start-skew")
_MOST_NAMED = 8
_HOLDS_FOR = "ranks in which this occurs"
_OTHERS_LATE = "The others wait for these ranks in some steps at most: the fix may gain nothing."


def of_every_rank(
    findings: Sequence[Finding], ranks: Sequence[Analysed], late_ranks: Collection[int] = ()
) -> tuple[Finding, ...]:
    """The findings on one rank, and what the others have in addition.

    What only other ranks have comes after what was found in this one, which the others wait for.
    It is hidden by a late rank if these ranks wait for that one for longer than it costs. What
    stalls a rank comes first if it makes that rank late, or if the exchange of gradients would be
    first and may gain less.

    Args:
        findings: Those on the rank that the result covers, in order.
        ranks: All ranks.
        late_ranks: Ranks that enter collectives late, see `late-arrival`.
    """
    families = {load(name).RULE.id: load(name).RULE.family for name in TABLE}
    found = _group_by_problem(ranks, families)
    mine = [_add_ranks(f, found.get(f.id, {}), len(ranks)) for f in findings]
    known = {f.id for f in mine if f.verdict == "found"}
    late = next((name for name in _LATE if name in known), "")
    others = [
        _costliest_of_others(of_rank, ranks, late)
        for id_, of_rank in found.items()
        if id_ not in known and any(not f.explained_by for f in of_rank.values())
    ]
    others.sort(key=lambda f: (f.explained_by != "", -(f.cost_ns_per_step or 0), f.id))
    added = {f.id for f in others}
    why = [f for f in others if f.id in STALLS and not set(late_ranks).isdisjoint(f.ranks)]
    if why and "late-arrival" in known:
        # What makes the late rank late comes first, with what to do about it.
        mine = [replace(f, explained_by=why[0].id) if f.id == "late-arrival" else f for f in mine]
        mine = [*why, *mine]
        others = [f for f in others if f not in why]
    exchange = mine[0] if mine and mine[0].id == "exposed-communication" else None
    mine.sort(key=lambda f: (f.explained_by != "", exchange and not _gains_more(f, exchange)))
    return (
        *(f for f in mine if f.verdict == "found"),
        *others,
        *(f for f in mine if f.verdict != "found" and f.id not in added),
    )


def _gains_more(stall: Finding, exchange: Finding) -> bool:
    """Whether ending a stall gains more, for certain, than the middle of what less exchange may.

    The exchange has to be done in any case, and hiding it behind computation takes more than
    stopping what only one rank does.
    """
    if stall.id not in STALLS or stall.saving is None or exchange.saving is None:
        return False
    return 2 * stall.saving.low_ns > exchange.saving.low_ns + exchange.saving.high_ns


def _group_by_problem(
    ranks: Sequence[Analysed], families: Mapping[str, str]
) -> dict[str, dict[int, Finding]]:
    """What was found in each rank alone, by problem and rank."""
    found: defaultdict[str, dict[int, Finding]] = defaultdict(dict)
    for one in sorted(ranks, key=lambda one: one.meta.rank):
        for finding in one.findings:
            if families.get(finding.id) not in _NOT_OF_A_RANK:
                found[finding.id][one.meta.rank] = finding
    return found


def _add_ranks(finding: Finding, of_rank: Mapping[int, Finding], count: int) -> Finding:
    """The finding with the ranks that it holds for, as evidence unless these are all ranks."""
    if finding.verdict != "found" or not of_rank:
        return finding
    numbers = tuple(of_rank)
    found = replace(finding, ranks=numbers)
    if len(numbers) == count:
        return found
    return replace(found, evidence=(*found.evidence, _evidence(numbers, count)))


def _evidence(numbers: Sequence[int], count: int) -> Evidence:
    more = len(numbers) - _MOST_NAMED
    named = ", ".join(map(str, numbers[:_MOST_NAMED]))
    return Evidence(
        _HOLDS_FOR, f"{named} and {more} more" if more > 0 else named, "", f"of {count} ranks"
    )


def _costliest_of_others(
    of_rank: Mapping[int, Finding], ranks: Sequence[Analysed], late: str
) -> Finding:
    """A finding on other ranks than the one that the result covers: where it costs most."""
    own = {number: f for number, f in of_rank.items() if not f.explained_by}
    number = max(own, key=lambda number: (own[number].cost_ns_per_step or 0, -number))
    finding, numbers = own[number], tuple(of_rank)
    # How much longer a rank communicates than the one that communicates least, ns per step.
    exchange_ns = {one.meta.rank: one.exchange_ns for one in ranks}
    waits_ns = exchange_ns[number] - min(exchange_ns.values())
    hidden = bool(late) and waits_ns >= (finding.cost_ns_per_step or 0)
    saving = finding.saving
    return replace(
        finding,
        ranks=numbers,
        evidence=(_evidence(numbers, len(ranks)), *finding.evidence),
        saving=saving and replace(saving, low_ns=0, note=f"{saving.note} {_OTHERS_LATE}".strip()),
        explained_by=late if hidden else "",
        hidden=hidden,
    )
