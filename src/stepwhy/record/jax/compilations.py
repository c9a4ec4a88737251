"""Log JAX compilations: how long each takes, why it happened again, and which line caused it.

JAX notifies listeners that something was compiled, but neither for which arguments nor why. The
call that had to compile goes through Python, where the argument types are known. This module
matches the two.
"""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_code import user_line
from stepwhy.record.steps.function_kinds import code_of, unwrap
from stepwhy.record.watchers.parameters import ParameterTypes
from stepwhy.record.watchers.retraces import Argument, Retraces, of_value

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any

    from stepwhy.record.steps.loop import Loop

# The last thing that happens in a compilation.
_COMPILED = "backend_compile_duration"
# The JAX function that serves a call off the fast path; the compilation happens inside.
_SLOW_CALL = "cache_miss"
# A model has many parameters; the first ones tell two models apart.
_MOST_ARGUMENTS = 256
_NEW_OBJECT = "a new jitted function of the same code"
_UNCHANGED = (
    "the same arguments: the caches were cleared, another jit of the function, its device, mesh "
    "or configuration have changed"
)
# Fewer iterations than this may be the layers of a model.
_LONG_LOOP = 16


class _Compilation(NamedTuple):
    """A compilation that has ended.

    Args:
        name: JAX's name for it: 'jit(step)'.
        start_ns: When its first stage (tracing) began.
        end_ns: When it ended.
        source: Line of the program that caused it.
    """

    name: str
    start_ns: int
    end_ns: int
    source: str


class Compilations:
    """Log what the driving thread compiles.

    Args:
        loop: The loop of this process.
        jax_folder: Folder of JAX's own code, with a trailing separator.
    """

    def __init__(self, loop: Loop, jax_folder: str) -> None:
        self._loop = loop
        self._jax_folder = jax_folder
        self._retraces = Retraces(_NEW_OBJECT, _UNCHANGED)
        self._types = ParameterTypes(loop.recorder)
        self._started_ns = 0
        self._pending: _Compilation | None = None
        self._warned = False

    def guard(self, work: Callable[[], None]) -> None:
        """Run part of the observer's work; if it fails, stop observing for good."""
        self._loop.guard(work)

    def on_event(self, event: str, duration_s: float, fun_name: str = "", **_: Any) -> None:
        """Listener of `jax.monitoring`: JAX has traced, lowered or compiled something.

        Args:
            event: Which of the three.
            duration_s: How long it took.
            fun_name: Name of the function.
        """
        loop = self._loop
        if "/compile/" not in event or not loop.driven_here() or not loop.recorder.alive:
            return
        end_ns = now_ns()
        start_ns = end_ns - int(duration_s * 1e9)
        kind = event.rpartition("/")[2]
        loop.compile_time.add(kind, start_ns, end_ns)
        self._started_ns = self._started_ns or start_ns
        if kind == _COMPILED:
            frame = sys._getframe(1)
            loop.guard(lambda: self._compiled(fun_name, end_ns, frame))

    def _compiled(self, name: str, end_ns: int, frame: FrameType) -> None:
        """A compilation has ended."""
        self._flush()
        done = _Compilation(name, self._started_ns, end_ns, user_line(frame))
        self._started_ns = 0
        if _serves_a_call(frame):
            self._pending = done
        else:
            self._log(done, "", None)

    def called(self, params: Any, arguments: Any, function: Any, args: Any, kwargs: Any) -> None:
        """A call through Python has ended.

        Args:
            params: JAX's `PjitParams`.
            arguments: Values of the leaves of the arguments.
            function: The function that was jitted.
            args: Positional arguments of the call.
            kwargs: Keyword arguments of the call.
        """
        done, self._pending = self._pending, None
        if done is None:
            self._started_ns = 0  # traced again, but compiled before
            return
        name = str(getattr(function, "__name__", "function"))
        if name not in done.name:
            self._log(done, "", None)
            return
        found = _known_arguments(params, arguments, function, args, kwargs)
        plain = unwrap(function)
        reason, count = self._retraces.add((name, code_of(plain)), function, found)
        if reason in (_NEW_OBJECT, _UNCHANGED) and _file_of(plain).startswith(self._jax_folder):
            reason = ""  # JAX's own functions have further parameters, unknown here
        self._log(done, reason, count)
        self._report_inner_loop(name, params)
        self._types.log(lambda: ((str(a.dtype), int(a.size)) for a in params.in_avals))
        self._log_batch(name, arguments)

    def _log_batch(self, name: str, arguments: Any) -> None:
        """Log how many examples a call gets, if its arguments show it."""
        rows, time_ns = rows_of_batch(arguments), now_ns()
        if rows:
            self._loop.recorder.event(
                "batch", name=name, start_ns=time_ns, end_ns=time_ns, count=rows
            )

    def _flush(self) -> None:
        """Log a compilation whose call never ended: it was ahead of time."""
        done, self._pending = self._pending, None
        if done is not None:
            self._log(done, "", None)

    def _log(self, done: _Compilation, reason: str, count: int | None) -> None:
        """Log a compilation."""
        self._loop.recorder.event(
            "compile",
            name=done.name,
            start_ns=done.start_ns,
            end_ns=done.end_ns,
            reason=reason,
            source=done.source,
            count=count,
        )

    def _report_inner_loop(self, name: str, params: Any) -> None:
        """Report a function with a long loop inside, which may be many unseen training steps."""
        length = longest_loop(params)
        if self._warned or length < _LONG_LOOP:
            return
        self._warned = True
        self._loop.recorder.message(
            "info",
            "loop-inside",
            f"one call of {name} runs a loop of {length} inside (jax.lax.scan): if these are "
            "training steps, an observed step is as many of them",
        )


