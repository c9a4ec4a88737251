"""Find files in folders and by globs.

Links to folders are never followed, because they may form cycles. The number of entries is limited,
see `folders.Listing`.
"""

from __future__ import annotations

import glob
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from stepwhy.base.patterns import regex
from stepwhy.base.text import natural_key
from stepwhy.read.inputs.folders import Listing
from stepwhy.read.inputs.kinds import is_folder, is_there
from stepwhy.read.inputs.reduced import is_reduced, without_reduced

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

_ANY_DEPTH = "**"
# File name extensions of run directories and profilers.
_USUAL_ENDING = regex(r"\.(json|pb|stepwhy|sqlite|db|sql|nvvp|parquet)(\.(gz|zst|xz|bz2|zip))?$")

P = TypeVar("P", str, Path)


def runs_and_files_below(
    folder: Path, is_run: Callable[[Path], bool]
) -> tuple[list[Path], list[Path]]:
    """Run directories in a folder and below it, and the files outside of these, in natural order.

    Hidden files and folders, such as `.git` and `.venv`, and broken links are left out.

    Args:
        folder: The folder.
        is_run: Whether a folder is a run directory, which is not looked into.

    Raises:
        TooLargeError: If there are too many.
    """
    runs: list[Path] = []

    def is_searched(entry: os.DirEntry[str]) -> bool:
        if not is_run(Path(entry)):
            return True
        runs.append(Path(entry))
        return False

    entries = _walk(folder, Listing(folder.name or str(folder)), is_searched)
    files = [Path(entry) for entry in entries if _is_file(entry)]
    return _sort(runs), _sort(files)


def has_usual_ending(name: str) -> bool:
    """Whether a file name ends as those of run directories and profilers do."""
    return _USUAL_ENDING.search(name) is not None


def usual(files: Iterable[P]) -> list[P]:
    """Files with a usual extension of profilers; all files if there are none."""
    every = without_reduced(files)
    names = ((file, str(file)) for file in every)
    return [file for file, name in names if has_usual_ending(name) or is_reduced(name)] or every


def matching(pattern: str) -> list[Path]:
    """Files and folders that match a glob, in natural order.

    As in a shell, names that start with a dot only match patterns that do so, too.

    Args:
        pattern: Glob with `*`, `?`, `[]`, and `**` for any number of folders.

    Raises:
        TooLargeError: If too many entries would have to be listed.
    """
    parts = Path(pattern).parts
    return _sort(set(_matching(Path(), parts, Listing(pattern))))


def _sort(paths: Iterable[Path]) -> list[Path]:
    """Paths sorted by their parts, numbers in them by value: 'rank2' before 'rank10'."""
    return sorted(paths, key=lambda path: ([natural_key(part) for part in path.parts], path))


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
        for entry in _walk(folder, listing):
            if not rest or entry.is_dir(follow_symlinks=False):
                yield from _matching(Path(entry), rest, listing)


def _visible(folder: Path, pattern: str, listing: Listing) -> Iterator[os.DirEntry[str]]:
    for entry in listing.entries(folder):
        is_hidden = entry.name.startswith(".") and not pattern.startswith(".")
        if fnmatchcase(entry.name, pattern) and not is_hidden:
            yield entry


def _walk(
    folder: Path, listing: Listing, is_searched: Callable[[os.DirEntry[str]], bool] = lambda _: True
) -> Iterator[os.DirEntry[str]]:
    """The entries of a folder and of the folders in it that are searched, without hidden ones."""
    folders = [folder]
    while folders:
        for entry in listing.entries(folders.pop()):
            if not entry.name.startswith("."):
                yield entry
                if entry.is_dir(follow_symlinks=False) and is_searched(entry):
                    folders.append(Path(entry))


def _is_file(entry: os.DirEntry[str]) -> bool:
    path = Path(entry)
    return is_there(path) and not is_folder(path)
