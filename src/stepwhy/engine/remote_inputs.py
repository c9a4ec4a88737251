"""From an address that the user named to the files behind it, and copies of them."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from stepwhy.engine import remote
from stepwhy.engine.addresses import is_pattern, shown
from stepwhy.engine.inputs import USUAL_ENDING
from stepwhy.errors import NotFoundError, NoTracesError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress = Callable[[str, int, int], None]

_LONGEST_NAME = 100


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
        return shown(self.address).rstrip("/")

    @property
    def name(self) -> str:
        """The last part of it, as a file may be called here."""
        last = unquote(self.shown.rpartition("/")[2])
        return re.sub(r"[^\w.+=-]", "_", last)[-_LONGEST_NAME:].lstrip(".") or "trace"

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


def places_at(address: str) -> list[Remote]:
    """Files and run directories at an address, which may be that of a folder, or a glob.

    Raises:
        NotFoundError: There is nothing.
        NoTracesError: A folder holds no file that could be a trace.
        UnsupportedFormatError: An address of a kind that cannot be read.
        InputError: An address that cannot be asked.
    """
    if not is_pattern(address):
        return _in_remote_folder(address) if remote.is_folder(address) else [Remote(address)]
    matches = remote.matching(address)
    if not matches:
        raise NotFoundError(f"nothing matches {shown(address)}", "Check the address")
    return [
        place
        for match, is_folder in matches.items()
        for place in (_in_remote_folder(match) if is_folder else [Remote(match)])
    ]


def _in_remote_folder(address: str) -> list[Remote]:
    """Its run directories, or its files."""
    files = remote.files_below(address)
    if not files:
        raise NoTracesError(f"{shown(address)} is an empty folder", "Give a trace file")
    if "run.json" in files or "process.json" in files:
        return [Remote(address, tuple(files.items()))]
    runs = [path.removesuffix("run.json") for path in files if re.fullmatch("[^/]+/run.json", path)]
    if runs:
        return [_run_in(address, run, files) for run in runs]
    usual = [a for path, a in files.items() if USUAL_ENDING.search(path)]
    return [Remote(a) for a in usual or files.values()]


def _run_in(address: str, run: str, files: dict[str, str]) -> Remote:
    """A run directory in a folder; `run` ends with a slash."""
    parts = [(path.removeprefix(run), a) for path, a in files.items() if path.startswith(run)]
    return Remote(f"{address.partition('?')[0].rstrip('/')}/{run}", tuple(parts))


__all__ = ["Remote", "places_at"]