def _file_of(function: Any) -> str:
    """The file in which a function is defined; '' if it is not Python."""
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


def _serves_a_call(frame: FrameType | None) -> bool:
    """Whether a compilation happens inside a call of a jitted function."""
    while frame is not None:
        if frame.f_code.co_name == _SLOW_CALL:
            return True
        frame = frame.f_back
    return False


def arguments_of(params: Any, arguments: Any) -> dict[str, Argument]:
    """The arguments that a function was compiled for, leaf by leaf.

    Args:
        params: JAX's `PjitParams`.
        arguments: Values of the leaves; only their placement is read.

    Returns:
        By name: "batch", "weights['w']".
    """
    names = params.arg_names or ()
    # Values that the function closes over come first and have no name.
    leaves = zip(names, params.in_avals, arguments[-len(names) :] if names else (), strict=False)
    found: dict[str, Argument] = {}
    for name, aval, value in leaves:
        if len(found) >= _MOST_ARGUMENTS:
            break
        dtype = f"{aval.dtype}{' (weak)' if getattr(aval, 'weak_type', False) else ''}"
        found[str(name)] = Argument("array", dtype, str(tuple(aval.shape)), _placement(value))
    return found


def _known_arguments(
    params: Any, arguments: Any, function: Any, args: Any, kwargs: Any
) -> dict[str, Argument] | None:
    """All arguments that a function was compiled for; None in an unknown version of JAX."""
    try:
        found = arguments_of(params, arguments)
        return found | static_values(function, args, kwargs, found)
    except Exception:
        return None


def _placement(value: Any) -> str:
    """Explicit placement of an array, which is compiled in; '' otherwise."""
    if not getattr(value, "_committed", False):
        return ""
    return str(getattr(value, "sharding", ""))


def static_values(function: Any, args: Any, kwargs: Any, found: Any) -> dict[str, Argument]:
    """Static arguments: those whose value is compiled in.

    Args:
        function: The function that was jitted.
        args: Positional arguments of the call.
        kwargs: Keyword arguments of the call.
        found: The traced arguments, by name.
    """
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return {}
    traced = {name.partition("[")[0].partition(".")[0] for name in found}
    return {
        name: of_value(value)
        for name, value in bound.items()
        if name not in traced and not isinstance(value, (dict, list, tuple))
    }


def rows_of_batch(arguments: Any) -> int:
    """Examples in the batch among the arguments of a call; 0 if they do not show it.

    A batch enters as NumPy arrays with one first dimension, beside parameters that are on the
    device and larger. A model is initialised with such arrays, too, but without parameters.

    Args:
        arguments: Values of the leaves.
    """
    arrays = [a for a in arguments if getattr(a, "ndim", 0)]
    fed = [a for a in arrays if type(a).__module__ == "numpy"]
    total = sum(int(a.size) for a in arrays)
    rows = {int(a.shape[0]) for a in fed}
    is_batch = len(rows) == 1 and 2 * sum(int(a.size) for a in fed) < total
    return rows.pop() if is_batch else 0


def longest_loop(params: Any) -> int:
    """Most iterations of a `scan` directly inside a function that may be training steps; else 0.

    Training steps carry the parameters, which enter as arguments and leave as results. A recurrent
    model only reads its parameters in the loop, and carries a smaller state.

    Args:
        params: JAX's `PjitParams`.
    """
    try:
        jaxpr = params.params["jaxpr"].jaxpr
        scans = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
        return max((e.params["length"] for e in scans if _carries_most(e, jaxpr)), default=0)
    except (AttributeError, KeyError, TypeError):
        return 0  # another version of JAX


def _carries_most(scan: Any, jaxpr: Any) -> bool:
    """Whether at least half of a function's results are arguments that a scan has updated."""
    first, count = scan.params["num_consts"], scan.params["num_carry"]
    carried = zip(scan.invars[first : first + count], scan.outvars[:count], strict=True)
    # Variables are compared by identity, as literals among them have no hash.
    arguments, results = {id(v) for v in jaxpr.invars}, {id(v) for v in jaxpr.outvars}
    updated = sum(
        new.aval.size for old, new in carried if id(old) in arguments and id(new) in results
    )
    return bool(updated and 2 * updated >= sum(v.aval.size for v in jaxpr.outvars))
