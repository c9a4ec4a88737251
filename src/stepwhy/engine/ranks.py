"""Combine the results of several ranks of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from stepwhy.analyse.answers.parallel import parallel_use
from stepwhy.analyse.answers.rank_steps import rank_steps
from stepwhy.analyse.answers.rank_table import group_uses, rank_uses
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.call_lateness import late_by_calls
from stepwhy.analyse.lateness.hangs import find_hang, find_mismatch
from stepwhy.analyse.ranks.calls import joined
from stepwhy.diagnose import run_across
from stepwhy.engine.assemble import verdict_of
from stepwhy.engine.pricing import priced
from stepwhy.engine.rank_findings import of_every_rank
from stepwhy.engine.rank_sets import whole_ranks
from stepwhy.predict.ranks import Job, is_table
from stepwhy.result import Device, DeviceTotal
from stepwhy.result.reasons import RankChoice
from stepwhy.result.wording.hangs import hang_sentence, mismatch_sentence
from stepwhy.result.wording.notes import rank_note

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.analyse.ranks.calls import RunCalls
    from stepwhy.engine.analysed import Analysed, Detail
    from stepwhy.result import Result
    from stepwhy.trace import Meta

    DetailOf = Callable[[Analysed], Detail]

D = TypeVar("D", Device, DeviceTotal)

# Ranks that synchronise every step take equally long, except for noise. Steps that differ by less
# than this share count as equally long.
_ALIKE = 0.05

_HANGS = ("mismatched-collective", "hung-collective")


def kept_detail(one: Analysed) -> Detail:
    """All that is known of a rank that was not freed.

    Args:
        one: The rank.
    """
    if one.detail is None:
        raise ValueError(f"the trace of rank {one.meta.rank} has been freed")
    return one.detail


def combine(
    analysed: Sequence[Analysed],
    notes: Sequence[str],
    *,
    predict: bool = True,
    detail_of: DetailOf = kept_detail,
) -> Result:
    """One result for all ranks.

    Ranks that synchronise every step take as long as the slowest, so the step of the result is that
    of the slowest rank. If several are equally slow, it is that of the rank that waits least for
    the others, because they wait for it. Inputs and devices are listed for every rank.

    Args:
        analysed: The ranks, at least one.
        notes: Further notes for the reader.
        predict: Whether to predict what fixes would gain.
        detail_of: All that is known of a rank, also of one whose trace has been freed.
    """
    result = _combined(analysed, notes, detail_of, predict=predict)
    # How the run ended, as the first of its ranks that failed has recorded it.
    ending = next((one.meta.ending for one in analysed if one.meta.ending), "")
    calls = joined(one.calls for one in analysed)
    # The first sentence says which rank hangs where, or which calls differ.
    found = {f.id for f in result.findings if f.verdict == "found" and not f.explained_by}
    sentences = [*(_hang_sentence(name, calls) for name in _HANGS if name in found), ending]
    result = replace(result, run=replace(result.run, ending=" ".join(filter(None, sentences))))
    if any(finding.verdict == "found" for finding in result.findings):
        return result
    from stepwhy.show.without_findings import with_summary  # noqa: PLC0415 - else not needed

    return with_summary(result)


def _combined(
    analysed: Sequence[Analysed], notes: Sequence[str], detail_of: DetailOf, *, predict: bool
) -> Result:
    inputs = tuple(dict.fromkeys(one.input for one in analysed))
    ranks, about_ranks = whole_ranks(analysed)
    notes = [*about_ranks, *notes]
    if len(ranks) == 1:
        result = _alone(detail_of(ranks[0]), predict=predict)
        return replace(result, inputs=inputs, notes=(*result.notes, *notes))
    choice = choose(ranks)
    chosen = _compared(ranks, choice.rank, detail_of, predict=predict)
    metas = [one.meta for one in ranks]
    devices = _join_devices([one.devices for one in ranks], metas)
    is_known = all(one.bound_by != "unknown" for one in ranks)
    return replace(
        chosen,
        parallel=parallel_use(devices, chosen.breakdown.wall_ns) if is_known else None,
        inputs=inputs,
        run=replace(
            chosen.run,
            ranks=len(ranks),
            devices=tuple(dict.fromkeys(d for one in ranks for d in one.models)),
        ),
        devices=devices,
        trace=replace(
            chosen.trace,
            span_ns=max(one.totals.span_ns for one in ranks),
            devices=_join_devices([one.totals.devices for one in ranks], metas),
        ),
        notes=(*([rank_note(choice)] if choice.slowest_ns else []), *chosen.notes, *notes),
    )


def _alone(detail: Detail, *, predict: bool) -> Result:
    """The result of the only rank that can be explained."""
    result = detail.result
    if not predict or detail.is_priced:
        return result
    findings = priced(Facts(detail.trace), result.findings)
    verdict = verdict_of(detail.decision, findings, result.verdict.caveat)
    return replace(result, findings=findings, verdict=verdict)


def _compared(
    ranks: Sequence[Analysed], number: int, detail_of: DetailOf, *, predict: bool
) -> Result:
    """The result of one rank, with what the comparison of all ranks finds."""
    detail = detail_of(next(one for one in ranks if one.meta.rank == number))
    summaries = [one.rank for one in ranks if one.rank is not None]
    untraced = [one.untraced for one in ranks if one.untraced is not None]
    facts = Facts(detail.trace, summaries, joined(one.calls for one in ranks), untraced)
    findings = run_across(facts, detail.result.findings)
    if predict:
        findings = priced(facts, findings, _replayable(ranks, detail_of))
    findings = of_every_rank(findings, ranks, late_by_calls(facts))
    return replace(
        detail.result,
        findings=findings,
        verdict=verdict_of(detail.decision, findings, detail.result.verdict.caveat),
        ranks=rank_uses(facts),
        groups=group_uses(facts),
        rank_steps=rank_steps(facts),
    )


def _replayable(ranks: Sequence[Analysed], detail_of: DetailOf) -> Job | None:
    """The job, if the operations of its ranks may be replayed together."""
    if not is_table([one.meta for one in ranks]):
        return None
    walls_ns = [one.breakdown.wall_ns for one in ranks]
    return Job([detail_of(one).trace for one in ranks], sum(walls_ns) / len(walls_ns))


def choose(ranks: Sequence[Analysed]) -> RankChoice:
    """The slowest rank; of several equally slow ones, the one that waits least for the others.

    Where no step was traced, that is the one that is in the framework least often.

    Args:
        ranks: The ranks, at least two.
    """
    # Indices of the ranks with the longest step, several if these are equally long.
    longest = max(one.breakdown.wall_ns for one in ranks)
    alike = [i for i, one in enumerate(ranks) if one.breakdown.wall_ns >= (1 - _ALIKE) * longest]
    alike.sort(key=lambda i: (ranks[i].exchange_ns, -_share_outside(ranks[i])))
    stages = {one.meta.stages for one in ranks}  # most often, each rank knows those of all
    is_pipeline = len({stage for pairs in stages for _, stage in pairs}) > 1
    chosen = alike[(len(alike) - 1) // 2 if is_pipeline else 0]
    walls = [one.breakdown.wall_ns for one in ranks]
    compute = [one.breakdown.categories["compute"] for one in ranks]
    least = min(range(len(ranks)), key=lambda i: compute[i])
    is_unequal = compute[chosen] - compute[least] > _ALIKE * walls[chosen]
    return RankChoice(
        ranks[chosen].meta.rank,
        len(ranks),
        len(alike) == 1,
        max(walls),
        min(walls),
        compute[chosen],
        (ranks[least].meta.rank, compute[least]) if is_unequal else None,
        is_pipeline,
    )


def _share_outside(one: Analysed) -> float:
    """How much of its time a rank without traced steps is outside of the framework, 0..1."""
    return 0.0 if one.untraced is None else one.untraced.share


def _join_devices(devices: list[tuple[D, ...]], metas: Sequence[Meta]) -> tuple[D, ...]:
    """The devices of all ranks, with the rank in their names."""
    return tuple(
        replace(device, name=f"rank {meta.rank} {device.name.removeprefix(f'rank {meta.rank} ')}")
        for mine, meta in zip(devices, metas, strict=True)
        for device in mine
    )


def _hang_sentence(name: str, calls: RunCalls) -> str:
    if name == "mismatched-collective":
        mismatch = find_mismatch(calls)
        return mismatch_sentence(mismatch) if mismatch else ""
    hang = find_hang(calls)
    return hang_sentence(hang) if hang else ""
