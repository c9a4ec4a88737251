"""The methods that `fit` of Keras calls, for both of its generations.

`fit` is observed without them: `stepwhy.record.keras` logs its batches, and leaves out validation.
The callback only marks where the observation begins and ends. It has no method that runs in every
batch.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from stepwhy.integrations.harmless import harmless
from stepwhy.integrations.ranks import is_first_rank
from stepwhy.integrations.reporting import Reporting, calling

if TYPE_CHECKING:
    from typing import Any

_CALLER = "CallbackList"


class FitHooks(Reporting):
    """Observes each `fit` in the first rank; see `Reporting` for the arguments."""

    _unfinished: weakref.finalize[..., object] | None = None

    @harmless
    def on_train_begin(self, logs: Any = None) -> None:
        """Begin to observe.

        Args:
            logs: Not used.
        """
        del logs
        if not is_first_rank():
            return
        self._forget_fit()
        self._observation.begin()
        fit = calling(_CALLER)
        # End with a `fit` that raises: nothing is called then, but its list of callbacks dies.
        if fit is not None and self._observation.is_active:
            self._unfinished = weakref.finalize(fit, self._observation.abort)
            self._unfinished.atexit = False  # the observation ends with the program by itself
        self._active_runs.note()

    @harmless
    def on_train_end(self, logs: Any = None) -> None:
        """Explain the training, and log the result.

        Args:
            logs: Not used.
        """
        del logs
        self._forget_fit()
        if self._observation.end() and self._logs:
            self._active_runs.log(self)

    def _forget_fit(self) -> None:
        if self._unfinished is not None:
            self._unfinished.detach()
