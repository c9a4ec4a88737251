"""Log eager updates by Keras optimizers, which are the steps of a custom TensorFlow loop."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.record.keras.backend import backend
from stepwhy.record.steps.function_kinds import FunctionKinds
from stepwhy.record.steps.observed_methods import observe_method
from stepwhy.record.watchers.parameters import of_variables, types_of

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from stepwhy.record.watchers.parameters import ParameterTypes


def observe_optimizers(module: ModuleType, run_dir: str) -> None:
    """Log updates on the TensorFlow backend; the other frameworks' observers see their own.

    Args:
        module: `keras.src.optimizers.base_optimizer`, or `tf_keras.src.optimizers.optimizer`.
        run_dir: The run directory, absolute.
    """
    if backend() != "tensorflow":
        return
    from tensorflow.python.eager import context

    from stepwhy.record.tf2.loop import calls_of

    calls = calls_of(run_dir)
    name, owner = (
        ("apply", module.BaseOptimizer)
        if hasattr(module, "BaseOptimizer")
        else ("apply_gradients", module.Optimizer)
    )
    number_of = FunctionKinds(calls.number).of_object
    observe_method(owner, name, calls, number_of, context.executing_eagerly)
    _observe_types(owner, types_of(calls.loop.recorder))


def _observe_types(owner: Any, types: ParameterTypes) -> None:
    """Log the types of the variables that an optimizer is built for."""
    original = owner.build

    @functools.wraps(original)
    def build(self: Any, variables: Any, *args: Any, **kwargs: Any) -> Any:
        types.log(lambda: of_variables(variables))
        return original(self, variables, *args, **kwargs)

    owner.build = build
