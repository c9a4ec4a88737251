"""A callback for the `Trainer` of Hugging Face transformers.

::

    callback = StepwhyCallback()
    Trainer(model, arguments, train_dataset=data, callbacks=[callback]).train()
    callback.result.verdict.sentence

The steps are those of the optimizer, which stepwhy observes by itself.
"""

from __future__ import annotations

from typing import Any

from stepwhy.base.optional import needs_package
from stepwhy.integrations.harmless import attempt, harmless
from stepwhy.integrations.reporting import Reporting, calling
from stepwhy.record.torch import pauses

with needs_package("transformers", "Callbacks for transformers"):
    from transformers import TrainerCallback

_CALLER = "CallbackHandler"
# The metric that the trainer logs to Weights & Biases beside every other one, as their axis.
_AXIS = "train/global_step"


class StepwhyCallback(Reporting, TrainerCallback):
    """Observe each `train()`, explain it when it ends, and log the result.

    Evaluation belongs to no step. Only the first process of the job is observed. Inside
    `stepwhy run` and `stepwhy.watch()` the callback has no effect.

    The trainer does not say that an exception ended the training: it is explained when the program
    ends, when the next training begins, or by `close()`.

    Args:
        out: The run directory to write; default `stepwhy-runs/<time>-<name>`. It holds one
            training: of several with one callback, the first.
        quiet: Print no report, only problems.
        log: Whether to log the result to what the trainer reports to (TensorBoard), and to the
            active runs of MLflow and Weights & Biases.
    """

    _is_paused = False
    # Class and folder of the trainer's writer for TensorBoard, which it closes before it is used.
    _tensorboard: tuple[Any, str] | None = None

    @harmless
    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Begin to observe.

        Args:
            args: Not used.
            state: State of the trainer.
            control: Not used.
            more: Not used.
        """
        del args, control, more
        if state.is_world_process_zero:
            self._is_paused = False
            self._observation.begin()
            self._active_runs.note()
            self._tensorboard = _tensorboard_of(calling(_CALLER))

    @harmless
    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Begin a step, if an evaluation was announced but did not happen.

        Args:
            args: Not used.
            state: Not used.
            control: Not used.
            more: Not used.
        """
        del args, state, control, more
        if self._is_paused:
            self._resume()

    @harmless
    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Leave an evaluation that follows out of the steps.

        Args:
            args: Not used.
            state: Not used.
            control: What the trainer does next.
            more: Not used.
        """
        del args, state, more
        self._pause_before(control)

    @harmless
    def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Leave an evaluation that follows out of the steps.

        Args:
            args: Not used.
            state: Not used.
            control: What the trainer does next.
            more: Not used.
        """
        del args, state, more
        self._pause_before(control)

    @harmless
    def on_evaluate(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Begin the next step after an evaluation.

        Args:
            args: Not used.
            state: Not used.
            control: Not used.
            more: Not used.
        """
        del args, state, control, more
        if self._observation.is_active:
            self._resume()

    @harmless
    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Explain the training, and log the result.

        Args:
            args: Not used.
            state: State of the trainer.
            control: Not used.
            more: Not used.
        """
        del args, control, more
        if self._observation.end() and self._logs:
            self._log(int(state.global_step))

    def _pause_before(self, control: Any) -> None:
        if self._observation.is_active and control.should_evaluate and not self._is_paused:
            self._is_paused = True
            pauses.pause()

    def _resume(self) -> None:
        self._is_paused = False
        pauses.resume()

    def _log(self, step: int) -> None:
        self._active_runs.log(self, step, axis=_AXIS)
        if self._tensorboard is not None and self.result is not None:
            kind, folder = self._tensorboard
            attempt(
                "the result was not logged to TensorBoard",
                lambda: self._to_tensorboard(kind, folder, step),
            )

    def _to_tensorboard(self, kind: Any, folder: str, step: int) -> None:
        """Write another file of events into the folder of the trainer's own."""
        from stepwhy.integrations import summary_writers  # noqa: PLC0415 - after the training
        from stepwhy.integrations.contents import report_of  # noqa: PLC0415

        with kind(log_dir=folder) as writer:
            summary_writers.write(report_of(self), writer, step)


def _tensorboard_of(handler: Any) -> tuple[Any, str] | None:
    """Class and folder of the writer that one of the trainer's callbacks has; None for none."""
    callbacks = getattr(handler, "callbacks", ())
    writers = (getattr(callback, "tb_writer", None) for callback in callbacks)
    writer = next((writer for writer in writers if writer is not None), None)
    folder = getattr(writer, "log_dir", None) or getattr(writer, "logdir", None)
    return (type(writer), str(folder)) if folder else None
