"""Replay one step after the fixes of findings, for the timeline of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.predict.quality import judge
from stepwhy.predict.replayed_step import replayed_step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.analyse.facts import Facts
    from stepwhy.predict.replayed_step import ReplayedStep
    from stepwhy.result import Finding

MOST_REPLAYS = 5
"""Number of fixes whose step is drawn; the findings come in order of what their fixes gain."""


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


__all__ = ["MOST_REPLAYS", "not_replayed", "replays_of"]
