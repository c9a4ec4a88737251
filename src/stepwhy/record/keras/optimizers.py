"""Log eager updates by Keras optimizers, which are the steps of a custom TensorFlow loop.

The call that makes an optimizer, of Keras or of a graph, is logged when it is used.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from stepwhy.record.core.user_code import user_call
from stepwhy.record.core.wrappers import wraps
from stepwhy.record.keras.backend import backend
from stepwhy.record.steps.function_kinds import FunctionKinds
from stepwhy.record.steps.observed_methods import observe_method
from stepwhy.record.watchers.parameters import of_variables, types_of

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.watchers.parameters import ParameterTypes

OPTIMIZER = "optimizer"
"""Name of the event for the call that makes one."""


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
    note_making(owner, "build", calls.loop.recorder)


def note_making(owner: Any, uses: str, recorder: Recorder) -> None:
    """Log how the program makes an optimizer, when that is used.

    Args:
        owner: The class of all optimizers.
        uses: Its method that is called before the first update.
        recorder: Writes the event.
    """
    made: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
    make, use = owner.__init__, getattr(owner, uses)

    @wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            made[self] = user_call(type(self).__name__)

    @functools.wraps(use)
    def used(self: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            recorder.made(OPTIMIZER, made.pop(self, ("", "")))
        return use(self, *args, **kwargs)

    owner.__init__ = init
    setattr(owner, uses, used)


def _observe_types(owner: Any, types: ParameterTypes) -> None:
    """Log the types of the variables that an optimizer is built for."""
    original = owner.build

    @functools.wraps(original)
    def build(self: Any, variables: Any, *args: Any, **kwargs: Any) -> Any:
        types.log(lambda: of_variables(variables))
        return original(self, variables, *args, **kwargs)

    owner.build = build
