"""A callback for the `Trainer` of Lightning, as `lightning` or as `pytorch_lightning`.

::

    callback = StepwhyCallback()
    Trainer(callbacks=[callback]).fit(model, loader)
    callback.result.verdict.sentence

The steps are those of the optimizer, which stepwhy observes by itself, so the callback has no
method that runs in every batch.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepwhy.base.optional import needs_package
from stepwhy.integrations.harmless import harmless
from stepwhy.integrations.reporting import Reporting
from stepwhy.record.torch import pauses

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _package() -> ModuleType:
    """The package that the training has imported, or else the first that is installed."""
    first, second = sorted(_PACKAGES, key=lambda name: name not in sys.modules)
    try:
        return import_module(first)
    except ImportError:
        return import_module(second)


if TYPE_CHECKING:
    from lightning.pytorch import Callback
else:
    with needs_package("lightning", "Callbacks for Lightning"):
        Callback = _package().Callback


class StepwhyCallback(Reporting, Callback):
    """Observe each `fit`, explain it when it ends, and log the result.

    Validation belongs to no step. Only the process of global rank zero is observed. Inside
    `stepwhy run` and `stepwhy.watch()` the callback has no effect.

    Args:
        out: The run directory to write; default `stepwhy-runs/<time>-<name>`. It holds one `fit`:
            of several with one callback, the first.
        quiet: Print no report, only problems.
        log: Whether to log the result to the loggers of the trainer, and to the active runs of
            MLflow and Weights & Biases.
    """

    @harmless
    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to observe, before the trainer makes its loaders.

        Args:
            trainer: The trainer.
            pl_module: Not used.
        """
        del pl_module
        if trainer.is_global_zero:
            self._observation.begin()
            self._active_runs.note()

    @harmless
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Leave the validation out of the steps.

        Args:
            trainer: Not used.
            pl_module: Not used.
        """
        del trainer, pl_module
        if self._observation.is_active:
            pauses.pause()

    @harmless
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Begin the next step after the validation.

        Args:
            trainer: Not used.
            pl_module: Not used.
        """
        del trainer, pl_module
        if self._observation.is_active:
            pauses.resume()

    @harmless
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Explain the training, and log the result.

        Args:
            trainer: The trainer.
            pl_module: Not used.
        """
        del pl_module
        self._end(trainer, None)

    @harmless
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Explain the training up to the exception, and log the result.

        Args:
            trainer: The trainer.
            pl_module: Not used.
            exception: What ended it.
        """
        del pl_module
        self._end(trainer, exception)

    @harmless
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """End the observation of a `fit` that had nothing to train on.

        Args:
            trainer: The trainer.
            pl_module: Not used.
            stage: Not used.
        """
        del pl_module, stage
        self._end(trainer, None)

    def _end(self, trainer: Any, error: BaseException | None) -> None:
        if not self._observation.end(error) or not self._logs:
            return
        from stepwhy.integrations import lightning_loggers  # noqa: PLC0415 - after the training

        step = int(trainer.global_step)
        done = lightning_loggers.log(self, trainer.loggers, step)
        self._active_runs.log(self, step, axis=lightning_loggers.AXIS, without=done)
