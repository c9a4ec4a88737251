"""Log traces of `tf.function`s: duration, the reason of a retrace, and the line that caused it."""

from __future__ import annotations

import contextlib
import functools
from pathlib import PurePath
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.observation_guard import ObservationGuard
from stepwhy.record.core.user_code import user_line
from stepwhy.record.steps.function_kinds import code_of, unwrap
from stepwhy.record.tf2.loop import calls_of, loop_of
from stepwhy.record.tf2.traced_graphs import (
    log_first_batch_lines,
    log_loops,
    log_repeated_gradients,
    log_tables,
    note,
)
from stepwhy.record.tf2.tracing_notes import notes_of, noting
from stepwhy.record.watchers.parameters import of_variables, types_of
from stepwhy.record.watchers.retraces import Argument, Retraces, of_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from stepwhy.record.steps.loop import Loop

# The first tensors tell two nests of thousands (all weights of a model) apart.
_MOST_ARGUMENTS = 64
# An iterator over several devices has half a dozen functions of its own.
_ITERATORS = "/tensorflow/python/data/"
_NEW_OBJECT = "a new tf.function object of the same code"
_UNCHANGED = (
    "the same arguments: its first call has made variables, or device or strategy have changed"
)


def arguments_of(function_type: Any) -> dict[str, Argument]:
    """The arguments that a function is traced for, leaf by leaf.

    Args:
        function_type: TensorFlow's `FunctionType`.

    Returns:
        By name: 'batch', 'batch[0]', 'features["age"]'.
    """
    found: dict[str, Argument] = {}
    for name, parameter in function_type.parameters.items():
        for path, leaf in _leaves(name, parameter.type_constraint):
            found[path] = _argument(leaf)
            if len(found) >= _MOST_ARGUMENTS:
                return found
    return found


def _known_arguments(function_type: Any) -> dict[str, Argument] | None:
    """As `arguments_of`; None if a type of the program's own cannot be read."""
    try:
        return arguments_of(function_type)
    except Exception:
        return None


def _leaves(path: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of a nest of TensorFlow's trace types, with their paths."""
    if hasattr(kind, "components_tuple"):
        kind = kind.components_tuple
    if hasattr(kind, "mapping"):
        parts = [(f"{path}[{key!r}]", inner) for key, inner in kind.mapping.items()]
    elif hasattr(kind, "attribute_names"):
        names = zip(kind.attribute_names, kind.attributes.components, strict=False)
        parts = [(f"{path}.{name}", inner) for name, inner in names]
    elif isinstance(getattr(kind, "components", None), tuple):
        parts = [(f"{path}[{i}]", inner) for i, inner in enumerate(kind.components)]
    else:
        yield path, kind
        return
    for inner_path, inner in parts:
        yield from _leaves(inner_path, inner)


def _argument(leaf: Any) -> Argument:
    """Describe a leaf: the type of a tensor, the value of a literal, or the class of an object."""
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        rank = leaf.shape.rank
        shape = "of unknown rank" if rank is None else str(tuple(leaf.shape))
        return Argument(type(leaf).__name__, leaf.dtype.name, shape)
    if hasattr(leaf, "value"):
        return of_value(leaf.value)
    # A weak reference to an object with a trace type of its own.
    target = getattr(leaf, "_ref", None)
    owner = target() if callable(target) else None
    name = type(leaf if owner is None else owner).__name__
    return Argument(name, identity=hash(leaf) if owner is None else id(owner))


def _is_iterators(function: Any) -> bool:
    """Whether TensorFlow made this function for an iterator."""
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    return _ITERATORS in PurePath(file).as_posix()


class Tracing:
    """Log the traces of the driving thread; nested ones count as part of the outermost.

    Args:
        loop: The loop of this process.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._guard = ObservationGuard(loop.recorder, "Traces of functions")
        self._depth = 0
        self._retraces = Retraces(_NEW_OBJECT, _UNCHANGED)

    def around(self, trace: Callable[[], Any], about: Callable[[], tuple[Any, Any]]) -> Any:
        """Time the tracing of a function.

        Args:
            trace: Traces the function; its exceptions pass through.
            about: Returns TensorFlow's `FunctionType` and `TracingOptions`.
        """
        if not self._loop.driven_here() or not self._loop.recorder.alive:
            return trace()
        start_ns = now_ns()
        self._depth += 1
        try:
            return trace()
        finally:
            self._depth -= 1
            self._guard.guard(lambda: self._ended(*about(), start_ns, now_ns()))

    def _ended(self, function_type: Any, options: Any, start_ns: int, end_ns: int) -> None:
        """A trace has ended."""
        name = str(getattr(options, "name", "function"))
        self._loop.compile_time.add(f"trace {name}", start_ns, end_ns)
        if self._depth:
            return
        function = options.python_function
        # Of all that the traces of a `tf.function` share, only the lock supports weak references.
        owner = options.lock or function
        plain = unwrap(function)
        code = (name, code_of(plain))
        reason, count = self._retraces.add(code, owner, _known_arguments(function_type))
        if reason == _NEW_OBJECT and _is_iterators(plain):
            reason = ""
        self._loop.recorder.event(
            "trace",
            name=name,
            start_ns=start_ns,
            end_ns=end_ns,
            reason=reason,
            source=user_line(),
            count=count,
        )


def _traced(
    function_type: Any, type_context: Any, func_graph: Any, options: Any, **_: Any
) -> tuple[Any, Any]:
    """Type and options of what is traced, from the arguments of TensorFlow's function."""
    del type_context, func_graph
    return function_type, options


def observe_tracing(module: ModuleType, run_dir: str) -> None:
    """Log the traces made by `...polymorphic_function.tracing_compilation`."""
    original: Callable[..., Any] = module._create_concrete_function
    tracing, types = Tracing(loop_of(run_dir)), types_of(loop_of(run_dir).recorder)

    @functools.wraps(original)
    def create(*args: Any, **kwargs: Any) -> Any:
        def trace() -> Any:
            return original(*args, **kwargs)

        with noting():
            function = tracing.around(trace, lambda: _traced(*args, **kwargs))
        note(function)
        log_loops(function, loop_of(run_dir).recorder)
        log_repeated_gradients(function, loop_of(run_dir).recorder)
        log_first_batch_lines(function, loop_of(run_dir).recorder)
        log_tables(function, loop_of(run_dir).recorder)
        with contextlib.suppress(Exception):
            if notes_of(function.graph).gradients:
                calls_of(run_dir).updates()
        types.log(lambda: of_variables(function.trainable_variables))
        return function

    module._create_concrete_function = create  # type: ignore[attr-defined]
