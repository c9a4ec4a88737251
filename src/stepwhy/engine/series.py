"""Explain a run for writers of other programs' formats, with its series by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.engine.explain import explain
from stepwhy.show import markdown
from stepwhy.show.export.explained import Explained
from stepwhy.show.export.series import series_of
from stepwhy.show.markdown_text import prose

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.analyse.facts import Facts
    from stepwhy.base.redaction import Redactor
    from stepwhy.engine.rank_sets import Opened
    from stepwhy.result import Result
    from stepwhy.show.export.series import RunSeries

    Progress = Callable[[str, int, int], None]


def explain_with_series(
    path: str, name: str, progress: Progress | None, redactor: Redactor
) -> Explained:
    """Explain a run.

    Args:
        path: The input, as the user named it.
        name: Name of the run, redacted.
        progress: As in `explain`.
        redactor: What replaces secrets and private facts.

    Raises:
        InputError: It cannot be explained.
    """
    found: list[RunSeries] = []

    def seen(_: Opened, facts: Facts, _result: Result) -> None:
        found.append(series_of(facts))

    result = explain([path], progress, redact=redactor, seen=seen)
    return Explained(
        name, result, prose(result.verdict.sentence), markdown.render(result), tuple(found)
    )
