"""Finding files in folders and by globs.

A search never follows a link to a folder, as links may lead in circles: two of them in one folder
make a tree without end. It counts what it looks at, see `folders.Listing`.
"""

from __future__ import annotations

import glob
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stepwhy.inputs.folders import Listing
from stepwhy.inputs.kinds import is_folder, is_there
from stepwhy.patterns import regex

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

_ANY_DEPTH = "**"
# Endings of the files that run directories and profilers write.
_USUAL_ENDING = regex(r"\.(json|pb|stepwhy|sqlite|db|sql|nvvp|parquet)(\.(gz|zst|xz|bz2|zip))?$")

P = TypeVar("P", str, Path)


def files_below(folder: Path) -> list[Path]:
    """Whatever is no folder in a folder or below it, in order; no hidden ones, nor broken links.

    Raises:
        TooLargeError: There are too many.
    """
    entries = _below(folder, Listing(folder.name or str(folder)))
    return sorted(
        Path(entry) for entry in entries if not entry.name.startswith(".") and _is_no_folder(entry)
    )


def usual(files: Iterable[P]) -> list[P]:
    """The files that are named as profilers name them; all files when there is none of these."""
    every = list(files)
    return [file for file in every if _USUAL_ENDING.search(str(file))] or every


def matching(pattern: str) -> list[Path]:
    """The files and folders that match a glob, in order.

    As in a shell, names that begin with a dot match only what begins with one.

    Args:
        pattern: With `*`, `?`, `[]`, and `**` for any number of folders.

    Raises:
        TooLargeError: Too many would have to be looked at.
    """
    parts = Path(pattern).parts
    return sorted(set(_matching(Path(), parts, Listing(pattern))))


def _matching(folder: Path, parts: Sequence[str], listing: Listing) -> Iterator[Path]:
    if not parts:
        if is_there(folder):
            yield folder
        return
    first, rest = parts[0], parts[1:]
    if not glob.has_magic(first):
        yield from _matching(folder / first, rest, listing)
    elif first != _ANY_DEPTH:
        for entry in _visible(folder, first, listing):
            yield from _matching(Path(entry), rest, listing)
    elif rest[:1] == (_ANY_DEPTH,):
        yield from _matching(folder, rest, listing)
    elif is_folder(folder):
        yield from _matching(folder, rest, listing)
        for entry in _below(folder, listing, hidden=False):
            if not rest or entry.is_dir(follow_symlinks=False):
                yield from _matching(Path(entry), rest, listing)


def _visible(folder: Path, pattern: str, listing: Listing) -> Iterator[os.DirEntry[str]]:
    for entry in listing.entries(folder):
        is_hidden = entry.name.startswith(".") and not pattern.startswith(".")
        if fnmatchcase(entry.name, pattern) and not is_hidden:
            yield entry


def _below(folder: Path, listing: Listing, *, hidden: bool = True) -> Iterator[os.DirEntry[str]]:
    """All entries of a folder and of those below it."""
    folders = [folder]
    while folders:
        for entry in listing.entries(folders.pop()):
            if hidden or not entry.name.startswith("."):
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry))


def _is_no_folder(entry: os.DirEntry[str]) -> bool:
    path = Path(entry)
    return is_there(path) and not is_folder(path)


__all__ = ["files_below", "matching"]
