"""From an address that the user named to the files behind it, and copies of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from stepwhy.errors import NotFoundError, NoTracesError
from stepwhy.inputs.private_folder import private_folder
from stepwhy.inputs.remote import client as remote
from stepwhy.inputs.remote.addresses import is_pattern, shown
from stepwhy.inputs.remote.local_names import local_name, local_paths
from stepwhy.inputs.search import usual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepwhy.inputs.remote.budget import Budget

    Progress = Callable[[str, int, int], None]


class Remote(msgspec.Struct, frozen=True):
    """A file or run directory at an address.

    Args:
        address: Where it is; may hold a password, so it is never shown.
        budget: What the command may still read from addresses.
        parts: Of a run directory, path in it and address of each file; () for a file.
    """

    address: str
    budget: Budget
    parts: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Remote({self.shown!r})"

    @property
    def shown(self) -> str:
        """What to call it in results."""
        return shown(self.address).rstrip("/")

    @property
    def name(self) -> str:
        """The last part of it, as a file may be called here."""
        return local_name(unquote(self.shown.rpartition("/")[2]))

    @property
    def within(self) -> None:
        """No folder: a copy is a file of our own."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a run directory."""
        return bool(self.parts)

    @contextmanager
    def here(self, progress: Progress | None = None) -> Iterator[Path]:
        """A copy that only this user can read, and that is removed afterwards.

        Args:
            progress: As in `remote.fetch`.

        Raises:
            InputError: It cannot be copied.
        """
        with private_folder() as folder:
            copy = folder / self.name
            remote.fetch(self._copies(copy), self.budget, progress)
            yield copy

    def _copies(self, copy: Path) -> list[tuple[str, Path]]:
        """Address and target of each file."""
        if not self.parts:
            return [(self.address, copy)]
        paths = local_paths(path for path, _ in self.parts)
        return [(address, copy / paths[path]) for path, address in self.parts]


def places_at(address: str, budget: Budget) -> list[Remote]:
    """Files and run directories at an address, which may be that of a folder, or a glob.

    Args:
        address: What the user named.
        budget: What the command may still read from addresses.

    Raises:
        NotFoundError: There is nothing.
        NoTracesError: A folder holds no file that could be a trace.
        UnsupportedFormatError: An address of a kind that cannot be read.
        InputError: An address that cannot be asked.
    """
    if not is_pattern(address):
        is_folder = remote.is_folder(address, budget)
        return _in_remote_folder(address, budget) if is_folder else [Remote(address, budget)]
    matches = remote.matching(address, budget)
    if not matches:
        raise NotFoundError(f"nothing matches {shown(address)}", "Check the address")
    return [
        place
        for match, is_folder in matches.items()
        for place in (_in_remote_folder(match, budget) if is_folder else [Remote(match, budget)])
    ]


def _in_remote_folder(address: str, budget: Budget) -> list[Remote]:
    """Its run directories, or its files."""
    files = remote.files_below(address, budget)
    if not files:
        raise NoTracesError(f"{shown(address)} is an empty folder", "Give a trace file")
    if "run.json" in files or "process.json" in files:
        return [Remote(address, budget, tuple(files.items()))]
    if runs := _runs_in(address, budget, files):
        return runs
    return [Remote(files[path], budget) for path in usual(files)]


def _runs_in(address: str, budget: Budget, files: dict[str, str]) -> list[Remote]:
    """The run directories in a folder."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for path, file in files.items():
        run, slash, inside = path.partition("/")
        if slash:
            parts.setdefault(run, []).append((inside, file))
    folder = address.partition("?")[0].rstrip("/")
    return [
        Remote(f"{folder}/{run}/", budget, tuple(found))
        for run, found in parts.items()
        if f"{run}/run.json" in files
    ]


__all__ = ["Remote", "places_at"]
