"""Explain a run, and pack its traces for the timeline of the page."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from stepwhy.analyse.lateness.rank_summary import summarise_rank
from stepwhy.engine.explain import explain
from stepwhy.engine.profile import profiles
from stepwhy.predict.quality import judge
from stepwhy.predict.replayed_step import replayed_step
from stepwhy.result.timeline import Timeline
from stepwhy.show.ranks import those_that_matter
from stepwhy.show.timeline import MOST_SLICES, alignment_of, packed_run, part_of, timeline_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from stepwhy.analyse.facts import Facts
    from stepwhy.analyse.ranks.rank_times import Rank
    from stepwhy.engine.privacy import Redact
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.predict.replayed_step import ReplayedStep
    from stepwhy.result import Finding, RankUse, Result
    from stepwhy.result.profile import ProfileResult
    from stepwhy.result.timeline import TimelineReplay
    from stepwhy.show.timeline import PackedRun, Part
    from stepwhy.trace import Meta

    Progress = Callable[[str, int, int], None]

# More ranks cannot be compared by eye, and each would have less room.
_MOST_RANKS = 32
# Those that matter are known at the end; until then, so many are kept that wait least.
_MOST_KEPT = 64
# In a larger trace, the views take longer than a page is worth; `stepwhy ops` prints them.
_MOST_OF_VIEWS = MOST_SLICES

MOST_REPLAYS = 5
"""Number of fixes whose step is drawn; the findings come in order of what their fixes gain."""


class _Seen(msgspec.Struct, frozen=True, eq=False):
    """One trace: its facts, its timeline, and its summary, None if it cannot be compared."""

    meta: Meta
    part: Part
    rank: Rank | None

    @property
    def exchange_ns(self) -> float:
        """Time in which it only exchanges data, or waits to; the late rank has the least."""
        return math.inf if self.rank is None else self.rank.exchange_ns


class TimelineParts:
    """Collects what the timeline shows while the traces of a run are explained.

    A failure leaves the timeline empty, with the reason; it never prevents the report.
    """

    def __init__(self) -> None:
        self._parts: list[_Seen] = []
        self._count = 0
        self._views: tuple[ProfileResult, ...] = ()
        self._run: PackedRun | None = None
        self._replays: tuple[TimelineReplay, ...] = ()
        self._not_replayed: tuple[str, ...] = ()
        self._problem = ""

    def seen(self, one: Opened, facts: Facts, result: Result) -> None:
        """Collect one trace; see `engine.explain.Seen`."""
        # All ranks share the room of the page.
        most = MOST_SLICES // (len(self._parts) + 1)
        try:
            replays = replays_of(facts, result.findings)
            rank = facts.derived(summarise_rank)
            self._keep(_Seen(one.trace.meta, part_of(facts, most, replays), rank))
            self._replays += tuple(replay.about for replay in replays)
            self._not_replayed = not_replayed(facts)
            if self._count == 1:
                self._run = packed_run(facts)
                if len(one.trace.slices) <= _MOST_OF_VIEWS:
                    self._views = profiles(facts, one.path)
        except Exception as error:  # noqa: BLE001 - see above
            self._problem = f"{type(error).__name__}: {error}"

    def _keep(self, seen: _Seen) -> None:
        """Keep a rank, and of too many not the one that waits longest for the others."""
        self._parts.append(seen)
        self._count += 1
        if len(self._parts) > _MOST_KEPT:
            self._parts.remove(max(self._parts, key=lambda one: one.exchange_ns))

    def timeline(self, ranks: Sequence[RankUse] = ()) -> Timeline:
        """The timeline of all traces; it is empty if there is none.

        Args:
            ranks: The ranks in the result; of many, those that matter are drawn.
        """
        if self._parts and not self._problem:
            try:
                return self._add_first_rank(self._together(ranks))
            except Exception as error:  # noqa: BLE001 - likewise
                self._problem = f"{type(error).__name__}: {error}"
        return Timeline(span_ns=0, rows=(), columns={}, slices=0, problem=self._problem)

    def _together(self, ranks: Sequence[RankUse]) -> Timeline:
        """The timeline of the ranks that are drawn, by number, on one clock if there is one."""
        if self._count == 1:
            return timeline_of([("", self._parts[0].part)])
        chosen = sorted(self._chosen(ranks), key=lambda one: one.meta.rank)
        parts = [(f"Rank {one.meta.rank}", one.part) for one in chosen]
        world_size = max(one.meta.world_size for one in chosen)
        alignment = alignment_of([one.rank for one in chosen], world_size)
        return replace(timeline_of(parts, alignment), ranks=(len(chosen), self._count))

    def _chosen(self, ranks: Sequence[RankUse]) -> list[_Seen]:
        """The ranks to draw, of many those that matter."""
        if len(self._parts) <= _MOST_RANKS:
            return self._parts
        matter = {rank.rank for rank in those_that_matter(ranks, _MOST_RANKS)}
        found = [one for one in self._parts if one.meta.rank in matter]
        others = [one for one in self._parts if one.meta.rank not in matter]
        others.sort(key=lambda one: one.exchange_ns)
        return [*found, *others][:_MOST_RANKS]

    def _add_first_rank(self, timeline: Timeline) -> Timeline:
        """The timeline with what is shown of the first rank alone."""
        timeline = replace(timeline, replays=self._replays, not_replayed=self._not_replayed)
        if self._run is None:
            return replace(timeline, views=self._views)
        run, columns = self._run
        return replace(timeline, views=self._views, run=run, columns=timeline.columns | columns)


def explain_with_timeline(
    names: Sequence[str],
    progress: Progress | None = None,
    *,
    redact: Redact = True,
    predict: bool = True,
    executor: Executor | None = None,
) -> tuple[Result, Timeline]:
    """Explain a run as `engine.explain.explain` does, and build its timeline.

    Args:
        names: The inputs, as the user named them.
        progress: As in `explain`.
        redact: As in `explain`.
        predict: Whether to predict what fixes would gain.
        executor: As in `explain`.

    Raises:
        InputError: No input can be explained, or several inputs are not ranks of one run.
        EngineError: The executor fails.
    """
    parts = TimelineParts()
    result = explain(
        names, progress, redact=redact, predict=predict, seen=parts.seen, executor=executor
    )
    return result, parts.timeline(result.ranks)


def replays_of(facts: Facts, findings: Iterable[Finding]) -> list[ReplayedStep]:
    """One step after each of the fixes whose gain was predicted by a replay.

    Args:
        facts: Facts of the run.
        findings: Its findings, with the predicted savings.
    """
    found = []
    for one in findings:
        if one.edit is None or one.saving is None or one.saving.method != "replay":
            continue
        found.append(replayed_step(facts, one.id, (one.edit,)))
        if len(found) == MOST_REPLAYS:
            break
    return found


def not_replayed(facts: Facts) -> tuple[str, ...]:
    """Why the recorded steps cannot be replayed, in sentences.

    Empty if they can be, or if no prediction needed to know: the page alone is not worth the time.
    """
    replay = facts.known(judge)
    return () if replay is None else replay.reasons
