r"""Inputs of several files as they are on disk, with links, pipes and folders among them.

A name may hold folders. What is not a plain file has a mark behind a null character, which no path
can hold: `trace.json\0link` is a symbolic link, and its content is where that leads.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuzz.formats import Files

LINK, PIPE, FOLDER, HUGE = "\0link", "\0pipe", "\0folder", "\0huge"
# Sparse: what is read of it before it is refused shows in time and memory.
_HUGE_BYTES = 1 << 40


def write_tree(files: Files, folder: Path) -> None:
    """Write an input; entries that exclude each other, or that the system refuses, are left out.

    Nothing is written through the links of an input, nor over what is there.

    Args:
        files: The input.
        folder: An empty folder.
    """
    root = folder.resolve()
    for name, data in files.items():
        path, mark, kind = name.partition("\0")
        if ".." in PurePosixPath(path).parts or path.startswith("/"):
            continue
        with suppress(OSError, ValueError):
            target = root / path
            if _is_inside(target.parent, root):
                target.parent.mkdir(parents=True, exist_ok=True)
                _MAKERS[mark + kind](target, data)


def _is_inside(folder: Path, root: Path) -> bool:
    """Whether a folder, which need not be there, is below another one without links on the way."""
    way = [folder, *folder.parents]
    return not any(part.is_symlink() for part in way[: way.index(root)])


def remove_tree(folder: Path) -> None:
    """Empty a folder, and keep it."""
    for entry in folder.iterdir():
        if not entry.is_symlink() and entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _file(path: Path, data: bytes) -> None:
    with path.open("xb") as file:  # never through a link or into a pipe that is there already
        file.write(data)


def _link(path: Path, data: bytes) -> None:
    os.symlink(data, os.fsencode(path))  # noqa: PTH211 - its content need not be text


def _huge(path: Path, data: bytes) -> None:
    _file(path, data)
    os.truncate(path, _HUGE_BYTES)


_MAKERS: dict[str, Callable[[Path, bytes], object]] = {
    "": _file,
    LINK: _link,
    PIPE: lambda path, _: os.mkfifo(path),
    FOLDER: lambda path, _: path.mkdir(),
    HUGE: _huge,
}
