"""What a trial has done in a process, written to `trial.jsonl` in the run directory.

Each line is one append, with names masked::

    {"pid":4711,"changed":"DataLoader: num_workers 0 -> 1"}
    {"pid":4711,"left":"IterableDataset: each worker would repeat its data"}
    {"pid":4711,"refused":"the replicas ..."}            why the result is of no use
    {"pid":4711,"losses":[0.71,0.69]}
    {"pid":4711,"steps":[[start_ns,end_ns,0],...]}      each with the number of its block
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from stepwhy.base.regular_files import read_regular
from stepwhy.record.core.process.folder import append_lines, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.trials.spec import Spec

TRIAL_FILE = "trial.jsonl"
_MOST_BYTES = 64 << 20
# Distinct changes of a process that are reported.
_MOST_REPORTS = 20


class Trial:
    """The trial of this process.

    Args:
        spec: What to try.
        run_dir: The run directory, absolute.

    Attributes:
        on: Whether the fix is on; fixes that can be switched look at it in each call.
        switches: Called with `on` after it has changed.
    """

    def __init__(self, spec: Spec, run_dir: str) -> None:
        self.spec = spec
        self.on = True
        self.switches: list[Callable[[bool], object]] = []
        self._file = Path(run_dir) / TRIAL_FILE
        self._reported: set[str] = set()

    def changed(self, what: str) -> None:
        """Report a change of the program, once."""
        self._once("changed", what)

    def left(self, why: str) -> None:
        """Report why something was not changed, once."""
        self._once("left", why)

    def refuse(self, why: str) -> None:
        """Report that the training is no longer the same, so that its result is of no use."""
        if why not in self._reported:
            self._reported.add(why)
            self.write({"refused": why})

    def failed(self, error: BaseException) -> None:
        """Report a failure of the fix itself, once."""
        self.left(f"the fix failed: {type(error).__name__}: {error}"[:200])

    def _once(self, kind: str, text: str) -> None:
        if text not in self._reported and len(self._reported) < _MOST_REPORTS:
            self._reported.add(text)
            self.write({kind: text})

    def guard(self, work: Callable[[], object]) -> None:
        """Do a part of the fix; a failure is reported, and the training goes on."""
        try:
            work()
        except Exception as error:
            self.failed(error)

    def write(self, about: dict[str, Any]) -> None:
        """Append a line to the trial's file; never raises."""
        with contextlib.suppress(OSError, ValueError, TypeError):
            append_lines(self._file, [encode({"pid": os.getpid(), **about})])


def trial_reports(run_dir: Path) -> list[dict[str, Any]]:
    """The lines of a run's trial, in order; [] without any.

    Args:
        run_dir: The run directory.
    """
    found = []
    try:
        lines = read_regular(run_dir / TRIAL_FILE, _MOST_BYTES).splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            about = json.loads(line)
        except ValueError:
            continue  # torn by a kill
        if isinstance(about, dict):
            found.append(about)
    return found
