"""List folders whose content is not trusted: limit their entries, and follow no links out."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Self

from stepwhy.base.errors import InputError, TooLargeError
from stepwhy.read.inputs.kinds import is_folder
from stepwhy.read.inputs.memory import ANY_SIZE
from stepwhy.read.inputs.side_files import MOST_BYTES, read_side_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_ENTRIES = 100_000
"""Maximum number of listed files and folders; thousands of ranks write tens of thousands."""

MOST_TRACES = 10_000
"""Maximum number of traces that are explained together, and of similar folders in a run."""


class Listing:
    """Lists folders, with at most `MOST_ENTRIES` entries in all unless `STEPWHY_ANY_SIZE=1` is set.

    Args:
        name: Name for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._listed = 0

    def entries(self, folder: Path) -> list[os.DirEntry[str]]:
        """Entries of a folder, sorted by name; none if it cannot be listed.

        Raises:
            TooLargeError: If there are too many.
        """
        try:
            with os.scandir(folder) as entries:
                return sorted(self._counted(entries), key=lambda entry: entry.name)
        except OSError:
            return []

    def _counted(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in entries:
            self._listed += 1
            if self._listed > MOST_ENTRIES and os.environ.get(ANY_SIZE) != "1":
                raise TooLargeError(
                    f"{self._name} holds more than {MOST_ENTRIES:,} files",
                    f"Give the traces themselves, or set {ANY_SIZE}=1 to look at all",
                )
            yield entry


class RunFolder:
    """A run directory, or a folder in it.

    Args:
        path: Its path.
        root: The run directory; links must not lead out of it.
        refused: Receives a sentence about each file that was not read, in this folder or below.
    """

    def __init__(
        self, path: Path, root: Path | None = None, refused: list[str] | None = None
    ) -> None:
        self.path = path
        self.root = path if root is None else root
        self.refused: list[str] = [] if refused is None else refused

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Content of a file; empty if there is none or it was refused.

        Args:
            name: Its name.
            most: Maximum size of the file, bytes.
        """
        try:
            return read_side_file(self.root, self.path / name, most) or b""
        except InputError as error:
            self.refuse(name, error)
            return b""

    def refuse(self, name: str, error: InputError) -> None:
        """Note that a file or folder was not read.

        Args:
            name: Its name in this folder.
            error: The reason.
        """
        place = (self.path / name).relative_to(self.root).parent.as_posix()
        where = "" if place == "." else f"In {place}, "
        self.refused.append(f"{where}{error.what}. It was left out.")

    def names(self, pattern: str) -> list[str]:
        """Sorted names of the entries that match a pattern; none if there are too many.

        Args:
            pattern: Pattern as in `fnmatch`.
        """
        try:
            entries = Listing(self.path.name).entries(self.path)
        except TooLargeError as error:
            self.refuse("", error)
            return []
        return [entry.name for entry in entries if fnmatchcase(entry.name, pattern)]

    def inside(self, name: str) -> Self:
        """A folder in it, which need not exist."""
        return type(self)(self.path / name, self.root, self.refused)

    def folders(self, pattern: str) -> list[Self]:
        """Folders in it that match a pattern, sorted; links to folders are left out.

        Args:
            pattern: Pattern as in `fnmatch`.
        """
        paths = [self.path / name for name in self.names(pattern)]
        found = [p for p in paths if is_folder(p)]
        if len(found) > MOST_TRACES and os.environ.get(ANY_SIZE) != "1":
            self.refuse("", too_many(self.path.name, len(found)))
            del found[MOST_TRACES:]
        return [self.inside(p.name) for p in found if not self._is_link(p)]

    def _is_link(self, path: Path) -> bool:
        if not path.is_symlink():
            return False
        what = f"{path.name} is a link to another folder"
        self.refuse(path.name, InputError(what, "Give that folder itself"))
        return True


def too_many(name: str, count: int) -> TooLargeError:
    """The error for more traces than are explained together.

    Args:
        name: Name of the folder or pattern.
        count: Number of traces.
    """
    return TooLargeError(
        f"{name} holds {count:,} traces; up to {MOST_TRACES:,} are explained together",
        f"Give some of them, or set {ANY_SIZE}=1 to try",
    )
