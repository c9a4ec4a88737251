"""What is kept of a rank after its trace was analysed: what other ranks are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.answers.verdict import decide
from stepwhy.analyse.facts import Facts
from stepwhy.analyse.lateness.rank_summary import summarise_rank, summarise_untraced
from stepwhy.engine.assemble import assemble
from stepwhy.engine.rank_sets import is_cut, record_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.analyse.answers.verdict import Decision
    from stepwhy.analyse.ranks.calls import RunCalls
    from stepwhy.analyse.ranks.rank_times import Rank
    from stepwhy.analyse.ranks.untraced_ranks import UntracedRank
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.result import BoundBy, Breakdown, Device, Finding, Input, Result, TraceTotals
    from stepwhy.trace import Meta, Trace

    Seen = Callable[[Opened, Facts, Result], None]
    """Called with each trace, its facts and its result, before the facts are freed."""


class Detail(msgspec.Struct, frozen=True):
    """All that is known of one rank.

    Args:
        trace: Its trace.
        result: Its result.
        decision: What bounds its step.
        is_priced: Whether the result contains what its fixes would gain.
    """

    trace: Trace
    result: Result
    decision: Decision
    is_priced: bool = False


class Analysed(msgspec.Struct, frozen=True):
    """The part of one rank's result that the result of all ranks needs; some kilobytes.

    Args:
        path: The file of its trace.
        meta: Facts about its run.
        record: Digest of its slices, see `record_of`.
        is_cut: Whether the end of its file is missing.
        input: The file in the result.
        bound_by: What bounds its step.
        models: Models or names of its devices.
        breakdown: Its mean steady step.
        devices: Its devices.
        totals: The work of its devices over the whole trace.
        findings: What was found in it alone.
        rank: Its summary for the comparison of ranks, None if nothing can be compared.
        untraced: What is known of its steps where they were timed, but not traced.
        calls: The collectives that it has entered.
        place: Number of its file among the inputs, and of its trace in the file.
        detail: All that is known of it; None if it has been freed.
    """

    path: str
    meta: Meta
    record: bytes
    is_cut: bool
    input: Input
    bound_by: BoundBy
    models: tuple[str, ...]
    breakdown: Breakdown
    devices: tuple[Device, ...]
    totals: TraceTotals
    findings: tuple[Finding, ...]
    rank: Rank | None
    calls: RunCalls
    untraced: UntracedRank | None = None
    place: tuple[int, int] = (0, 0)
    detail: Detail | None = None

    @property
    def exchange_ns(self) -> int:
        """Time of its step in which it only exchanges data, or waits to."""
        return self.breakdown.categories["communication"]

    def numbered(self, rank: int) -> Self:
        """The same as another rank.

        Args:
            rank: Number of the rank.
        """
        summary, detail = self.rank, self.detail
        if summary is not None and summary.number != rank:
            stage = dict(self.meta.stages).get(rank, NULL)
            summary = replace(summary, number=rank, stage=stage)
        if detail is not None and detail.trace.meta.rank != rank:
            detail = None
        untraced = self.untraced and replace(self.untraced, number=rank)
        meta = replace(self.meta, rank=rank)
        return replace(self, meta=meta, rank=summary, untraced=untraced, detail=detail)

    def freed(self) -> Self:
        """The same without what takes much memory."""
        return replace(self, detail=None)


def detailed(one: Opened, facts: Facts, *, predict: bool) -> Detail:
    """All that is known of one trace.

    Args:
        one: The trace.
        facts: Its facts.
        predict: Whether to predict what fixes would gain.
    """
    result = assemble(facts, one.path, one.format, predict=predict)
    return Detail(one.trace, result, facts.derived(decide), predict)


def analyse(
    one: Opened,
    *,
    predict: bool = True,
    seen: Seen | None = None,
    place: tuple[int, int] = (0, 0),
) -> Analysed:
    """The result of one trace, and what other ranks are compared with.

    Args:
        one: The trace.
        predict: Whether to predict what fixes would gain.
        seen: Called with the trace, its facts and its result.
        place: Number of its file among the inputs, and of its trace in the file.
    """
    facts = Facts(one.trace)
    detail = detailed(one, facts, predict=predict)
    result = detail.result
    if seen is not None:
        seen(one, facts, result)
    return Analysed(
        path=one.path,
        meta=one.trace.meta,
        record=record_of(one.trace),
        is_cut=is_cut(one.trace),
        input=result.inputs[0],
        bound_by=result.verdict.bound_by,
        models=result.run.devices,
        breakdown=result.breakdown,
        devices=result.devices,
        totals=result.trace,
        findings=tuple(f for f in result.findings if f.verdict == "found"),
        rank=facts.derived(summarise_rank),
        untraced=facts.derived(summarise_untraced),
        calls=facts.calls,
        place=place,
        detail=detail,
    )
