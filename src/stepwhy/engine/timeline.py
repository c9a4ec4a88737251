"""Explain a run, and pack its traces for the timeline of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.engine.explain import explain
from stepwhy.export.timeline import MOST_SLICES, part_of, timeline_of
from stepwhy.findings.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.engine.explain import Opened
    from stepwhy.engine.privacy import Redact
    from stepwhy.export.timeline import Part
    from stepwhy.findings import Result
    from stepwhy.passes.facts import Facts
    from stepwhy.trace import Meta

    Progress = Callable[[str, int, int], None]


def explain_with_timeline(
    names: Sequence[str],
    progress: Progress | None = None,
    *,
    redact: Redact = True,
    predict: bool = True,
) -> tuple[Result, Timeline]:
    """Explain a run as `engine.explain` does, and return its timeline, too.

    A timeline that cannot be built is empty, and says why: the report is worth more than it.

    Args:
        names: As in `engine.explain`.
        progress: Likewise.
        redact: Likewise.
        predict: Likewise.

    Raises:
        InputError: As in `engine.explain`.
    """
    parts: list[tuple[Meta, Part]] = []
    problems: list[str] = []

    def seen(one: Opened, facts: Facts) -> None:
        # All ranks share the room of the page.
        most = MOST_SLICES // (len(parts) + 1)
        try:
            parts.append((one.trace.meta, part_of(facts, most)))
        except Exception as error:  # noqa: BLE001 - see above
            problems.append(f"{type(error).__name__}: {error}")

    result = explain(names, progress, redact=redact, predict=predict, seen=seen)
    if problems or not parts:
        return result, _without(problems)
    try:
        is_job = len(parts) > 1
        titled = [(f"Rank {meta.rank}" if is_job else "", part) for meta, part in parts]
        return result, timeline_of(titled)
    except Exception as error:  # noqa: BLE001 - likewise
        return result, _without([f"{type(error).__name__}: {error}"])


def _without(problems: Sequence[str]) -> Timeline:
    return Timeline(span_ns=0, rows=(), columns={}, slices=0, problem=", ".join(problems[:1]))


__all__ = ["explain_with_timeline"]
