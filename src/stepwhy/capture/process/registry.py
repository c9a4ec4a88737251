"""The file in which the processes of a run sign in, and leave word of how they ended.

Each line is one append, so that lines of several processes never mix::

    4711                                                   a Python process of the run has started
    {"pid":4711,"exception":"ValueError"}                  it ended by this exception
    {"pid":4711,"optimizer_steps":1}                       what it had seen, where that is no log
    {"pid":4711,"stopped":"the run directory could ...","steps":412}   why its log ends early

It is written where nothing else can be: on a full disk, what fits into its first block still does.
The launcher reads it when the command has ended, and removes it.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

ATTACHED_FILE = "attached"
# Words of so many processes are read; a pool may start thousands.
_MOST_BYTES = 1 << 20
_LONGEST_NAME = 100

_WORDS = {
    "exception": str,
    "stopped": str,
    "steps": int,
    "optimizer_steps": int,
    "calls": int,
    "marked_steps": int,
}

_counts: dict[str, Callable[[], int]] = {}


def sign_in(run_dir: str) -> None:
    """Leave this process's id.

    Args:
        run_dir: The run directory.

    Raises:
        OSError: The file is gone, or cannot be written.
    """
    _append(run_dir, f"{os.getpid()}\n")


def leave_word(run_dir: str, **about: str | int) -> None:
    """Leave something about this process; never raises.

    Args:
        run_dir: The run directory.
        about: What the line says beside the process's id.
    """
    import json  # not at the start of every process

    try:
        _append(run_dir, json.dumps({"pid": os.getpid(), **about}, separators=(",", ":")) + "\n")
    except OSError:
        return


def _append(run_dir: str, line: str) -> None:
    # A pipe that somebody put in its place must not stop the job, nor a link lead elsewhere.
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(f"{run_dir}/{ATTACHED_FILE}", flags)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def count(name: str, seen: Callable[[], int]) -> None:
    """Have the process say at its end how much of something it has seen.

    Args:
        name: 'optimizer_steps', 'calls' or 'marked_steps'.
        seen: How many.
    """
    _counts[name] = seen


def sign_out(run_dir: str) -> None:
    """Leave word of how this process ends, if there is anything to say; never raises.

    Only the type of an exception is kept: its message may hold anything.

    Args:
        run_dir: The run directory.
    """
    try:
        about = _seen()
    except Exception:
        return
    if about:
        leave_word(run_dir, **about)


def _seen() -> dict[str, str | int]:
    """What there is to say at the end of this process."""
    about: dict[str, str | int] = {name: seen() for name, seen in _counts.items()}
    # Set by the interpreter when it prints the exception that ends the program.
    ended_by = getattr(sys, "last_type", None)
    if isinstance(ended_by, type):
        about["exception"] = _name(ended_by)
    return {name: value for name, value in about.items() if value}


def _name(kind: type) -> str:
    """The name of an exception, as a traceback shows it."""
    name = kind.__qualname__
    if kind.__module__ not in {"builtins", "__main__"}:
        name = f"{kind.__module__}.{name}"
    return name[:_LONGEST_NAME]


def words(run_dir: Path) -> dict[str, dict[str, Any]]:
    """What the processes of a run left, by their ids, in the order of their first word.

    Args:
        run_dir: The run directory.
    """
    import json

    found: dict[str, dict[str, Any]] = {}
    for line in _lines(run_dir):
        try:
            about = json.loads(line)
            said = {k: v for k, v in about.items() if k in _WORDS and isinstance(v, _WORDS[k])}
            found.setdefault(str(about["pid"]), {}).update(said)
        except (ValueError, KeyError, AttributeError):
            continue  # an id alone, or a torn line
    return found


def _lines(run_dir: Path) -> Iterator[bytes]:
    from stepwhy.regular_files import read_regular  # the launcher alone reads

    try:
        yield from read_regular(run_dir / ATTACHED_FILE, _MOST_BYTES).splitlines()
    except OSError:
        return
