"""Files and run directories at an address, and their local copies."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from stepwhy.base.errors import NotFoundError, NoTracesError
from stepwhy.base.patterns import regex
from stepwhy.read.inputs.private_folder import private_folder
from stepwhy.read.inputs.remote import client as remote
from stepwhy.read.inputs.remote.addresses import is_pattern, shown
from stepwhy.read.inputs.search import usual

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from stepwhy.read.inputs.remote.budget import Budget

    Progress = Callable[[str, int, int], None]

_UNSAFE = regex(r"[^\w.+=-]")
_LONGEST_BYTES = 100  # file systems allow 255; the end of a name is the most specific


class Remote(msgspec.Struct, frozen=True):
    """A file or run directory at an address.

    Args:
        address: Its address; may contain a password, so it is never shown.
        budget: Budget of the command.
        parts: For a run directory, path in it and address of each file; () for a file.
    """

    address: str
    budget: Budget
    parts: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Remote({self.shown!r})"

    @property
    def shown(self) -> str:
        """Its name in results."""
        return shown(self.address).rstrip("/")

    @property
    def name(self) -> str:
        """The last component of its address, as a valid local file name."""
        return local_name(unquote(self.shown.rpartition("/")[2]))

    @property
    def within(self) -> None:
        """None, because the copy is our own file."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a run directory."""
        return bool(self.parts)

    @contextmanager
    def here(self, progress: Progress | None = None) -> Iterator[Path]:
        """Provide a copy that only this user can read, removed afterwards.

        Args:
            progress: See `client.fetch`.

        Raises:
            InputError: If it cannot be copied.
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
    """Files and run directories at an address, which may be a folder or a glob.

    Args:
        address: The address that the user named.
        budget: Budget of the command.

    Raises:
        NotFoundError: If there is nothing.
        NoTracesError: If a folder contains no file that could be a trace.
        UnsupportedFormatError: If the address is of a kind that cannot be read.
        InputError: If the address cannot be reached.
    """
    if not is_pattern(address):
        is_folder = remote.is_folder(address, budget)
        return _search_folder(address, budget) if is_folder else [Remote(address, budget)]
    matches = remote.matching(address, budget)
    if not matches:
        raise NotFoundError(f"nothing matches {shown(address)}", "Check the address")
    return [
        place
        for match, is_folder in matches.items()
        for place in (_search_folder(match, budget) if is_folder else [Remote(match, budget)])
    ]


def _search_folder(address: str, budget: Budget) -> list[Remote]:
    """Run directories in a folder, or its files if there are none."""
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


def local_name(name: str) -> str:
    """A file name without separators, control characters and leading dots, at most 100 bytes."""
    safe = _UNSAFE.sub("_", name).encode("utf-8", "replace")[-_LONGEST_BYTES:]
    return safe.decode("utf-8", "ignore").lstrip(".") or "trace"


def local_paths(paths: Iterable[str]) -> dict[str, str]:
    """A relative path for the copy of each file, below the same folders as the files.

    Args:
        paths: Relative paths with '/' between non-empty parts.

    Returns:
        Local path by path; distinct even on file systems that ignore case.
    """
    chosen: dict[str, str] = {"": ""}
    used: dict[str, int] = {}
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts) + 1):
            # In a bucket, a file may have the name of a folder, so folders end with a slash here.
            whole = "/".join(parts[:end]) + ("/" if end < len(parts) else "")
            if whole not in chosen:
                above = chosen["".join(f"{part}/" for part in parts[: end - 1])]
                chosen[whole] = _unused(above + local_name(parts[end - 1]), used)
                chosen[whole] += "/" if end < len(parts) else ""
    return {path: local for path, local in chosen.items() if local and not local.endswith("/")}


def _unused(path: str, used: dict[str, int]) -> str:
    """An unused path, which is added to the used ones.

    Args:
        path: The preferred path; a number is added if it is used.
        used: Last number of each used path, by case-folded path.
    """
    folder, slash, name = path.rpartition("/")
    key, choice = path.casefold(), path
    while choice.casefold() in used:
        used[key] += 1
        choice = f"{folder}{slash}{used[key]}-{name}"
    used[choice.casefold()] = 1
    return choice
