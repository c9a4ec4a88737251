"""Stored runs as samples for a comparison: run directories, traces, folders of `stepwhy bench`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepwhy.base.errors import InputError, NotAFileError
from stepwhy.engine.explain import explain
from stepwhy.measure import sample
from stepwhy.read.inputs.remote.addresses import shown
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES, read_side_file
from stepwhy.read.inputs.within import check_within
from stepwhy.result.measurement import BENCH_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from stepwhy.base.redaction import Redactor
    from stepwhy.engine.explain import Progress
    from stepwhy.measure import Sample


def stored_runs(path: Path) -> list[str]:
    """The runs in a folder of `stepwhy bench`; any other path is a single run.

    Args:
        path: An existing path.

    Raises:
        InputError: The list of runs is damaged, or names one outside of the folder.
    """
    listing = path / BENCH_FILE
    if not listing.is_file():
        return [str(path)]
    data = read_side_file(path, listing, MOST_RECORD_BYTES) or b""
    try:
        runs = json.loads(data)["measurement"]["runs"]
        return [str(_run_in(path, run["path"])) for run in runs]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{listing} is damaged ({error})", "Measure again") from None


def _run_in(folder: Path, name: str) -> Path:
    """Path of a run in a folder.

    Raises:
        NotAFileError: If the path leads out of the folder.
        OSError: If there is no such run.
    """
    try:
        check_within(folder, folder / name)
    except NotAFileError:
        raise NotAFileError(
            f"{folder.name}/{BENCH_FILE} names {name}, which is outside of {folder.name}",
            "Name that run directly",
        ) from None
    return folder / name


def stored_samples(
    paths: Iterable[str],
    redactor: Redactor,
    progress: Progress | None = None,
    *,
    allow_busy: bool,
) -> list[Sample]:
    """Samples of stored runs or traces.

    Args:
        paths: Their paths or addresses.
        redactor: Redactor for names in the runs.
        progress: As in `explain`.
        allow_busy: Whether runs on a busy machine are valid.

    Raises:
        InputError: A run cannot be explained.
        MeasurementError: A run has no step that can be measured.
    """
    return [
        sample(
            explain([path], progress, redact=redactor),
            redactor.text(shown(path)),
            allow_busy=allow_busy,
        )
        for path in paths
    ]
