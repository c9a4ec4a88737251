"""Observations beside the step log: when one fails, it ends, and the steps are logged on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.capture.recorder import Recorder


class Aside:
    """Guards one kind of observation.

    Args:
        recorder: Learns that it failed.
        what: What is observed, at the beginning of a sentence.
    """

    def __init__(self, recorder: Recorder, what: str) -> None:
        self._recorder = recorder
        self._what = what
        self._failed = False

    def guard(self, work: Callable[[], None]) -> None:
        """Do a piece of the work, unless an earlier one failed.

        Args:
            work: What it raises ends the observation with a message.
        """
        if self._failed or not self._recorder.alive:
            return
        try:
            work()
        except Exception as error:
            self._failed = True
            text = f"{self._what} could not be observed: {type(error).__name__}"
            self._recorder.message("warning", "observation-incomplete", text)
