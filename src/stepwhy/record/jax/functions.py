"""Log the calls of jitted functions in a JAX loop.

A jitted function is a C++ object that must keep its type. JAX calls a hook after each call that
takes the fast path through that object; other calls, such as the first one with new shapes, go
through Python. Both are observed. On the fast path only the end of a call is known, so it counts
from the end of the call before. Functions that JAX jits for itself are left out. Gradients that are
computed without a jitted function are logged, too, so that a loop that jits nothing is seen.
"""

from __future__ import annotations

import functools
import os
import sys
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.clock import EPOCH_OFFSET_NS
from stepwhy.record.core.process.losses import attempt
from stepwhy.record.jax.compilations import Compilations
from stepwhy.record.jax.host_arrays import HostArrays
from stepwhy.record.jax.independent_calls import IndependentCalls
from stepwhy.record.jax.loop import calls_of, loop_of
from stepwhy.record.jax.same_arguments import SameArguments
from stepwhy.record.steps.call_log import MOST_NOTES, CallLog
from stepwhy.record.steps.function_kinds import FunctionKinds, enclosed, unwrap
from stepwhy.record.steps.loop import no_marker
from stepwhy.record.steps.observed_methods import observe_method

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, ModuleType
    from typing import Any

    Call = Callable[..., Any]

# Place of the arrays among the arguments of `batched_device_put`.
_PUT_ARRAYS = 2
_MOST_DERIVING = 2000  # codes on the stacks at which gradients were traced


