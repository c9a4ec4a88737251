"""The folders that a server may read, and the names of files in them.

A name is relative to a served folder, or absolute. It may also be one that an answer showed, in
which private names are redacted. Names come from a language model, which may have read what a
stranger wrote, so they never lead out of the folders, neither by `..` nor through a link.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwhy.apps.agents.listing import runs_below
from stepwhy.base.errors import NotAFileError, NotFoundError, NotServedError, SeveralRunsError
from stepwhy.base.redaction import Redactor
from stepwhy.read.inputs.kinds import is_folder
from stepwhy.read.inputs.remote.addresses import MAGIC, shown
from stepwhy.read.inputs.search import matching
from stepwhy.read.inputs.within import check_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Folders(msgspec.Struct, frozen=True):
    """The folders that a server may read.

    Args:
        roots: Their absolute paths, without links.
        allow_remote: Whether addresses may be read, too.
    """

    roots: tuple[str, ...]
    allow_remote: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of the folders."""
        return tuple(map(Path, self.roots))

    def one(self, name: str) -> str:
        """The only path or address that a name stands for.

        Raises:
            SeveralRunsError: It is a pattern that several match.
            InputError: As for `all_of`.
        """
        found = self.all_of(name)
        if len(found) > 1:
            raise SeveralRunsError(
                f"{shown(name)} matches {len(found)} files or folders", "Name one of them"
            )
        return found[0]

    def all_of(self, name: str) -> list[str]:
        """The paths that a name or pattern stands for, without links; an address as it is.

        Raises:
            NotServedError: It is outside of the folders, or an address that may not be read.
            NotFoundError: There is nothing of that name.
        """
        if "://" in name:
            return [self._address(name)]
        found = list(dict.fromkeys(str(path) for path in self._found(name)))
        if not found:
            raise NotFoundError(
                f"{shown(name)} does not exist in the served folders",
                "Use a name that the tool 'runs' lists",
            )
        return found

    def name_of(self, path: Path, redactor: Redactor) -> str:
        """Name of a path below a folder, for answers.

        Args:
            path: The path, without links.
            redactor: What replaces private names.
        """
        root = next(root for root in self.paths if path.is_relative_to(root))
        relative = path.relative_to(root).as_posix()
        return redactor.text(relative if len(self.roots) == 1 else f"{root.name}/{relative}")

    def _address(self, name: str) -> str:
        if self.allow_remote and not name.lower().startswith("file:"):
            return name
        raise NotServedError(
            f"{shown(name)} is an address, which this server may not read",
            "Use a name that the tool 'runs' lists, or ask the user for --allow-remote",
        )

    def _found(self, name: str) -> list[Path]:
        """What there is under a name: as it is, as an answer showed it, or as a pattern."""
        try:
            candidates = list(self._candidates(name))
        except NotServedError:
            found = self._shown_as(name)
            if not found:
                raise
            return found
        inside = [path for path in map(self._resolve, candidates) if path is not None]
        return inside[:1] or self._shown_as(name) or list(self._matching(name, candidates))

    def _candidates(self, name: str) -> Iterator[Path]:
        """Where a name may lead, judged by its text.

        Raises:
            NotServedError: It leads out of all folders.
        """
        path = Path(name)
        if "\0" in name or ".." in path.parts or (path.is_absolute() and not self._is_below(path)):
            raise _refusal(name)
        if path.is_absolute():
            yield path
            return
        yield from (root / path for root in self.paths)
        yield from (r.parent / path for r in self.paths if path.parts[:1] == (r.name,))

    def _is_below(self, path: Path) -> bool:
        """Whether an absolute path leads into a folder, maybe through a link above it."""
        return any(_is_same(p, root) for p in (path, *path.parents) for root in self.paths)

    def _resolve(self, path: Path) -> Path | None:
        """The path without links; None if there is nothing.

        Raises:
            NotServedError: A link leads out of the folders.
        """
        for root in self.paths:
            try:
                return root.joinpath(*check_within(root, path))
            except NotAFileError:
                continue
            except OSError:
                return None
        raise _refusal(path.name)

    def _shown_as(self, name: str) -> list[Path]:
        """The run that an answer showed by this name, because a part of it is private."""
        redactor = Redactor.of_process()
        found = (
            one.path
            for one in runs_below(self.paths)
            if name in (self.name_of(one.path, redactor), redactor.text(str(one.path)))
        )
        return [path for path in (next(found, None),) if path is not None]

    def _matching(self, name: str, patterns: Sequence[Path]) -> Iterator[Path]:
        """What a pattern matches; links out of the folders match nothing."""
        for path in (p for one in patterns if MAGIC.search(name) for p in matching(str(one))):
            with suppress(NotServedError):
                inside = self._resolve(path)
                if inside is not None:
                    yield inside


def folders_of(names: Sequence[str], *, allow_remote: bool = False) -> Folders:
    """The folders with these names.

    Args:
        names: As on a command line; none for the current folder.
        allow_remote: See `Folders`.

    Raises:
        NotFoundError: One does not exist.
        NotAFileError: One is no folder.
    """
    roots = tuple(dict.fromkeys(str(_folder(name)) for name in names or (".",)))
    return Folders(roots, allow_remote)


def _folder(name: str) -> Path:
    try:
        path = Path(name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        raise NotFoundError(f"{shown(name)} does not exist", "Check the path") from None
    if not is_folder(path):
        raise NotAFileError(f"{shown(name)} is not a folder", "Name the folder that holds the runs")
    return path


def _refusal(name: str) -> NotServedError:
    return NotServedError(
        f"{shown(name)} is outside of the folders that this server may read",
        "Use a name that the tool 'runs' lists, or ask the user to serve that folder, too",
    )


def _is_same(path: Path, root: Path) -> bool:
    try:
        return path.samefile(root)
    except OSError:
        return False
