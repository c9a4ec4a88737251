"""Guard optional observations: if one fails, only that one ends; steps are still logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import never_compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.record.core.recorder import Recorder


class ObservationGuard:
    """Guard one kind of observation.

    Args:
        recorder: Receives a message if the observation fails.
        what: Its subject, which begins a sentence.
    """

    def __init__(self, recorder: Recorder, what: str) -> None:
        self._recorder = recorder
        self._what = what
        self._failed = False

    @never_compiled
    def guard(self, work: Callable[[], None]) -> None:
        """Run part of the observation, unless an earlier part failed.

        Args:
            work: An exception from it ends the observation with a message.
        """
        if self._failed or not self._recorder.alive:
            return
        try:
            work()
        except Exception as error:
            self._failed = True
            text = f"{self._what} could not be observed: {type(error).__name__}"
            self._recorder.message("warning", "observation-incomplete", text)
