"""The report as one self-contained HTML file: no requests, and scripts are optional."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.errors import OutputError
from stepwhy.report.html.page import page

if TYPE_CHECKING:
    from stepwhy.findings import Result


def render(result: Result) -> str:
    """The page as text. Whatever a trace contributed to it is escaped."""
    return page(result)


def write(path: str | Path, result: Result) -> None:
    """Writes the page to `path`, whole or not at all.

    Raises:
        OutputError: Where the file or its folder cannot be written.
    """
    target = Path(path)
    # Beside the target, because a rename is atomic within one file system only.
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        partial.write_text(render(result), encoding="utf-8", newline="\n")
        partial.replace(target)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        reason = error.strerror or str(error)
        raise OutputError(
            f"The report {target} cannot be written: {reason}",
            "Name a file in a folder that exists and that you may write to",
        ) from error
