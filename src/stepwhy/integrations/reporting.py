"""What all callbacks share: the result, and the report in a notebook."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stepwhy.integrations.active_runs import ActiveRuns
from stepwhy.integrations.observation import Observation

if TYPE_CHECKING:
    import os
    from pathlib import Path
    from types import FrameType

    from stepwhy.result import Result

_NOT_YET = "<p>stepwhy: no training is explained yet</p>"
# Calls between a method of the framework and that of the callback, with wrappers of either.
_MOST_CALLS = 8


class Reporting:
    """What users read from a callback after the training; a notebook shows the report.

    Args:
        out: The run directory to write; default `stepwhy-runs/<time>-<name>`. It holds one
            training: of several by one callback, the first.
        quiet: Print no report, only problems.
        log: Whether to log the result to the loggers and active runs of the training.
    """

    def __init__(
        self,
        out: str | os.PathLike[str] | None = None,
        *,
        quiet: bool = False,
        log: bool = True,
    ) -> None:
        super().__init__()
        self._observation = Observation(out, quiet=quiet)
        self._active_runs = ActiveRuns()
        self._logs = log

    @property
    def result(self) -> Result | None:
        """The result; None before the end of the training, and if it cannot be explained."""
        watch = self._observation.watch
        return watch.result if watch is not None else None

    @property
    def run_dir(self) -> Path | None:
        """The run directory, absolute; None if nothing is observed."""
        watch = self._observation.watch
        return watch.run_dir if watch is not None else None

    @property
    def messages(self) -> tuple[str, ...]:
        """Messages about the observation for the user, each of one or more sentences."""
        watch = self._observation.watch
        return watch.messages if watch is not None else ()

    def close(self) -> None:
        """Explain a training that an exception has ended; else do nothing.

        Without this call it is explained when the program ends or the next training begins.
        """
        self._observation.abort()

    def _repr_html_(self) -> str:
        """The report for a notebook; if there is none yet, the state."""
        watch = self._observation.watch
        return watch._repr_html_() if watch is not None else _NOT_YET


def calling(kind: str) -> object | None:
    """The object whose method calls the current one; None if it is not found.

    Frameworks do not pass the list of callbacks to its callbacks.

    Args:
        kind: Name of its class.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - nothing else shows the caller
    for _ in range(_MOST_CALLS):
        if frame is None:
            return None
        found = frame.f_locals.get("self")
        if type(found).__name__ == kind:
            return found
        frame = frame.f_back
    return None
