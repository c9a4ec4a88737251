"""Find the runs and traces below some folders, without reading them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwhy.read.inputs.folders import Listing
from stepwhy.read.inputs.search import has_usual_ending
from stepwhy.result.measurement import BENCH_FILE

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

_RUN_FILES = ("run.json", "process.json")
# What stepwhy itself writes beside runs.
_NO_TRACES = frozenset((BENCH_FILE, "compare.json"))


class Found(msgspec.Struct, frozen=True):
    """A run or a trace.

    Args:
        path: Its path.
        kind: As in `answers.RunFound`.
        bytes: Size of a file; None for folders.
        modified_s: Time of the last change, in seconds of the system's clock.
    """

    path: Path
    kind: str
    bytes: int | None
    modified_s: float

    @property
    def modified(self) -> str:
        """Time of the last change, UTC."""
        return datetime.fromtimestamp(self.modified_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def runs_below(folders: Iterable[Path]) -> list[Found]:
    """The runs and traces below some folders, the last changed first.

    Links and hidden files are left out.

    Raises:
        TooLargeError: There are too many entries.
    """
    found = (one for folder in folders for one in _walk(folder, Listing(folder.name)))
    return sorted(found, key=lambda one: (-one.modified_s, one.path))


def _walk(top: Path, listing: Listing) -> Iterator[Found]:
    folders = [top]
    while folders:
        folder = folders.pop()
        entries = [e for e in listing.entries(folder) if not e.name.startswith(".")]
        names = {entry.name for entry in entries}
        if names.intersection(_RUN_FILES):
            yield _found(folder, "run")
            continue
        if BENCH_FILE in names:
            yield _found(folder, "bench")
        folders += [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
        yield from (_found(Path(entry), "file") for entry in entries if _may_be_a_trace(entry))


def _may_be_a_trace(entry: os.DirEntry[str]) -> bool:
    if entry.name in _NO_TRACES or not has_usual_ending(entry.name):
        return False
    return entry.is_file(follow_symlinks=False)


def _found(path: Path, kind: str) -> Found:
    """Describe a path, which may vanish meanwhile."""
    try:
        status = path.stat()
    except OSError:
        return Found(path, kind, None, 0.0)
    return Found(path, kind, status.st_size if kind == "file" else None, status.st_mtime)
