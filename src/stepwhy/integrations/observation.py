"""Observe one training after the other, as `stepwhy.watch()` observes a block."""

from __future__ import annotations

import atexit
import sys
from typing import TYPE_CHECKING

from stepwhy.api.watching import Watch
from stepwhy.base import output
from stepwhy.integrations.harmless import harmless

if TYPE_CHECKING:
    import os

_NO_EFFECT = (
    "stepwhy: the callback has no effect: 'stepwhy run' or stepwhy.watch() observes this program "
    "already"
)


class UnfinishedError(Exception):
    """Stands for the unknown exception that ended a training."""


class Observation:
    """Observes the trainings of one callback, one at a time.

    Args:
        out: The run directory of the first training; None for a new one each.
        quiet: Print no report, only problems.

    Attributes:
        watch: The last training as a watched block; None before the first one.
        is_active: Whether a training is being observed.
    """

    def __init__(self, out: str | os.PathLike[str] | None, *, quiet: bool) -> None:
        self._out = out
        self._quiet = quiet
        self.watch: Watch | None = None
        self.is_active = False

    def begin(self) -> None:
        """Observe a training from here on, unless the program is observed already."""
        self.end(UnfinishedError())  # an exception ended the training before this one
        self.watch = watch = Watch(self._out, quiet=self._quiet)
        watch.__enter__()
        if watch.is_idle and not self._quiet:
            output.line(_NO_EFFECT)
        if watch.run_dir is not None:
            self.is_active = True
            # Called before the handlers of the observers, since those were registered before it.
            atexit.register(self._end_with_program)

    def end(self, error: BaseException | None = None) -> bool:
        """End the observation, and explain the training.

        Args:
            error: The exception that ended the training; None for its normal end.

        Returns:
            Whether a training was being observed.
        """
        if not self.is_active or self.watch is None:
            return False
        self.is_active = False
        atexit.unregister(self._end_with_program)
        self.watch.__exit__(type(error) if error is not None else None, error, None)
        return True

    def abort(self) -> None:
        """End the observation of a training that did not finish; never raises."""
        harmless(self.end)(UnfinishedError())

    def _end_with_program(self) -> None:
        """End with the program, which an exception may have ended."""
        last: BaseException | None = getattr(sys, "last_value", None)
        harmless(self.end)(UnfinishedError() if last is None else last)
