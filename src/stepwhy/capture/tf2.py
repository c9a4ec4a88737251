"""Observing TensorFlow 2 loops: calls of `tf.function`s, and eager updates of optimizers.

Only the outermost call counts, in the thread that drives the loop; the reader finds the steps in
them. Tracing a function is compile time, and fetching from a `tf.data` iterator in Python is input
wait. An iterator that a `tf.function` consumes is not seen to wait: only the profiler shows that.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.kinds import Kinds
from stepwhy.capture.loop import CallLog, Loop
from stepwhy.capture.recorder import Recorder
from stepwhy.capture.xplane_window import ProfilerInUseError, XPlaneWindow, announce

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]


class TensorFlowProfiler:
    """The profiler of TensorFlow, at its usual level: ops on the host, kernels on devices."""

    def __init__(self) -> None:
        self._session: Any = None
        self._restore: Callable[[], None] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def busy(self) -> bool:
        """Whether the training runs a profiler of its own."""
        from tensorflow.python.profiler import profiler_v2

        return profiler_v2._profiler is not None

    def start(self, give_way: Callable[[], None]) -> None:
        """Start; see `Profiler`."""
        from tensorflow.python.framework.errors_impl import AlreadyExistsError
        from tensorflow.python.profiler.internal import _pywrap_profiler

        session = _pywrap_profiler.ProfilerSession()
        folder = tempfile.TemporaryDirectory(prefix="stepwhy-")
        try:
            session.start(folder.name, {})
        except AlreadyExistsError as error:
            folder.cleanup()
            raise ProfilerInUseError from error
        self._session, self._folder = session, folder
        self._restore = announce(_pywrap_profiler, "ProfilerSession", give_way)

    def stop(self) -> bytes:
        """Stop; a serialised `XSpace`, which this profiler only hands out as a file."""
        session, folder = self._take()
        with folder:
            session.export_to_tb()
            (path,) = Path(folder.name).glob("**/*.xplane.pb")
            return path.read_bytes()

    def discard(self) -> None:
        """Stop and keep nothing."""
        session, folder = self._take()
        with folder:
            session.stop()

    def _take(self) -> tuple[Any, Any]:
        """The session that ends and its folder; others may start one again."""
        session, self._session = self._session, None
        folder, self._folder = self._folder, None
        if self._restore is not None:
            self._restore()
        return session, folder

    def mark(self, step: int) -> Callable[[], None]:
        """Begin the mark of a step; what is returned ends it."""
        from tensorflow.python.profiler.internal import _pywrap_traceme

        mark = _pywrap_traceme.TraceMe("train", step_num=step, _r=1)
        return mark.Stop  # type: ignore[no-any-return]


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """What all observers of TensorFlow in this process share."""
    from tensorflow.python.framework.versions import VERSION

    recorder = Recorder(run_dir, "tensorflow", str(VERSION), "tf2-function")
    return Loop(recorder, XPlaneWindow(recorder, TensorFlowProfiler()))


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

    _observe(module.Function, "__call__", calls, number, context.executing_eagerly)


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
    _observe(owner, name, calls, Kinds(calls.number).of_object, context.executing_eagerly)


def _observe(
    owner: Any,
    name: str,
    calls: CallLog,
    number_of: Callable[[Any], int],
    eager: Callable[[], bool],
) -> None:
    """Log the outermost eager calls of a method, by the number of its object's kind."""
    original = getattr(owner, name)

    def begin(self: Any) -> int | None:
        if not eager():
            return None
        number = number_of(self)
        return number if calls.begin(number) else None

    @functools.wraps(original)
    def observed(self: Any, *args: Any, **kwargs: Any) -> Any:
        number = calls.loop.guard(lambda: begin(self)) if calls.may_begin() else None
        if number is None:
            return original(self, *args, **kwargs)
        try:
            return original(self, *args, **kwargs)
        finally:
            calls.end(number)

    setattr(owner, name, observed)


def install_tracing(module: ModuleType, run_dir: str) -> None:
    """Time the tracing of functions by a freshly imported `tracing_compilation`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    loop = loop_of(run_dir)
    original: Call = module._create_concrete_function

    @functools.wraps(original)
    def create(function_type: Any, type_context: Any, func_graph: Any, options: Any) -> Any:
        start_ns = now_ns()
        try:
            return original(function_type, type_context, func_graph, options)
        finally:
            if loop.driven_here():
                name = getattr(options, "name", "function")
                loop.compile_time.add(f"trace {name}", start_ns, now_ns())

    module._create_concrete_function = create  # type: ignore[attr-defined]


def install_iterators(module: ModuleType, run_dir: str) -> None:
    """Time the waits for elements of a freshly imported `...data.ops.iterator_ops`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    loop = loop_of(run_dir)
    original = module.OwnedIterator._next_internal

    @functools.wraps(original)
    def next_internal(self: Any) -> Any:
        start_ns = now_ns()
        try:
            return original(self)
        finally:
            if loop.driven_here():
                loop.input_wait.add(now_ns() - start_ns)

    module.OwnedIterator._next_internal = next_internal
