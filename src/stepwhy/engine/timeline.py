"""Explain a run, and pack its traces for the timeline of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.engine.explain import explain
from stepwhy.engine.profile import profiles
from stepwhy.engine.replays import not_replayed, replays_of
from stepwhy.export.timeline import MOST_SLICES, alignment_of, packed_run, part_of, timeline_of
from stepwhy.findings.timeline import Timeline
from stepwhy.passes.rank_summary import summarise_rank
from stepwhy.report.ranks import those_that_matter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.engine.privacy import Redact
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.export.timeline import PackedRun, Part
    from stepwhy.findings import RankUse, Result
    from stepwhy.findings.profile import ProfileResult
    from stepwhy.findings.timeline import TimelineReplay
    from stepwhy.passes.facts import Facts
    from stepwhy.passes.ranks import Rank
    from stepwhy.trace import Meta

    Progress = Callable[[str, int, int], None]

# More ranks cannot be compared by eye, and each would have less room.
_MOST_RANKS = 32
# In a larger trace, the views take longer than a page is worth; `stepwhy ops` prints them.
_MOST_OF_VIEWS = MOST_SLICES


class TimelineParts:
    """Collects what the timeline shows while the traces of a run are explained.

    A failure leaves the timeline empty, with the reason; it never prevents the report.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Meta, Part]] = []
        self._ranks: list[Rank | None] = []
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
            self._parts.append((one.trace.meta, part_of(facts, most, replays)))
            self._ranks.append(facts.derived(summarise_rank))
            self._replays += tuple(replay.about for replay in replays)
            self._not_replayed = not_replayed(facts)
            if len(self._parts) == 1:
                self._run = packed_run(facts)
                if len(one.trace.slices) <= _MOST_OF_VIEWS:
                    self._views = profiles(facts, one.path)
        except Exception as error:  # noqa: BLE001 - see above
            self._problem = f"{type(error).__name__}: {error}"

    def timeline(self, ranks: Sequence[RankUse] = ()) -> Timeline:
        """The timeline of all traces; it is empty if there is none.

        Args:
            ranks: The ranks in the result; of many, those that matter are drawn.
        """
        if self._parts and not self._problem:
            try:
                return self._with_first_rank(self._together(ranks))
            except Exception as error:  # noqa: BLE001 - likewise
                self._problem = f"{type(error).__name__}: {error}"
        return Timeline(span_ns=0, rows=(), columns={}, slices=0, problem=self._problem)

    def _together(self, ranks: Sequence[RankUse]) -> Timeline:
        """The timeline of the ranks that are drawn, by number, on one clock if there is one."""
        if len(self._parts) == 1:
            return timeline_of([("", self._parts[0][1])])
        matter = {rank.rank for rank in those_that_matter(ranks, _MOST_RANKS)}
        order = sorted(range(len(self._parts)), key=lambda i: self._parts[i][0].rank)
        chosen = [i for i in order if not matter or self._parts[i][0].rank in matter]
        parts = [(f"Rank {meta.rank}", part) for meta, part in (self._parts[i] for i in chosen)]
        world_size = max(meta.world_size for meta, _ in self._parts)
        alignment = alignment_of([self._ranks[i] for i in chosen], world_size)
        found = timeline_of(parts, alignment)
        return replace(found, ranks=(len(chosen), len(self._parts)))

    def _with_first_rank(self, timeline: Timeline) -> Timeline:
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
) -> tuple[Result, Timeline]:
    """Explain a run as `engine.explain.explain` does, and build its timeline.

    Args:
        names: The inputs, as the user named them.
        progress: As in `explain`.
        redact: As in `explain`.
        predict: Whether to predict what fixes would gain.

    Raises:
        InputError: No input can be explained, or several inputs are not ranks of one run.
    """
    parts = TimelineParts()
    result = explain(names, progress, redact=redact, predict=predict, seen=parts.seen)
    return result, parts.timeline(result.ranks)


__all__ = ["TimelineParts", "explain_with_timeline"]
