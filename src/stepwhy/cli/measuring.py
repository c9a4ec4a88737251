"""Shared by `bench`, `compare` and `lab`: folders, progress, and writing of results."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from stepwhy.base import output
from stepwhy.base.errors import CaptureError, OutputError
from stepwhy.base.whole_files import write_whole
from stepwhy.show.json import render

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepwhy.show.json import Printed


def new_folder(folder: Path) -> Path:
    """Create an empty folder for runs.

    Raises:
        CaptureError: If it is not empty, or cannot be created; nothing has run.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise CaptureError(f"{folder} is not empty", "Name another directory with --out")
    except OSError as error:
        raise _write_error(folder, error) from error
    return folder


def run_folder(out: Path | None, name: str) -> Path:
    """Create the folder for runs: the one that the user named, or one named after the time.

    Raises:
        CaptureError: If it is not empty, or cannot be created; nothing has run.
    """
    from stepwhy.record.launcher.command import default_run_dir
    from stepwhy.record.launcher.run_directory import next_name

    if out is not None:
        return new_folder(out)
    usual = folder = default_run_dir([name], datetime.now().astimezone()).absolute()
    while True:
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            if not folder.exists():
                raise _write_error(folder, error) from error
            # Another command began in the same second.
            folder = next_name(folder, usual.name)
        else:
            return folder


def _write_error(folder: Path, error: OSError) -> CaptureError:
    return CaptureError(
        f"{folder} cannot be written: {error.strerror}", "Name another directory with --out"
    )


def save_result(path: Path, result: Printed) -> str:
    """Write a result as JSON.

    Returns:
        The JSON text.

    Raises:
        OutputError: If it cannot be written.
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
def run_progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Progress bar over runs; None if standard error is not a terminal."""
    if not output.is_watched():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TimeElapsedColumn

    from stepwhy.show.console import description_column, progress_bar

    columns = (
        description_column("running {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with progress_bar(*columns) as update:
        yield update
