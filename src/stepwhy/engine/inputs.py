"""From what the user named to the files behind it, here or at an address."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from stepwhy.errors import NotFoundError, NoTracesError
from stepwhy.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from stepwhy.engine.remote_inputs import Remote

    Place: TypeAlias = "Local | Remote"
    Progress = Callable[[str, int, int], None]

USUAL_ENDING = regex(r"\.(json|pb|stepwhy|sqlite|db|sql|nvvp)(\.(gz|zst|xz|bz2|zip))?$")
"""How names of files end that run directories and profilers write; other files in a folder are only
tried when none of these is there."""
_FILE = "file://"


class Local(msgspec.Struct, frozen=True):
    """A file or run directory on this machine."""

    path: Path

    @property
    def shown(self) -> str:
        """What to call it in results."""
        return str(self.path)

    @property
    def name(self) -> str:
        """The last part of it."""
        return self.path.name

    @property
    def is_folder(self) -> bool:
        """Whether it is a run directory."""
        return self.path.is_dir()

    @contextmanager
    def here(self, _progress: Progress | None = None) -> Iterator[Path]:
        """Its path."""
        yield self.path


def resolve(names: Sequence[str]) -> list[Place]:
    """Files and run directories behind paths, folders, globs and addresses, in order, each once.

    What a link leads to is the same file: some tools keep a link to the newest trace beside it.

    Raises:
        NotFoundError: A name leads nowhere.
        NoTracesError: A folder holds no file that could be a trace.
        UnsupportedFormatError: An address of a kind that cannot be read.
        InputError: An address that cannot be asked.
    """
    found: dict[Place | Path, Place] = {}
    for place in (place for name in names for place in _behind(name)):
        found.setdefault(place.path.resolve() if isinstance(place, Local) else place, place)
    return list(found.values())


def _behind(name: str) -> Sequence[Place]:
    if name.lower().startswith(_FILE):
        name = unquote(name[len(_FILE) :].removeprefix("localhost"))
    if "://" in name:
        from stepwhy.engine.remote_inputs import places_at  # noqa: PLC0415 - few names are addresses

        return places_at(name)
    return [Local(path) for path in _on_this_machine(name)]


# --- On this machine ---


def _on_this_machine(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return [path] if _is_run_directory(path) else _in_folder(path)
    if path.exists():
        return [path]
    import glob  # noqa: PLC0415 - few names are patterns

    # What is no pattern matches itself, even if it is a link that leads nowhere.
    matches = [Path(m) for m in sorted(glob.glob(name, recursive=True)) if Path(m).exists()]  # noqa: PTH207 - the user's own glob
    if not matches:
        raise NotFoundError(f"{name} does not exist", "Check the path")
    return [p for m in matches for p in ([m] if m.is_file() else _on_this_machine(str(m)))]


def _is_run_directory(path: Path) -> bool:
    """Whether a folder is a run directory, or that of one process in it."""
    return (path / "run.json").is_file() or (path / "process.json").is_file()


def _in_folder(folder: Path) -> list[Path]:
    nested = [p.parent for p in sorted(folder.glob("*/run.json"))]
    if nested:
        return nested
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and not p.name.startswith(".")]
    if not files:
        raise NoTracesError(f"{folder.name or folder} is an empty folder", "Give a trace file")
    return [p for p in files if USUAL_ENDING.search(p.name)] or files


__all__ = ["USUAL_ENDING", "Local", "resolve"]