class CallObserver:
    """Log the calls of the functions that the training has jitted.

    Args:
        calls: Log of the calls.
        jax_folder: Folder of JAX's own code, with a trailing separator.
    """

    def __init__(self, calls: CallLog, jax_folder: str) -> None:
        self._calls = calls
        self._jax_folder = jax_folder
        self._arrays = HostArrays(calls.loop)
        self._same = SameArguments(calls.loop)
        self._independent = IndependentCalls(calls.loop)
        self._kinds = FunctionKinds(self._number)
        self._deriving: set[object] = set()

    def _number(self, code: object) -> int:
        """The number of a function's code; negative for code that JAX jits for itself."""
        if code is None:
            return -1
        number = self._calls.number(code)
        if code in self._deriving:
            self._calls.updates(number)
        return number

    def derives(self) -> None:
        """A function is traced that computes gradients: one of those on the stack, if jitted."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and len(self._deriving) < _MOST_DERIVING:
            self._deriving.add(frame.f_code)
            frame = frame.f_back

    def _kind(self, function: Any) -> int:
        """The number of a function's kind; negative for one that JAX jits for itself."""
        number = self._kinds.known(function)
        if number is None:
            number = self._kinds.remembered(function, lambda: self._code(function))
        return number

    def _code(self, function: Any) -> object:
        """The code of a function, jitted or not; None if that is JAX's own."""
        plain = unwrap(getattr(function, "_fun", function))
        code = getattr(plain, "__code__", None)
        if code is not None and code.co_filename.startswith(self._jax_folder):
            code = getattr(_mapped(plain), "__code__", None)
        return None if code is None or code.co_filename.startswith(self._jax_folder) else code

    def hook(self) -> Call:
        """A function that JAX calls after each call on the fast path, which never raises.

        JAX passes the function, its positional and keyword arguments, and what it returned.
        """
        light, noted, loop = self._calls.light, self._calls.light.noted, self._calls.loop

        def hooked(*call: Any) -> None:
            # As in `CallLog.note`, whose calls of other functions would take several times as long.
            end_ns = perf_counter_ns() + EPOCH_OFFSET_NS
            if (
                end_ns < light.until_ns
                and light.function() is call[0]
                and get_ident() == light.thread
                and loop.marker is no_marker
                and len(noted) < MOST_NOTES
            ):
                noted.append(end_ns)
            else:
                self._hooked(*call)

        return hooked

    def _hooked(self, *call: Any) -> None:
        """A call has ended that is not one of those that are most frequent and only noted."""
        calls = self._calls
        try:
            function, args, kwargs, output = call
        except ValueError as error:
            calls.loop.stop(error)
            return
        number = self._kinds.known(function) if calls.light.until_ns else None
        # In light steps of a loop that was seen for long, nothing else is of interest.
        if number is None or (number >= 0 and not calls.note(number)):
            self.called(function, args, kwargs, output)

    def called(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        """A call of a function, jitted or not, has ended; never raises.

        Args:
            function: The function.
            args: Its positional arguments.
            kwargs: Its arguments by name.
            output: What it returned.
        """
        calls, loop = self._calls, self._calls.loop
        try:
            self._arrays.passed(args)
            if self._same.is_due:
                if (number := self._kind(function)) >= 0:
                    self._same.called(number, function, args, kwargs, calls.step)
                else:
                    self._same.made(args, kwargs, output)
            if self._independent.is_due and not calls.loop.only_notes:
                self._independent.called(self._kind(function), function, args, kwargs, output)
            if calls.may_begin():
                number = self._kind(function)
                if number < 0:
                    return
                calls.ended(number)
                if calls.light.until_ns and number == calls.anchor:
                    calls.light.function = self._kinds.reference(function) or _no_function
            if calls.follows and loop.driven_here():
                loop.launched(output)
        except Exception as error:
            loop.stop(error)

    def put(self, arrays: Any) -> None:
        """The program copies arrays to the device; never raises."""
        self._calls.loop.guard(lambda: self._arrays.passed(arrays))

    def copied(self, array: Any, copy: Any) -> None:
        """An array has been copied to the device; never raises."""
        self._calls.loop.guard(lambda: self._same.made((array,), {}, copy))


def _no_function() -> None:
    """Stands for a function to which there is no weak reference."""


def _mapped(function: Any) -> Any:
    """The function that `jax.pmap` has wrapped in one of JAX's own; None for other functions."""
    for content in enclosed(function):
        if hasattr(content, "call_wrapped"):
            return unwrap(content.f)
    return None


def observe_functions(module: ModuleType, run_dir: str) -> None:
    """Log the calls and compilations of the functions that `jax._src.api` jits."""
    from jax._src import core, dispatch, monitoring, pjit, source_info_util, stages, traceback_util
    from jax._src.interpreters import pxla

    folder = os.path.dirname(os.path.dirname(module.__file__ or "")) + os.sep  # noqa: PTH120
    calls = calls_of(run_dir)
    observer = CallObserver(calls, folder)
    functions: Any = module
    compilations = Compilations(loop_of(run_dir), folder)
    outside = core.trace_state_clean

    def observe_fast_path() -> None:
        functions._post_hook_state = PostHook(functions._post_hook_state, observer.hook())

    def observe_compiled() -> None:
        number_of = FunctionKinds(calls.number).of_object
        observe_method(stages.Compiled, "__call__", calls, number_of, outside)

    def hide_frames() -> None:
        # As JAX's own frames: no exported program names them as a source of its operations.
        for places in (source_info_util, traceback_util):
            places.register_exclusion(os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120

    def listen() -> None:
        monitoring.register_event_duration_secs_listener(compilations.on_event)

    for what, observe in (
        ("calls of jitted JAX functions", observe_fast_path),
        ("arrays that JAX copies to the device", lambda: _observe_puts(pxla, observer)),
        ("arrays that JAX copies to the device", lambda: _observe_copies(dispatch, observer)),
        (
            "first calls of jitted JAX functions, and why they are compiled",
            lambda: _observe_python_path(pjit, outside, observer, compilations),
        ),
        ("gradients of JAX", lambda: _observe_gradients(functions, calls, observer, outside)),
        ("JAX functions compiled ahead of time", observe_compiled),
        ("compilations by JAX", listen),
        ("sources of operations without frames of stepwhy", hide_frames),
    ):
        attempt(what, observe)


def _observe_puts(module: Any, observer: CallObserver) -> None:
    """Note the arrays that the program copies with `jax.device_put`."""
    original = module.batched_device_put

    @functools.wraps(original)
    def batched_device_put(*args: Any, **kwargs: Any) -> Any:
        if len(args) > _PUT_ARRAYS:
            observer.put(args[_PUT_ARRAYS])
        return original(*args, **kwargs)

    module.batched_device_put = batched_device_put


def _observe_copies(module: Any, observer: CallObserver) -> None:
    """Note what `jax.device_put` returns."""
    of_copy: Any = module._DeferredShardArg
    original = of_copy.result_handler

    @functools.wraps(original)
    def result_handler(self: Any, *args: Any, **kwargs: Any) -> Any:
        copy = original(self, *args, **kwargs)
        observer.copied(self.x, copy)
        return copy

    of_copy.result_handler = result_handler


def _observe_gradients(
    module: Any, calls: CallLog, observer: CallObserver, outside: Callable[[], bool]
) -> None:
    """Log calls of what `value_and_grad` and `grad` return; inside a trace, note what is traced."""
    original = module.value_and_grad
    kinds = FunctionKinds(calls.number)

    def begin(function: Any) -> int | None:
        if not outside():
            observer.derives()
            return None
        if not calls.may_begin():
            return None
        number = kinds.of(function, function)
        if not calls.begin(number):
            return None
        calls.updates()
        return number

    @functools.wraps(original)
    def value_and_grad(fun: Any, *args: Any, **kwargs: Any) -> Call:
        gradient = original(fun, *args, **kwargs)

        @functools.wraps(gradient)
        def observed(*args: Any, **kwargs: Any) -> Any:
            number = calls.loop.guard(lambda: begin(fun))
            if number is None:
                return gradient(*args, **kwargs)
            failed = True
            try:
                result = gradient(*args, **kwargs)
                failed = False
                calls.launched(result)
                return result
            finally:
                calls.end(number, failed=failed)

        return observed

    module.value_and_grad = value_and_grad


class PostHook:
    """Wrapper around JAX's setting of the hook that its C++ path calls after each call.

    JAX sets this hook, for the process or for a thread, while it searches for NaNs, and resets it
    to none when it pauses the search (the gradient of a scan). The observer's hook runs after
    whatever JAX sets.

    Args:
        setting: JAX's setting, which the C++ path reads.
        called: Receives the function, its arguments and its output after each call; never raises.
    """

    def __init__(self, setting: Any, called: Callable[..., None]) -> None:
        self._setting = setting
        self._called = called
        self.set_global(setting.get_global())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._setting, name)

    def set_global(self, theirs: Any) -> None:
        """Set the hook of the process; None for none."""
        self._setting.set_global(self._after(theirs))

    def set_local(self, theirs: Any) -> None:
        """Set the hook of this thread, which takes precedence over that of the process."""
        self._setting.set_local(self._after(theirs))

    def _after(self, theirs: Any) -> Call:
        """A hook that runs JAX's, which may raise, and then the observer's."""
        called = self._called
        if not callable(theirs):
            return called

        def hook(*call: Any) -> None:
            theirs(*call)
            called(*call)

        return hook


def _observe_python_path(
    module: Any, outside: Callable[[], bool], observer: CallObserver, compilations: Compilations
) -> None:
    """Log calls of jitted functions that go through Python, unless they run inside a trace."""
    is_old = hasattr(module, "_python_pjit_helper")  # versions before 0.9
    name, read = ("_python_pjit_helper", _old_call) if is_old else ("_run_python_pjit", _call)
    original = getattr(module, name)

    def ended(result: Any, call: Any, named: Any) -> None:
        params, arguments, function, args, kwargs = read(result, *call, **named)
        compilations.called(params, arguments, function, args, kwargs)
        observer.called(function, args, kwargs, result)

    @functools.wraps(original)
    def run(*call: Any, **named: Any) -> Any:
        result = original(*call, **named)
        if outside():
            compilations.guard(lambda: ended(result, call, named))
        return result

    setattr(module, name, run)


class _Params(NamedTuple):
    """What of JAX's `PjitParams` is read, for versions that do not pass it on."""

    params: dict[str, Any]
    in_avals: Any
    arg_names: Any


def _call(_: Any, p: Any, args_flat: Any, fun: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
    """JAX's `PjitParams`, the leaves of the arguments, the function, and its arguments."""
    return p, args_flat, fun, args, kwargs


def _old_call(result: Any, fun: Any, _: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The same from the arguments and the result of JAX 0.8's function."""
    args_flat, jaxpr = result[3], result[4]
    params = _Params({"jaxpr": jaxpr}, jaxpr.in_avals, jaxpr.jaxpr.debug_info.arg_names)
    return params, args_flat, fun, args, kwargs
