"""Log the calls of `tf.function`s in a TensorFlow 2 loop.

Only the outermost call in the thread that drives the loop is logged; the importer finds the steps
in the calls. Tracing a function counts as compile time. Fetching from a `tf.data` iterator in
Python counts as input wait; an iterator that a `tf.function` consumes is visible only in the
profiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.steps.function_kinds import FunctionKinds
from stepwhy.record.steps.observed_methods import observe_method
from stepwhy.record.tf2.loop import calls_of

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


def observe_functions(module: ModuleType, run_dir: str) -> None:
    """Log the calls of `tensorflow.python.eager.polymorphic_function.polymorphic_function`."""
    from tensorflow.python.eager import context

    calls = calls_of(run_dir)
    kinds = FunctionKinds(calls.number)

    def number(function: Any) -> int:
        return kinds.of(function, function._python_function)

    observe_method(module.Function, "__call__", calls, number, context.executing_eagerly)
