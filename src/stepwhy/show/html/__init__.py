"""The report as one self-contained HTML file: no requests, and scripts are optional.

The data of its timeline, and how much of it there may be, come from `stepwhy.show.timeline`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.base.errors import OutputError
from stepwhy.base.whole_files import output_file
from stepwhy.show.html.page import page

if TYPE_CHECKING:
    from stepwhy.result import Result
    from stepwhy.result.timeline import Timeline


def render(result: Result, timeline: Timeline | None = None) -> str:
    """The page as text. All names from the trace are escaped."""
    return page(result, timeline)


def write(path: str | Path, result: Result, timeline: Timeline | None = None) -> None:
    """Write the page to `path`, completely or not at all.

    Args:
        path: The file.
        result: The result.
        timeline: Its timeline; None for a page without one.

    Raises:
        OutputError: If the file or its folder cannot be written.
    """
    target = Path(path)
    data = render(result, timeline).encode()
    try:
        with output_file(target) as file:
            file.write(data)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(
            f"The report {target} cannot be written: {reason}",
            "Name a file in a folder that exists and that you may write to",
        ) from error
