"""Find runs, results and pages below a folder by their names and times, without opening them.

Links to folders are never followed, and a run directory is not searched further.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from stepwhy.base.errors import TooLargeError
from stepwhy.read.inputs.folders import Listing

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN_FILE = "run.json"
RESULT_FILE = "result.json"
PAGE_FILE = "report.html"
NOTE_FILE = "note.json"
Kind = Literal["run", "result", "page"]

# A run of `stepwhy lab grade` lies three folders deep: <time>/<pair>/<program>/<number>.
_DEPTH = 5  # folders above a run
_OF_A_RUN = (RUN_FILE, RESULT_FILE, PAGE_FILE, NOTE_FILE)
_KIND_OF_ENDING: dict[str, Kind] = {".json": "result", ".html": "page"}


class Found(msgspec.Struct, frozen=True):
    """Something that may be listed.

    Args:
        path: Its path relative to the served folder; '.' for the folder itself.
        kind: 'run': a run directory; 'result', 'page': a file that may hold one.
        signature: Times and sizes of its files; another one means that something has changed.
        time_ns: When its newest file was changed.
    """

    path: str
    kind: Kind
    signature: str
    time_ns: int


def scan(root: Path) -> tuple[list[Found], str]:
    """What lies below a folder.

    Args:
        root: The folder.

    Returns:
        Everything that was found, and a sentence if the search was given up; '' otherwise.
    """
    found: list[Found] = []
    try:
        found.extend(_walk(root, "", _DEPTH + 1, Listing(root.name or str(root))))
    except TooLargeError as error:
        return found, f"{error.what}. The list is not complete."
    return found, ""


def _walk(root: Path, inner: str, depth: int, listing: Listing) -> Iterator[Found]:
    folder = root / inner
    run = _run(folder, inner or ".")
    if run is not None:
        yield run
        return
    for entry in listing.entries(folder):
        path = f"{inner}/{entry.name}" if inner else entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth:
                yield from _walk(root, path, depth - 1, listing)
        elif kind := _KIND_OF_ENDING.get(Path(entry.name).suffix.lower()):
            status = _status(entry.path)
            if status is not None:
                yield Found(path, kind, _mark(status), status.st_mtime_ns)


def _run(folder: Path, path: str) -> Found | None:
    """A run directory; None for any other folder."""
    known = [(name, _status(folder / name)) for name in _OF_A_RUN]
    if known[0][1] is None:
        return None
    marks = [f"{name}={_mark(status)}" for name, status in known if status is not None]
    newest = max(status.st_mtime_ns for _, status in known if status is not None)
    return Found(path, "run", " ".join(marks), newest)


def _status(path: str | Path) -> os.stat_result | None:
    """Status of a regular file or of a link, which is not followed; None for anything else."""
    try:
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode) else None


def _mark(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns}:{status.st_size}:{status.st_ino}"
