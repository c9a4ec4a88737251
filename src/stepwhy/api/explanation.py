"""`stepwhy.explain(path)`: the result of `stepwhy explain` in a program or notebook."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from stepwhy.show.frame import framed

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from stepwhy.result import Result
    from stepwhy.result.timeline import Timeline


class Explanation:
    """A result, with its reports. A notebook shows the page; `print` shows the text.

    Args:
        result: The result.
        timeline: What the page draws; None for a page without a timeline.
    """

    def __init__(self, result: Result, timeline: Timeline | None = None) -> None:
        self.result = result
        self._timeline = timeline

    @property
    def markdown(self) -> str:
        """The report as Markdown, for issues and chats."""
        from stepwhy.show import markdown  # noqa: PLC0415 - each format is loaded when it is used

        return markdown.render(self.result)

    @property
    def problems(self) -> str:
        """A line 'file:line: message' per finding that names a line of the program."""
        from stepwhy.show import problems  # noqa: PLC0415 - as above

        return problems.render(self.result)

    @property
    def html(self) -> str:
        """The report as one self-contained page."""
        from stepwhy.show import html  # noqa: PLC0415 - as above

        return html.render(self.result, self._timeline)

    @property
    def json(self) -> str:
        """The result as one JSON object."""
        from stepwhy.show import json  # noqa: PLC0415 - as above

        return json.render(self.result)

    def __str__(self) -> str:
        from stepwhy.show import terminal  # noqa: PLC0415 - as above
        from stepwhy.show.console import Console  # noqa: PLC0415

        printed = io.StringIO()
        terminal.render(self.result, console=Console(file=printed, width=100))
        return printed.getvalue()

    def __repr__(self) -> str:
        verdict = self.result.verdict
        return f"<stepwhy.Explanation: {verdict.sentence}>"

    def _repr_html_(self) -> str:
        """The page for a notebook."""
        return framed(self.html)

    def _repr_markdown_(self) -> str:
        """The report for a notebook that shows no HTML."""
        return self.markdown


def explain(
    *paths: str | os.PathLike[str],
    redact: bool = True,
    predict: bool = True,
    executor: Executor | None = None,
) -> Explanation:
    """Explain a recorded training run.

    Args:
        paths: What `stepwhy explain` accepts: a run directory, a trace file of another profiler, a
            folder, a glob or an address; several are the ranks of one run.
        redact: Whether to replace secrets and private facts in the result.
        predict: Whether to predict what fixes would gain.
        executor: What reads the files of many ranks, such as that of a client of Dask. stepwhy must
            be installed where it does its tasks. By default, this process or several ones of this
            machine. The result is the same; the timeline of the page then shows one rank.

    Returns:
        The result and its reports.

    Raises:
        InputError: Nothing can be explained, or the inputs are several runs.
        EngineError: The executor fails.
    """
    # A training does not need it.
    from stepwhy.engine.timeline import explain_with_timeline  # noqa: PLC0415

    names = [os.fspath(path) for path in paths]
    return Explanation(
        *explain_with_timeline(names, redact=redact, predict=predict, executor=executor)
    )
