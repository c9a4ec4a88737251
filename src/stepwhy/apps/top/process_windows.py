"""What a process has logged and traced so far, read from outside to ask for a further window."""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from stepwhy.apps.top.steps import is_amount, members
from stepwhy.base.regular_files import open_regular, read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# A full log has half of this.
_MOST_LOG = 32 << 20
_MOST_WINDOW_FILE = 1 << 16
_MOST_WINDOWS = 16
_LAST_LINES = 200  # that tell how fast the log grows


class Logged(NamedTuple):
    """How long the log of a process is.

    Args:
        lines: Number of its lines.
        per_s: Lines per second, of the last ones.
    """

    lines: int
    per_s: float


class Window(NamedTuple):
    """A traced window: its first and last step, by their lines in the log."""

    first: int
    last: int


def logged(folder: Path) -> Logged:
    """How long the log of a process is.

    Args:
        folder: Its folder.
    """
    numbers = [number for name in _names(folder) if (number := _first_line(name)) is not None]
    full = max(numbers, default=None)
    before = [] if full is None else _lines(folder / f"steps-{full:012d}.jsonl")
    newest = _lines(folder / "steps.jsonl")
    return Logged((full or 0) + len(before) + len(newest), _rate(newest or before))


def windows(folder: Path) -> list[Window]:
    """The traced windows of a process, in order.

    Args:
        folder: Its folder.
    """
    names = sorted(name for name in _names(folder / "windows") if name.isdecimal())
    found = [_window(folder / "windows" / name) for name in names[:_MOST_WINDOWS]]
    return [window for window in found if window is not None]


def _window(folder: Path) -> Window | None:
    with contextlib.suppress(OSError):
        about = members(read_regular(folder / "window.json", _MOST_WINDOW_FILE))
        first, last = about.get("first_step"), about.get("last_step")
        if is_amount(first) and is_amount(last):
            return Window(first, last)
    return None


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _first_line(name: str) -> int | None:
    """The number of the first line of a full log; None for another file."""
    number = name.removeprefix("steps-").removesuffix(".jsonl")
    return int(number) if number.isdecimal() and name == f"steps-{number}.jsonl" else None


def _lines(path: Path) -> list[bytes]:
    """The whole lines of a log; [] without one."""
    try:
        with os.fdopen(open_regular(path), "rb") as log:
            return log.read(_MOST_LOG).split(b"\n")[:-1]
    except OSError:
        return []


def _rate(lines: list[bytes]) -> float:
    """Lines per second; 0 if unknown."""
    last = lines[-_LAST_LINES:]
    ends = [members(line).get("end_ns") for line in (last[:1] + last[-1:])]
    known = [end for end in ends if is_amount(end)]
    if len(last) < 2 or len(known) < 2:
        return 0.0
    elapsed_ns = known[1] - known[0]
    return (len(last) - 1) * 1e9 / elapsed_ns if elapsed_ns > 0 else 0.0
