"""Files of reduced ranks: beside the trace, or in the run directory, that they were made from.

The trace `rank3.json.gz` has `rank3.json.gz.stepwhy-rank` beside it; the run directory `rank-3` has
`rank-3/reduced.stepwhy-rank`.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stepwhy.read.inputs.folders import Listing
from stepwhy.read.inputs.kinds import is_file, is_folder, is_there
from stepwhy.read.inputs.within import open_within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAGIC = b"stepwhy reduced rank\n"
"""Bytes at the start of every file."""

ENDING = ".stepwhy-rank"
"""How its name ends."""

IN_RUN = f"reduced{ENDING}"
"""Its name in a run directory."""

_OF_PROCESS = "process-"  # what the names of their folders begin with
_TAIL = 4096  # bytes at the end of a file, which differ between two records of the same size

P = TypeVar("P", str, Path)


def reduced_path(source: Path) -> Path:
    """Where the reduced ranks of a trace or run directory are.

    Args:
        source: The file of the trace, or the run directory.
    """
    return source / IN_RUN if is_folder(source) else source.with_name(source.name + ENDING)


def is_reduced(name: str) -> bool:
    """Whether a file with this name contains reduced ranks."""
    return name.endswith(ENDING)


def source_of(path: Path) -> Path | None:
    """The trace or run directory that reduced ranks were made from; None if it is not there.

    Args:
        path: Any file.
    """
    if not is_reduced(path.name):
        return None
    if path.name == IN_RUN:
        return path.parent if is_file(path.parent / "run.json") else None
    source = path.with_name(path.name.removesuffix(ENDING))
    return source if is_there(source) else None


def without_reduced(files: Iterable[P]) -> list[P]:
    """Files without the reduced ranks of those that are among them.

    Args:
        files: Paths.
    """
    every = list(files)
    names = {str(file) for file in every}
    return [file for file in every if str(file).removesuffix(ENDING) not in names - {str(file)}]


def digest_of(source: Path, within: Path | None = None) -> bytes:
    """Digest of the names, sizes and ends of the files of a trace or run directory.

    Args:
        source: The file of the trace, or the run directory.
        within: The folder in which it was found; links must not lead out of it.

    Raises:
        InputError: A file is a link out of the folder.
        OSError: A file cannot be read.
    """
    digest = blake2b(digest_size=16)
    folder = source if is_folder(source) else source.parent
    for file in _files_of(source):
        with open_within(within or folder, file) as opened:
            size = os.fstat(opened.fileno()).st_size
            opened.seek(max(0, size - _TAIL))
            digest.update(f"{file.relative_to(folder)}\0{size}\0".encode())
            digest.update(opened.read(_TAIL))
    return digest.digest()


def _files_of(source: Path) -> Iterator[Path]:
    """The files that are read: the trace, or what was recorded in a run directory."""
    if not is_folder(source):
        yield source
        return
    yield source / "run.json"
    yield from sorted(_process_files(source))


def _process_files(run_dir: Path) -> Iterator[Path]:
    """The files in the folders of processes and below; links to folders are not followed."""
    listing = Listing(run_dir.name)
    folders = [e for e in _folders(listing.entries(run_dir)) if e.name.startswith(_OF_PROCESS)]
    while folders:
        entries = listing.entries(Path(folders.pop()))
        folders += _folders(entries)
        yield from (Path(entry) for entry in entries if is_file(Path(entry)))


def _folders(entries: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
