"""Observing TensorFlow 2 loops: calls of `tf.function`s, and eager updates of optimizers.

Only the outermost call counts, in the thread that drives the loop; the reader finds the steps in
them. Tracing a function is compile time, and fetching from a `tf.data` iterator in Python is input
wait. An iterator that a `tf.function` consumes is not seen to wait: only the profiler shows that.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.capture.call_log import CallLog, observe_method
from stepwhy.capture.function_kinds import Kinds
from stepwhy.capture.loop import Loop
from stepwhy.capture.recorder import Recorder
from stepwhy.capture.tf2 import pipeline, tracing
from stepwhy.capture.tf2.profiler import TensorFlowProfiler
from stepwhy.capture.xplane_window import XPlaneWindow

if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """What all observers of TensorFlow in this process share."""
    from tensorflow.python.framework.versions import VERSION

    recorder = Recorder(run_dir, "tensorflow", str(VERSION), "tf2-function")
    return Loop(recorder, XPlaneWindow(recorder, TensorFlowProfiler(recorder.scratch)))


@functools.cache
def calls_of(run_dir: str) -> CallLog:
    """The one log of calls: functions and optimizers are inside one another."""
    return CallLog(loop_of(run_dir))


def install_functions(module: ModuleType, run_dir: str) -> None:
    """Observe the `tf.function`s of a freshly imported `...eager.polymorphic_function`.

    Args:
        module: Its module `polymorphic_function`.
        run_dir: The run directory, absolute.
    """
    from tensorflow.python.eager import context

    calls = calls_of(run_dir)
    kinds = Kinds(calls.number)

    def number(function: Any) -> int:
        return kinds.of(function, function._python_function)

    observe_method(module.Function, "__call__", calls, number, context.executing_eagerly)


def install_optimizers(module: ModuleType, run_dir: str) -> None:
    """Observe eager updates by the optimizers of a freshly imported Keras module.

    Args:
        module: `keras.src.optimizers.base_optimizer`, or `tf_keras.src.optimizers.optimizer`.
        run_dir: The run directory, absolute.
    """
    from tensorflow.python.eager import context

    calls = calls_of(run_dir)
    name, owner = (
        ("apply", module.BaseOptimizer)
        if hasattr(module, "BaseOptimizer")
        else ("apply_gradients", module.Optimizer)
    )
    observe_method(owner, name, calls, Kinds(calls.number).of_object, context.executing_eagerly)


def install_tracing(module: ModuleType, run_dir: str) -> None:
    """Observe the tracing of functions by a freshly imported `tracing_compilation`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    tracing.install(module, loop_of(run_dir))


def install_iterators(module: ModuleType, run_dir: str) -> None:
    """Observe the iterators of a freshly imported `...data.ops.iterator_ops`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    pipeline.install(module, loop_of(run_dir))
