"""What is logged of a result: numbers, texts and reports. What was not measured is left out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import msgspec

from stepwhy.api.explanation import Explanation
from stepwhy.base.errors import NoTracesError
from stepwhy.base.regular_files import read_regular
from stepwhy.base.text import one_line
from stepwhy.base.units import NS_PER_MS, format_ns
from stepwhy.result import CATEGORIES, Result
from stepwhy.show import words
from stepwhy.show.passed_on import with_short_paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepwhy.result import Finding

_PAGE = "report.html"
_MOST_PAGE = 64 << 20  # bytes; a page has a few megabytes at most


class Watched(Protocol):
    """A watched block or a callback."""

    @property
    def result(self) -> Result | None:
        """The result, if there is one."""

    @property
    def run_dir(self) -> Path | None:
        """The run directory, with the page."""


class Report(msgspec.Struct, frozen=True):
    """A result as loggers receive it.

    Args:
        result: The result.
        page: The report as one self-contained HTML page.
    """

    result: Result
    page: str

    @property
    def json(self) -> str:
        """The result as one JSON object."""
        from stepwhy.show import json  # noqa: PLC0415 - each format is loaded when it is used

        return json.render(self.result)

    @property
    def markdown(self) -> str:
        """The report as Markdown."""
        from stepwhy.show import markdown  # noqa: PLC0415 - as above

        return markdown.render(self.result)


def report_of(source: Result | Explanation | Watched | str | os.PathLike[str]) -> Report:
    """What is logged of a run.

    Args:
        source: A result, an explanation, a watched block or callback that has ended, or the path of
            a run directory or trace.

    Raises:
        InputError: The path cannot be explained, or the block has no result.
    """
    if isinstance(source, str | os.PathLike):
        return _explained(os.fspath(source))
    if isinstance(source, Result):
        return _rendered(source)
    if source.result is None:
        raise NoTracesError(
            "The training was not explained, so there is no result to log",
            "Read its 'messages' for the reason",
        )
    page = source.html if isinstance(source, Explanation) else _page_of(source)
    return Report(with_short_paths(source.result), page) if page else _rendered(source.result)


def metrics(result: Result) -> dict[str, float]:
    """The numbers of a result by their names, all in milliseconds.

    The step time is the median. The categories are means per step, and sum to the mean step.
    """
    return dict(_metrics(result))


def texts(result: Result) -> dict[str, str]:
    """The texts of a result by their names, each on one line."""
    found = words.found(result)
    named = {
        "stepwhy/verdict": result.verdict.sentence,
        "stepwhy/bound_by": result.verdict.bound_by,
        "stepwhy/first_finding": _sentence(result, found[0]) if found else "",
        "stepwhy/findings": ", ".join(finding.id for finding in found),
    }
    return {name: one_line(text) for name, text in named.items() if text}


def _metrics(result: Result) -> Iterator[tuple[str, float]]:
    if result.steps.source == "whole-trace" or not result.steps.count:
        return
    yield "stepwhy/step_time_ms", result.steps.median_ns / NS_PER_MS
    times = result.breakdown.categories
    for category in CATEGORIES if any(times.values()) else ():
        # Where no step was traced, nothing is known of a category without time.
        if times.get(category, 0) or (result.steps.source != "hook" or bool(result.steps.traced)):
            yield f"stepwhy/breakdown/{category}_ms", times.get(category, 0) / NS_PER_MS


def _sentence(result: Result, finding: Finding) -> str:
    if finding.cost_ns_per_step is None:
        return f"{finding.id}: {finding.title}"
    cost = f"{format_ns(finding.cost_ns_per_step)} {words.per_whole(result)}"
    return f"{finding.id}: {finding.title} (costs {cost})"


def _explained(path: str) -> Report:
    from stepwhy.engine.timeline import explain_with_timeline  # noqa: PLC0415 - a training ends first
    from stepwhy.show import html  # noqa: PLC0415 - as above

    result, timeline = explain_with_timeline([path])
    result = with_short_paths(result)
    return Report(result, html.render(result, timeline))


def _rendered(result: Result) -> Report:
    """A report whose page has no timeline."""
    from stepwhy.show import html  # noqa: PLC0415 - as above

    result = with_short_paths(result)
    return Report(result, html.render(result))


def _page_of(watched: Watched) -> str:
    """The page in the run directory; '' if it cannot be read."""
    if watched.run_dir is None:
        return ""
    try:
        return read_regular(watched.run_dir / _PAGE, _MOST_PAGE).decode()
    except (OSError, UnicodeDecodeError):
        return ""
