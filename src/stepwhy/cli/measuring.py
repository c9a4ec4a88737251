"""What `bench` and `compare` share: folders, progress, and keeping the result."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from stepwhy.capture.process_folder import write_whole
from stepwhy.errors import CaptureError, OutputError
from stepwhy.report.json import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepwhy.findings import BenchResult, Comparison, LabResult


def new_folder(folder: Path) -> Path:
    """Make a folder for runs.

    Raises:
        CaptureError: It holds something already, or cannot be made; nothing has run.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CaptureError(f"{folder} is not empty", "Name another directory with --out")
    except OSError as error:
        raise CaptureError(
            f"{folder} cannot be written: {error.strerror}", "Name another directory with --out"
        ) from error
    return folder


def keep(path: Path, result: BenchResult | Comparison | LabResult) -> str:
    """Write a result beside its runs.

    Returns:
        The same as text.

    Raises:
        OutputError: It cannot be written.
    """
    text = render(result)
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror}", "Free space, and measure again"
        ) from error
    return text


@contextmanager
def counted() -> Iterator[Callable[[str, int, int], None] | None]:
    """A progress bar over runs; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("running {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(
            task, description=text, completed=done, total=total
        )
