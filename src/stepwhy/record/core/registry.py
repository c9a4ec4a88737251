"""The file in which the processes of a run register, and report how they ended.

Each line is one append, so that lines of different processes never mix::

    4711                                                   a Python process of the run has started
    {"pid":4711,"exception":"ValueError"}                  it ended by this exception
    {"pid":4711,"optimizer_steps":1}                       what it saw, if nothing was logged
    {"pid":4711,"stopped":"the run directory could ...","steps":412}   why its log ends early
    {"pid":4711,"failed":"ImportError: ..."}               why it is not observed
    {"pid":4711,"lost":"calls of ... cannot be ..."}       what of it is not observed

Reports can be written even when the disk is full, because the first block of the file still has
space. The launcher reads the file when the command has ended, and deletes it.
"""

from __future__ import annotations

import os
import sys

from stepwhy.record import RUN_DIR_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any

ATTACHED_FILE = "attached"
# Limit of what is read; a pool may start thousands of processes.
_MOST_BYTES = 1 << 20
_LONGEST_NAME = 100

_REPORTED = {
    "exception": str,
    "stopped": str,
    "failed": str,
    "lost": str,
    "steps": int,
    "optimizer_steps": int,
    "calls": int,
    "marked_steps": int,
}

_counts: dict[str, Callable[[], int]] = {}


def register(run_dir: str) -> None:
    """Append the id of this process.

    Args:
        run_dir: The run directory.

    Raises:
        OSError: The file is gone, or cannot be written.
    """
    _append(run_dir, f"{os.getpid()}\n")


def report(run_dir: str, **about: str | int) -> None:
    """Append a report about this process; never raises.

    Args:
        run_dir: The run directory.
        about: Members of the line beside the process id.
    """
    members = (f'"{name}":{_json(value)}' for name, value in about.items())
    try:
        _append(run_dir, "{" + ",".join((f'"pid":{os.getpid()}', *members)) + "}\n")
    except OSError:
        return


def _json(value: str | int) -> str:
    """A value as `json.dumps` writes it, without `json`, which the program may have replaced."""
    if isinstance(value, int):
        return str(int(value))
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(letter: str) -> str:
    """A character inside a string of JSON."""
    if " " <= letter <= "~" and letter not in '"\\':
        return letter
    code = ord(letter)
    if code < 0x1_0000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x1_0000, 0x400)  # a surrogate pair
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def _append(run_dir: str, line: str) -> None:
    # A pipe planted in its place must not block the job, nor a link redirect the write.
    flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(f"{run_dir}/{ATTACHED_FILE}", flags)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def count(name: str, seen: Callable[[], int]) -> None:
    """Register a count that the process reports when it ends.

    Args:
        name: 'optimizer_steps', 'calls' or 'marked_steps'.
        seen: Returns the count.
    """
    _counts[name] = seen


def began(name: str) -> None:
    """Report that the first was counted, since a process that is killed reports nothing at its end.

    Args:
        name: As for `count`.
    """
    run_dir = os.environ.get(RUN_DIR_VARIABLE)
    if run_dir:
        report(run_dir, **{name: 1})


def report_exit(run_dir: str) -> None:
    """Report how this process ends, if there is anything to report; never raises.

    Only the type of an exception is kept, since its message may contain anything.

    Args:
        run_dir: The run directory.
    """
    try:
        about = _exit_report()
    except Exception:
        return
    if about:
        report(run_dir, **about)


def _exit_report() -> dict[str, str | int]:
    """Counts and the exception of this process, without empty ones."""
    about: dict[str, str | int] = {name: seen() for name, seen in _counts.items()}
    # The interpreter sets this when it prints the exception that ends the program.
    ended_by = getattr(sys, "last_type", None)
    if isinstance(ended_by, type):
        about["exception"] = _name(ended_by)
    return {name: value for name, value in about.items() if value}


def _name(kind: type) -> str:
    """The name of an exception as a traceback shows it."""
    name = kind.__qualname__
    if kind.__module__ not in {"builtins", "__main__"}:
        name = f"{kind.__module__}.{name}"
    return name[:_LONGEST_NAME]


def reason_of(error: BaseException) -> str:
    """Reason of a failure, without paths."""
    if isinstance(error, OSError) and error.strerror:
        return f"the run directory could not be written ({error.strerror})"
    return f"an internal failure, {type(error).__name__} in {_last_function(error)}"


def _last_function(error: BaseException) -> str:
    """Location of a failure, without paths: 'module.function'."""
    from pathlib import Path  # most processes have no failure to report

    trace, place = error.__traceback__, "unknown"
    while trace is not None:
        code = trace.tb_frame.f_code
        place = f"{Path(code.co_filename).stem}.{code.co_name}"
        trace = trace.tb_next
    return place


def registered(run_dir: Path) -> list[int]:
    """The ids of the Python processes of a run, in order of their start.

    Args:
        run_dir: The run directory.
    """
    return [int(line) for line in _lines(run_dir) if line.isdigit()]


def reports(run_dir: Path) -> dict[str, dict[str, Any]]:
    """The reports of the processes of a run, by process id, in order of their first report.

    Args:
        run_dir: The run directory.
    """
    import json

    found: dict[str, dict[str, Any]] = {}
    for line in _lines(run_dir):
        try:
            about = json.loads(line)
            known = {
                k: v for k, v in about.items() if k in _REPORTED and isinstance(v, _REPORTED[k])
            }
            found.setdefault(str(about["pid"]), {}).update(known)
        except (ValueError, KeyError, AttributeError):
            continue  # an id alone, or a torn line
    return found


def _lines(run_dir: Path) -> Iterator[bytes]:
    from stepwhy.base.regular_files import read_regular  # only the launcher reads

    try:
        yield from read_regular(run_dir / ATTACHED_FILE, _MOST_BYTES).splitlines()
    except OSError:
        return
