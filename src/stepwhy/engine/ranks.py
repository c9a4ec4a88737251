"""Combine the results of several ranks of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from stepwhy.answers.parallel import parallel_use
from stepwhy.answers.rank_steps import rank_steps
from stepwhy.answers.rank_table import group_uses, rank_uses
from stepwhy.diagnoses import run_across
from stepwhy.engine.assemble import verdict_of
from stepwhy.engine.hangs import with_hang
from stepwhy.engine.pricing import priced
from stepwhy.engine.rank_findings import of_every_rank
from stepwhy.engine.rank_sets import whole_ranks, why_several
from stepwhy.findings import Device, DeviceTotal
from stepwhy.findings.reasons import RankChoice
from stepwhy.passes.calls import joined
from stepwhy.passes.facts import Facts
from stepwhy.whatif.ranks import Job
from stepwhy.wording.notes import rank_note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.engine.rank_sets import Analysed
    from stepwhy.findings import Result
    from stepwhy.trace import Meta

D = TypeVar("D", Device, DeviceTotal)

# Ranks that synchronise every step take equally long, except for noise. Steps that differ by less
# than this share count as equally long.
_ALIKE = 0.05


def same_run(metas: Sequence[Meta]) -> bool:
    """Whether several traces are ranks of one run: same job size, every rank once."""
    return len({m.rank for m in metas}) == len(metas) and not why_several(metas)


def combine(analysed: Sequence[Analysed], notes: list[str], *, predict: bool = True) -> Result:
    """One result for all ranks.

    Ranks that synchronise every step take as long as the slowest, so the step of the result is that
    of the slowest rank. If several are equally slow, it is that of the rank that waits least for
    the others, because they wait for it. Inputs and devices are listed for every rank.

    Args:
        analysed: The ranks, at least one.
        notes: Further notes for the reader.
        predict: Whether to predict what fixes would gain.
    """
    result = _combined(analysed, notes, predict=predict)
    result = with_hang(result, joined(one.calls for one in analysed), _ending(analysed))
    if any(finding.verdict == "found" for finding in result.findings):
        return result
    from stepwhy.report.without_findings import with_summary  # noqa: PLC0415 - else not needed

    return with_summary(result)


def _ending(analysed: Sequence[Analysed]) -> str:
    """How the run ended, as the first of its ranks that failed has recorded it."""
    return next((one.trace.meta.ending for one in analysed if one.trace.meta.ending), "")


def _combined(analysed: Sequence[Analysed], notes: list[str], *, predict: bool) -> Result:
    inputs = tuple(dict.fromkeys(i for one in analysed for i in one.result.inputs))
    analysed, about_ranks = whole_ranks(analysed)
    notes = [*about_ranks, *notes]
    results, metas = [one.result for one in analysed], [one.trace.meta for one in analysed]
    if len(results) == 1:
        return replace(results[0], inputs=inputs, notes=(*results[0].notes, *notes))
    choice = choose(results, metas)
    chosen = _compared(analysed, choice.rank, predict=predict)
    devices = _of_all([r.devices for r in results], metas)
    is_known = all(r.verdict.bound_by != "unknown" for r in results)
    return replace(
        chosen,
        parallel=parallel_use(devices, chosen.breakdown.wall_ns) if is_known else None,
        inputs=inputs,
        run=replace(
            chosen.run,
            ranks=len(results),
            devices=tuple(dict.fromkeys(d for r in results for d in r.run.devices)),
        ),
        devices=devices,
        trace=replace(
            chosen.trace,
            span_ns=max(r.trace.span_ns for r in results),
            devices=_of_all([r.trace.devices for r in results], metas),
        ),
        notes=(*_choice_note(choice), *chosen.notes, *notes),
    )


def _choice_note(choice: RankChoice) -> list[str]:
    """The note on which rank the report covers; none if no rank has steps."""
    return [rank_note(choice)] if choice.slowest_ns else []


def _compared(analysed: Sequence[Analysed], rank: int, *, predict: bool) -> Result:
    """The result of one rank, with what the comparison of all ranks finds."""
    one = next(one for one in analysed if one.trace.meta.rank == rank)
    summaries = [one.rank for one in analysed if one.rank is not None]
    facts = Facts(one.trace, summaries, joined(one.calls for one in analysed))
    findings = run_across(facts, one.result.findings)
    if predict:
        findings = priced(facts, findings, _replayable(analysed))
    findings = of_every_rank(findings, analysed)
    verdict = verdict_of(one.decision, findings, one.result.verdict.caveat)
    return replace(
        one.result,
        findings=findings,
        verdict=verdict,
        ranks=rank_uses(facts),
        groups=group_uses(facts),
        rank_steps=rank_steps(facts),
    )


def _replayable(analysed: Sequence[Analysed]) -> Job | None:
    """The job, if the operations of its ranks may be replayed together."""
    walls_ns = [one.result.breakdown.wall_ns for one in analysed]
    job = Job([one.trace for one in analysed], sum(walls_ns) / len(walls_ns))
    return job if job.is_table else None


def choose(results: Sequence[Result], metas: Sequence[Meta]) -> RankChoice:
    """The slowest rank; of several equally slow ones, the one that waits least for the others.

    Args:
        results: One result per rank, at least two.
        metas: Their facts about the run.
    """
    alike = _slowest(results)
    alike.sort(key=lambda i: results[i].breakdown.categories["communication"])
    is_pipeline = len({stage for meta in metas for _, stage in meta.stages}) > 1
    chosen = alike[(len(alike) - 1) // 2 if is_pipeline else 0]
    walls = [r.breakdown.wall_ns for r in results]
    compute = [r.breakdown.categories["compute"] for r in results]
    least = min(range(len(results)), key=lambda i: compute[i])
    is_unequal = compute[chosen] - compute[least] > _ALIKE * walls[chosen]
    return RankChoice(
        metas[chosen].rank,
        len(results),
        len(alike) == 1,
        max(walls),
        min(walls),
        compute[chosen],
        (metas[least].rank, compute[least]) if is_unequal else None,
        is_pipeline,
    )


def _slowest(results: Sequence[Result]) -> list[int]:
    """Indices of the ranks with the longest step, several if these are equally long."""
    longest = max(r.breakdown.wall_ns for r in results)
    return [i for i, r in enumerate(results) if r.breakdown.wall_ns >= (1 - _ALIKE) * longest]


def _of_all(devices: list[tuple[D, ...]], metas: Sequence[Meta]) -> tuple[D, ...]:
    """The devices of all ranks, with the rank in their names."""
    return tuple(
        replace(device, name=f"rank {meta.rank} {device.name.removeprefix(f'rank {meta.rank} ')}")
        for mine, meta in zip(devices, metas, strict=True)
        for device in mine
    )
