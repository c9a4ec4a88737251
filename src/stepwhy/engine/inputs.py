"""From what the user named to the files behind it, here or at an address."""

from __future__ import annotations

import glob
import re
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

import msgspec

from stepwhy.engine import remote
from stepwhy.errors import NotFoundError, NoTracesError
from stepwhy.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Progress = Callable[[str, int, int], None]

# What a run directory's windows and framework profilers write; other files in a folder are only
# tried when none of these is there.
_USUAL_ENDING = regex(r"\.(json|pb|stepwhy|sqlite|db|sql|nvvp)(\.(gz|zst|xz|bz2|zip))?$")
_FILE = "file://"
_LONGEST_NAME = 100


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


class Remote(msgspec.Struct, frozen=True):
    """A file or run directory at an address.

    Args:
        address: Where it is; may hold a password, so it is never shown.
        parts: Of a run directory, path in it and address of each file; () for a file.
    """

    address: str
    parts: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Remote({self.shown!r})"

    @property
    def shown(self) -> str:
        """What to call it in results."""
        return remote.shown(self.address).rstrip("/")

    @property
    def name(self) -> str:
        """The last part of it, as a file may be called here."""
        last = unquote(self.shown.rpartition("/")[2])
        return re.sub(r"[^\w.+=-]", "_", last)[-_LONGEST_NAME:].lstrip(".") or "trace"

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
        with _cleared_up_when_ended(), tempfile.TemporaryDirectory(prefix="stepwhy-") as folder:
            copy = Path(folder) / self.name
            if not self.parts:
                remote.fetch(self.address, copy, progress)
            for path, address in self.parts:
                part = copy / path
                part.parent.mkdir(parents=True, exist_ok=True)
                remote.fetch(address, part, progress)
            yield copy


@contextmanager
def _cleared_up_when_ended() -> Iterator[None]:
    """Have SIGTERM, with which batch systems end a program, leave through what clears up."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


Place: TypeAlias = Local | Remote


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


def _behind(name: str) -> list[Place]:
    if name.lower().startswith(_FILE):
        name = unquote(name[len(_FILE) :].removeprefix("localhost"))
    if "://" in name:
        return _at(name)
    return [Local(path) for path in _on_this_machine(name)]


# --- On this machine ---


def _on_this_machine(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return [path] if _is_run_directory(path) else _in_folder(path)
    if path.exists():
        return [path]
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
    return [p for p in files if _USUAL_ENDING.search(p.name)] or files


# --- At an address ---


def _at(address: str) -> list[Place]:
    if not remote.is_pattern(address):
        return _in_remote_folder(address) if remote.is_folder(address) else [Remote(address)]
    matches = remote.matching(address)
    if not matches:
        raise NotFoundError(f"nothing matches {remote.shown(address)}", "Check the address")
    return [
        place
        for match, is_folder in matches.items()
        for place in (_in_remote_folder(match) if is_folder else [Remote(match)])
    ]


def _in_remote_folder(address: str) -> list[Place]:
    """As `_on_this_machine` for a folder."""
    files = remote.files_below(address)
    if not files:
        raise NoTracesError(f"{remote.shown(address)} is an empty folder", "Give a trace file")
    if "run.json" in files or "process.json" in files:
        return [Remote(address, tuple(files.items()))]
    runs = [path.removesuffix("run.json") for path in files if re.fullmatch("[^/]+/run.json", path)]
    if runs:
        return [_run_in(address, run, files) for run in runs]
    usual = [a for path, a in files.items() if _USUAL_ENDING.search(path)]
    return [Remote(a) for a in usual or files.values()]


def _run_in(address: str, run: str, files: dict[str, str]) -> Remote:
    """A run directory in a folder; `run` ends with a slash."""
    parts = [(path.removeprefix(run), a) for path, a in files.items() if path.startswith(run)]
    return Remote(f"{address.partition('?')[0].rstrip('/')}/{run}", tuple(parts))


__all__ = ["Local", "Place", "Remote", "resolve"]
