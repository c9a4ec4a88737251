"""A result with its series, as writers of other programs' formats need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepwhy.result import Result
    from stepwhy.show.export.series import RunSeries


class Explained(msgspec.Struct, frozen=True):
    """A run that was explained.

    Args:
        name: Its name, redacted.
        result: The result.
        verdict: The verdict as Markdown.
        report: The report as Markdown.
        series: The series of each rank.
    """

    name: str
    result: Result
    verdict: str
    report: str
    series: tuple[RunSeries, ...]
