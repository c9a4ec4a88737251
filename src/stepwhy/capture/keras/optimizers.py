"""Log eager updates by Keras optimizers, which are the steps of a custom TensorFlow loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.capture.call_log import observe_method
from stepwhy.capture.function_kinds import FunctionKinds
from stepwhy.capture.keras.backend import backend

if TYPE_CHECKING:
    from types import ModuleType


def observe_optimizers(module: ModuleType, run_dir: str) -> None:
    """Log updates on the TensorFlow backend; the other frameworks' observers see their own.

    Args:
        module: `keras.src.optimizers.base_optimizer`, or `tf_keras.src.optimizers.optimizer`.
        run_dir: The run directory, absolute.
    """
    if backend() != "tensorflow":
        return
    from tensorflow.python.eager import context

    from stepwhy.capture.tf2.loop import calls_of

    calls = calls_of(run_dir)
    name, owner = (
        ("apply", module.BaseOptimizer)
        if hasattr(module, "BaseOptimizer")
        else ("apply_gradients", module.Optimizer)
    )
    number_of = FunctionKinds(calls.number).of_object
    observe_method(owner, name, calls, number_of, context.executing_eagerly)
