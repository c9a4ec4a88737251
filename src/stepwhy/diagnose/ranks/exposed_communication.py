"""Ranks exchange data while nothing computes.

## What it means
A collective or point-to-point transfer runs, or a graph waits for a tensor from another machine,
and no computation overlaps with it.

## Why it costs
Gradients can be sent while the rest of the backward pass computes. Communication that does not
overlap makes every step longer on every rank, and grows with the number of ranks.

## How it is measured
Time of the steady steps in which collectives, or waits for other processes, are the only activity,
by name of the collective, and the bytes per second where the sizes are recorded. The time that
overlaps with computation is shown as well. A collective lasts until the slowest rank has arrived:
**the trace of one rank does not show whether it waits for others or for the network.** With the
traces of several ranks, time in which the rank waits for others is left out: what each collective
takes longer than on the rank where it is shortest, or what `straggler`, `start-skew`,
`stage-imbalance` or `pipeline-bubble` explain. The predicted saving is never
longer than the rest of the step: what is exchanged there can only overlap with that. No saving is
predicted of the time in which stages of a pipeline wait for each other: no overlap removes it.

Without an accelerator, the exchange takes the same cores as the computation. Overlapping helps only
while cores idle: if they do for less than a tenth of the step, the finding has no cost and comes
last. So it does where `DistributedDataParallel` exchanges each gradient once per step, in buckets
that overlap with the backward pass already.

## Fix
First compare the ranks: if one arrives late, fix that rank. If the bytes per second are fewer than
the link carries, `NCCL_DEBUG=INFO` shows which transport is used. Then overlap: make the buckets
smaller if all gradients are in one or two of them (the default is 25 MB), exchange gradients only
at the last micro-batch, send fewer bytes (half precision, compression, sharding). The stages of a
pipeline wait least if all have the same work and a step has many microbatches.

## Fix risk
Gradient accumulation and compression change the computation; bucket sizes change only memory.

## When it abstains
On a run of one rank without communication. `incomplete` when no computation was recorded, because
then the overlap is unknown.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from stepwhy.analyse.ranks.rank_times import Rank
from stepwhy.analyse.ranks.stages import Stages, find_stages
from stepwhy.analyse.steps.cores import busy_cores, usable_cores
from stepwhy.base.columns.intervals import Intervals
from stepwhy.base.patterns import regex
from stepwhy.base.units import format_count
from stepwhy.diagnose.ranks.shared.exchanges import (
    SLOW,
    Buckets,
    bytes_per_s,
    find_buckets,
    rate_evidence,
)
from stepwhy.diagnose.ranks.shared.ranks import peers, reported
from stepwhy.diagnose.shared.ddp import may_accumulate, without_copies
from stepwhy.diagnose.shared.measure import by_name, mean_within, on_scale, times
from stepwhy.diagnose.shared.program import is_pytorch, is_training, uses_ddp
from stepwhy.diagnose.shared.rule import (
    Edit,
    Evidence,
    Facts,
    Finding,
    Fix,
    Rule,
    saving,
    within_cost,
)
from stepwhy.diagnose.shared.waits import (
    sees_all_ranks,
    slow_transfers_ns,
    unexplained_ns,
    unexplained_reason,
    waits_ns,
)
from stepwhy.result import Saving
from stepwhy.trace import NULL, Kind

RULE = Rule(
    __name__,
    name="Exposed communication",
    found="Overlap communication with computation",
    clear="Communication overlaps with computation, or is short",
    needs=(("device-time",), ("steps",)),
)

SHARE = 0.10  # of the step; below it the gain is less than the variation between steps
LITTLE_ROOM = 0.5  # of the exposed communication: overlapping cannot remove most of it
FEW_BUCKETS = 2  # large all-reduces per step; the last one overlaps with nothing
LEAST_SPLIT = 8e6  # bytes; in smaller buckets, latency costs as much as overlapping saves
SMALLER_BUCKETS = 5  # in which the gradients are exchanged instead
LEAST_SAVED = 0.0  # all of it may be waiting for a late rank, which overlapping does not fix

_LESS = "Communicate less: the rest of the step is too short to hide it"
_STAGES = "Let the stages of the pipeline wait less for each other"
_FIRST = "Rule out a late rank, then overlap communication with computation"
_NEEDED = "Much of the step is communication, and nothing shows that it can be less or overlap"
_NO_ROOM = "Overlapping can save no more than the rest of the step; communicating less can."


def diagnose(facts: Facts) -> Finding:
    """Judge the time in which only communication runs."""
    return _unless_needed(_exposed(facts), facts)


def _exposed(facts: Facts) -> Finding:
    cost = facts.breakdown["communication"]
    if not cost and not len(facts.slices(Kind.COLLECTIVE, Kind.WAIT, steady=True)):
        return RULE.not_applicable("No communication with other devices or processes is recorded.")
    evidence = _evidence(facts)
    if facts.share("communication") < SHARE:
        return RULE.nothing(evidence[:1])
    if not facts.breakdown["compute"]:
        return RULE.incomplete(
            "kernels",
            "Collectives are recorded, but no computation that could overlap with them.",
            evidence,
        )
    if _is_pipeline(facts):
        return RULE.finding(cost, evidence, _fix(facts), title=_STAGES)
    edit = Edit("communication", "overlapped")
    room_ns = _room_ns(facts)
    gain = _gain(cost, room_ns)
    found = RULE.finding(cost, evidence, _fix(facts), gain, edit)
    return replace(found, title=_LESS) if room_ns < LITTLE_ROOM * cost else found


def without_waits(finding: Finding, facts: Facts, causes: Sequence[Finding]) -> Finding:
    """The finding on one rank, without the time in which it waits for other ones.

    Args:
        finding: What `diagnose` found in the rank alone.
        facts: Facts of the rank, with all ranks in `Facts.ranks`.
        causes: What the comparison of the ranks found, the costliest first.
    """
    finding = _exposed(facts) if finding.title == _NEEDED else finding
    own, cost = reported(facts), finding.cost_ns_per_step
    if own is None or not cost:
        return _unless_needed(finding, facts)
    return _unless_needed(_rest(finding, facts, causes, own, cost), facts)


def _rest(
    finding: Finding, facts: Facts, causes: Sequence[Finding], own: Rank, cost: int
) -> Finding:
    """The finding, with its cost on the rank `own` beyond the waits for other ranks."""
    finding = _after_comparison(finding, facts, causes)
    measured_ns = waits_ns(facts)
    if not causes and measured_ns is None:
        return replace(finding, evidence=(*finding.evidence[:-1], _beyond_least(own, facts)))
    costs = {c.id: c.cost_ns_per_step or 0 for c in causes}
    wait_ns = min(max(_waits_ns(own, facts, costs), measured_ns or 0), cost)
    slow_ns = min(slow_transfers_ns(facts), cost - wait_ns) if "slow-group" in costs else 0
    stages = _stages(facts, costs)
    finding = finding if stages is None else replace(finding, fix=RULE.fix("rest"))
    evidence = (
        *finding.evidence[:1],
        *_parts(wait_ns, slow_ns, stages, causes),
        *finding.evidence[1:-1],
        *(() if causes else (_beyond_least(own, facts),)),
    )
    rest = cost - wait_ns - slow_ns
    if rest < SHARE * own.wall_ns:
        if not causes and wait_ns >= SHARE * own.wall_ns:
            return RULE.incomplete("causes-of-waits", unexplained_reason(wait_ns), evidence)
        return replace(
            RULE.nothing(evidence), title="Apart from waits for other ranks, it is short"
        )
    gain = within_cost(_gain(rest, _room_ns(facts)), rest) if finding.saving else None
    return replace(finding, cost_ns_per_step=rest, saving=gain, evidence=evidence)


def _parts(
    wait_ns: int, slow_ns: int, stages: Stages | None, causes: Sequence[Finding]
) -> Iterator[Evidence]:
    """What is no exposed communication.

    Args:
        wait_ns: Waits for other ranks.
        slow_ns: What a slow group loses.
        stages: Stages of a pipeline that wait for each other, if they do.
        causes: What the comparison of the ranks found, the costliest first.
    """
    see = f"see {causes[0].id}" if causes else ""
    yield Evidence("of that, waiting for other ranks", wait_ns, "ns", see)
    if slow_ns:
        yield Evidence("of that, lost by a slow group", slow_ns, "ns", "see slow-group")
    if stages is not None:
        yield Evidence("of these waits, to fill and drain", stages.fill_ns, "ns")


def _after_comparison(finding: Finding, facts: Facts, causes: Sequence[Finding]) -> Finding:
    """The finding, with the advice to rule out a late rank first if that could not be done."""
    fix = finding.fix
    if fix is None or finding.title == _STAGES:
        return finding
    text = fix.text.removeprefix(f"{_COMPARE} ")
    rest_ns = unexplained_ns(facts, causes)
    if sees_all_ranks(facts) and rest_ns < SHARE * facts.wall_ns:
        return replace(finding, fix=replace(fix, text=text))
    why = unexplained_reason(rest_ns) if sees_all_ranks(facts) else _RULE_OUT
    title = _FIRST if finding.title == RULE.found else finding.title
    return replace(finding, title=title, fix=replace(fix, text=f"{why} {text}"))


def _beyond_least(own: Rank, facts: Facts) -> Evidence:
    """How much longer a rank communicates than the one that waits least, which is waiting."""
    least_ns = min(rank.exchange_ns for rank in peers(facts))
    read = f"of {len(facts.ranks)} ranks that were read"
    return Evidence(
        "longer than on the rank that communicates least", own.exchange_ns - least_ns, "ns", read
    )


def _gain(cost_ns: int, room_ns: int) -> Saving:
    """What overlapping saves at most: the shorter of the communication and the rest of the step."""
    gain = saving("remove communication", LEAST_SAVED * cost_ns, min(cost_ns, room_ns))
    return gain if room_ns >= cost_ns else replace(gain, note=_NO_ROOM)


def _room_ns(facts: Facts) -> int:
    """Time of the step in which the busiest device could communicate, but does not, ns.

    Compilation and the writing of files delay what would overlap.
    """
    overlapped_ns = max(
        (on_scale(facts, mean_within(facts, one.communication)) for one in facts.leading), default=0
    )
    busy_ns = max(overlapped_ns, facts.breakdown["communication"])
    blocked_ns = facts.breakdown["compile"] + facts.breakdown["storage"]
    return max(facts.wall_ns - busy_ns - blocked_ns, 0)


def _waits_ns(own: Rank, facts: Facts, causes: Mapping[str, int]) -> int:
    """How long a rank waits for others, as far as the causes that were found explain it.

    Args:
        own: The rank.
        facts: Its facts.
        causes: Cost of each cause by id, ns.
    """
    waits_ns = causes.get("sequence-imbalance", 0)
    if not causes.keys().isdisjoint({"straggler", "start-skew"}):
        waits_ns += own.exchange_ns - min(rank.exchange_ns for rank in peers(facts))
    stages = _stages(facts, causes)
    if stages is not None:
        waits_ns += stages.fill_ns + stages.waits_ns(own.stage)
    return waits_ns


def _stages(facts: Facts, causes: Mapping[str, int]) -> Stages | None:
    """The stages of the pipeline, if these were found to wait for each other."""
    is_cause = not causes.keys().isdisjoint({"pipeline-bubble", "stage-imbalance"})
    return find_stages(facts.ranks) if is_cause else None


def _evidence(facts: Facts) -> tuple[Evidence, ...]:
    found = [
        Evidence(
            "share of the step spent communicating alone", facts.share("communication"), "fraction"
        ),
        Evidence("communication that overlaps with computation", _hidden_ns(facts), "ns"),
    ]
    rows = facts.slices(Kind.COLLECTIVE, Kind.WAIT, steady=True)
    found.extend(
        times(facts, "time in the collective, overlapped or not", by_name(facts, rows)[:3])
    )
    found.extend(rate_evidence(facts))
    world = facts.trace.meta.world_size
    if world != NULL:
        found.append(Evidence("ranks in the job", world, "count"))
    found.append(
        Evidence("waiting for others or moving bytes", "unknown from the trace of one rank", "")
    )
    return tuple(found)


def _hidden_ns(facts: Facts) -> int:
    communication, compute = Intervals.empty(), Intervals.empty()
    for activity in facts.leading:
        communication = communication | activity.communication
        compute = compute | activity.compute
    return on_scale(facts, mean_within(facts, communication & compute))


def _fix(facts: Facts) -> Fix:
    names = _names(facts)
    if _is_pipeline(facts):
        return RULE.fix("pipeline")
    if facts.trace.meta.framework == "tensorflow":
        return RULE.fix("tensorflow")
    is_ddp = is_pytorch(facts) and is_training(facts) and uses_ddp(facts)
    fix = _of_buckets(facts) if is_ddp and not _OTHER.search(names[0]) else RULE.fix("any")
    rate = bytes_per_s(facts)
    if rate is None:
        return replace(fix, text=f"{_COMPARE} {fix.text}")
    if rate >= SLOW or not facts.has_accelerator:
        return fix
    gb_per_s = f"{rate / 1e9:.1f} GB/s"
    return replace(fix, text=f"{_IMPLAUSIBLE.format(gb_per_s)} {fix.text}")


def _names(facts: Facts) -> list[str]:
    """Names of the exchanges, the one that takes longest first."""
    rows = facts.slices(Kind.COLLECTIVE, Kind.WAIT, steady=True)
    return [group.name for group in by_name(facts, rows)]


def _is_pipeline(facts: Facts) -> bool:
    """Whether stages of a pipeline exchange with each other."""
    return any(_BETWEEN_STAGES.match(name) for name in _names(facts))


def _unless_needed(finding: Finding, facts: Facts) -> Finding:
    """The finding, without a cost if nothing is known to be gained."""
    if not finding.saving or facts.has_accelerator or not _is_needed(facts):
        return finding
    return replace(finding, cost_ns_per_step=None, saving=None, edit=None, title=_NEEDED)


def _is_needed(facts: Facts) -> bool:
    """Whether the cores that compute exchange, and nothing is known to be gained by overlapping.

    So it is if `DistributedDataParallel` overlaps what it can and exchanges no more than once, or
    if too few cores idle.
    """
    is_ddp = bool(is_pytorch(facts) and is_training(facts) and uses_ddp(facts))
    is_bucket = is_ddp and not _OTHER.search(_names(facts)[0])
    if is_bucket and _few_buckets(facts) is None and not may_accumulate(facts):
        return True
    span_ns = facts.observed.steady_span_ns if facts.observed else None
    cores, busy = usable_cores(facts.trace), busy_cores(facts.trace, span_ns)
    return cores is not None and busy is not None and 1 - busy / cores < SHARE


def _few_buckets(facts: Facts) -> Buckets | None:
    """The buckets of gradients, if they are few and so large that smaller ones would overlap."""
    buckets = find_buckets(facts)
    are_few = buckets and buckets.count <= FEW_BUCKETS and buckets.total_bytes >= LEAST_SPLIT
    return buckets if are_few else None


def _of_buckets(facts: Facts) -> Fix:
    """Advice for the buckets of `DistributedDataParallel`, by their sizes if these are recorded."""
    buckets = _few_buckets(facts)
    fix = RULE.fix("larger-batches")
    if buckets:
        size = math.ceil(buckets.total_bytes / SMALLER_BUCKETS / 1e6)
        fix = RULE.fix("few-buckets", count=format_count(math.ceil(buckets.count)))
        fix = replace(fix, code=fix.code.replace("bucket_cap_mb=5", f"bucket_cap_mb={size}"))
    if may_accumulate(facts):
        rarely = RULE.fix("exchange-at-last")
        code = f"{fix.code}\n{rarely.code}".lstrip()
        fix = replace(fix, text=f"{fix.text} {rarely.text}", code=code)
    return without_copies(fix, facts)


# Scopes of Megatron-LM around the exchange of a pipeline stage with its neighbours.
_BETWEEN_STAGES = regex(r"(send|recv|exchange)[- _]|.*(-send|-recv|other stages)$")
# What no `DistributedDataParallel` calls in a step; kernels of RCCL have one name for all
# collectives. Source: kernel names of NCCL, ranges of Gloo.
_OTHER = regex(r"send_?recv|all_?to_?all|all_?gather|reduce_?scatter", re.IGNORECASE)
_COMPARE = "Compare the ranks' traces first: a late rank makes all others wait."
_RULE_OUT = (
    "These traces do not show for each collective which rank arrived last. Record all ranks, with "
    "the same steps: a late rank makes all others wait, and no overlap removes that."
)
_IMPLAUSIBLE = (
    "Exchanges run at {}, less than any link between GPUs in one machine carries. Either the ranks "
    "wait for a late one, so compare their traces, or the library uses a slow transport, such as "
    "sockets: NCCL_DEBUG=INFO shows it."
)
