"""Requests for a traced window from outside of the process.

`stepwhy top --watch` writes `request.json` into the folder of a process. The process looks for the
file when it has written steps to its log, at most every 10 ms and usually every 0.4 s, which takes
a microsecond beside the 100 of the writing. It removes the file and writes `answer.json`::

    {"schema": "stepwhy.request/1", "step": 1212, "since": 1050}
    {"schema": "stepwhy.answer/1", "step": 1212, "accepted": true}

`step` is the step that the window begins at, by its line in the log, from 0: the same on all ranks.
`since` is the step from which on something is different, so that readers know where to look for it.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import NamedTuple

from stepwhy.base.regular_files import read_regular
from stepwhy.record.core.process.folder import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REQUEST_FILE = "request.json"
ANSWER_FILE = "answer.json"
_REQUEST_SCHEMA = "stepwhy.request/1"
_ANSWER_SCHEMA = "stepwhy.answer/1"
_MOST_BYTES = 1 << 12  # of a file; it has some fifty
_MOST_STEPS = 1 << 48


class Request(NamedTuple):
    """A request for a window.

    Args:
        step: The step that it is to begin at.
        since: The step from which on something is different.
    """

    step: int
    since: int


class Requests:
    """Looks for requests, and answers each once.

    Attributes:
        opens: Receives a request, and returns whether a window will open; None where nothing opens
            windows.
    """

    def __init__(self) -> None:
        self.opens: Callable[[Request], bool] | None = None
        self._is_off = False

    def look(self, folder: Path) -> None:
        """Answer a request, if there is one; never raises.

        Args:
            folder: Folder of the process.
        """
        # No exception is made for the usual case that there is none.
        if not self._is_off and os.access(f"{folder}/{REQUEST_FILE}", os.F_OK):
            try:
                self._answer(folder)
            except Exception:
                self._is_off = True

    def _answer(self, folder: Path) -> None:
        """Remove the request, and answer it.

        Raises:
            OSError: The folder cannot be written.
        """
        found = requested(folder)
        (folder / REQUEST_FILE).unlink()
        if found is None:
            return
        accepted = self.opens is not None and self.opens(found)
        answer = {"schema": _ANSWER_SCHEMA, "step": found.step, "accepted": accepted}
        write_json(folder / ANSWER_FILE, answer)


def ask(folder: Path, request: Request) -> None:
    """Ask a process for a window.

    Args:
        folder: Folder of the process.
        request: What to ask for.

    Raises:
        OSError: The folder cannot be written.
    """
    content = {"schema": _REQUEST_SCHEMA, "step": request.step, "since": request.since}
    write_json(folder / REQUEST_FILE, content)


def requested(folder: Path) -> Request | None:
    """The request that a process has not answered; None without one."""
    found = _members(folder / REQUEST_FILE, _REQUEST_SCHEMA)
    step, since = _step(found, "step"), _step(found, "since")
    return None if step is None or since is None else Request(step, since)


def answered(folder: Path, step: int) -> bool | None:
    """Whether a process has accepted a request; None if it has not answered.

    Args:
        folder: Folder of the process.
        step: The step of the request.
    """
    found = _members(folder / ANSWER_FILE, _ANSWER_SCHEMA)
    return bool(found.get("accepted")) if _step(found, "step") == step else None


def _step(found: dict[str, object], name: str) -> int | None:
    step = found.get(name)
    return step if type(step) is int and 0 <= step < _MOST_STEPS else None


def _members(path: Path, schema: str) -> dict[str, object]:
    """The members of a file; {} if it is none of this schema."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(read_regular(path, _MOST_BYTES))
        if isinstance(found, dict) and found.get("schema") == schema:
            return found
    return {}
