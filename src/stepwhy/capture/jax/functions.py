"""Observing JAX loops: calls of jitted functions, and `StepTraceAnnotation`s where there are.

A jitted function is an object of C++ that must stay what it is. JAX calls a hook of its own after
each call that takes the short way through that object, and goes through Python for the others (the
first call with new shapes). Both are observed, so that of most calls only the end is known; they
count from the end of the call before. Functions that JAX jits for itself are left out: a loop that
jits nothing is not seen.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

from stepwhy.capture.call_log import CallLog, observe_method
from stepwhy.capture.function_kinds import Kinds, enclosed, unwrap
from stepwhy.capture.jax.compilations import Compilations
from stepwhy.capture.jax.profiler import JaxProfiler
from stepwhy.capture.loop import Loop
from stepwhy.capture.recorder import Recorder
from stepwhy.capture.xplane_window import XPlaneWindow

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Call = Callable[..., Any]


@functools.cache
def _profiler() -> JaxProfiler:
    """The one of this process."""
    return JaxProfiler()


@functools.cache
def loop_of(run_dir: str) -> Loop:
    """What all observers of JAX in this process share."""
    from jax.version import __version__

    recorder = Recorder(run_dir, "jax", str(__version__), "jax-jit")
    return Loop(recorder, XPlaneWindow(recorder, _profiler()))


@functools.cache
def calls_of(run_dir: str) -> CallLog:
    """The one log of calls: annotations are around functions."""
    return CallLog(loop_of(run_dir))


class CallObserver:
    """Logs the calls of the functions that the training has jitted.

    Args:
        calls: Where calls go.
        own: Folder of JAX's own code, with a separator at its end.
    """

    def __init__(self, calls: CallLog, own: str) -> None:
        self._calls = calls
        self._own = own
        self._kinds = Kinds(self._number)

    def _number(self, code: object) -> int:
        """The number of a function's code; below 0 for what JAX has jitted for itself."""
        return -1 if code is None else self._calls.number(code)

    def _code(self, function: Any) -> object:
        """The code that a function, jitted or not, was made from; None when that is JAX's own."""
        plain = unwrap(getattr(function, "_fun", function))
        code = getattr(plain, "__code__", None)
        if code is not None and code.co_filename.startswith(self._own):
            code = getattr(_mapped(plain), "__code__", None)
        return None if code is None or code.co_filename.startswith(self._own) else code

    def called(self, function: Any) -> None:
        """A call of a function, jitted or not, has ended; never raises."""
        if not self._calls.may_begin():
            return
        try:
            number = self._kinds.known(function)
            if number is None:
                number = self._kinds.remembered(function, lambda: self._code(function))
            if number >= 0:
                self._calls.ended(number)
        except Exception as error:
            self._calls.loop.step_aside(error)


def _mapped(function: Any) -> Any:
    """What `jax.pmap` made a function of JAX's own around; None for other functions."""
    for content in enclosed(function):
        if hasattr(content, "call_wrapped"):
            return unwrap(content.f)
    return None


def install_calls(module: ModuleType, run_dir: str) -> None:
    """Observe the jitted functions of a freshly imported `jax._src.api`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    from jax._src import core, monitoring, pjit, stages

    own = os.path.dirname(os.path.dirname(module.__file__ or "")) + os.sep  # noqa: PTH120
    calls = calls_of(run_dir)
    observer = CallObserver(calls, own)
    functions: Any = module
    functions._post_hook_state = PostHook(functions._post_hook_state, observer.called)
    compilations = Compilations(loop_of(run_dir), own)
    _hook_long_way(pjit, core.trace_state_clean, observer, compilations)
    # Functions that the training has compiled ahead of time.
    number_of = Kinds(calls.number).of_object
    observe_method(stages.Compiled, "__call__", calls, number_of, core.trace_state_clean)
    monitoring.register_event_duration_secs_listener(compilations.heard)


class PostHook:
    """Stands for JAX's setting of the hook that its C++ path calls after each call.

    JAX sets the hook to search for NaNs, of the process or of a thread, and to none when that ends,
    which it does wherever it does without the search for a moment (the gradient of a scan). Ours
    runs behind whatever JAX sets.

    Args:
        setting: JAX's own, which the C++ path reads.
        called: Told of each call.
    """

    def __init__(self, setting: Any, called: Callable[[Any], None]) -> None:
        self._setting = setting
        self._called = called
        self.set_global(setting.get_global())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._setting, name)

    def set_global(self, theirs: Any) -> None:
        """Set the hook of the process; None for JAX's none."""
        self._setting.set_global(self._behind(theirs))

    def set_local(self, theirs: Any) -> None:
        """Set the hook of this thread, which goes before that of the process."""
        self._setting.set_local(self._behind(theirs))

    def _behind(self, theirs: Any) -> Call:
        """Our hook behind one of JAX's, which may raise."""
        called = self._called

        def hook(function: Any, args: Any, kwargs: Any, output: Any) -> None:
            if callable(theirs):
                theirs(function, args, kwargs, output)
            called(function)

        return hook


def _hook_long_way(
    module: Any, outside: Callable[[], bool], observer: CallObserver, compilations: Compilations
) -> None:
    """Have the Python path of jitted functions tell, unless it runs inside a trace."""
    original = module._run_python_pjit
    guard = compilations.guard

    @functools.wraps(original)
    def run(p: Any, args_flat: Any, fun: Any, args: Any, kwargs: Any) -> Any:
        result = original(p, args_flat, fun, args, kwargs)
        if outside():
            guard(lambda: compilations.called(p, args_flat, fun, args, kwargs))
            observer.called(fun)
        return result

    module._run_python_pjit = run


def install_annotations(module: ModuleType, run_dir: str) -> None:
    """Observe the step annotations of a freshly imported `jax._src.profiler`.

    Args:
        module: That module.
        run_dir: The run directory, absolute.
    """
    calls = calls_of(run_dir)
    annotation: Any = module.StepTraceAnnotation
    make, enter, leave = annotation.__init__, annotation.__enter__, annotation.__exit__

    def begin(name: str) -> int | None:
        _profiler().annotated = True
        number = calls.number(("annotation", name))
        return number if calls.begin(number) else None

    @functools.wraps(make)
    def init(self: Any, name: str, **kwargs: Any) -> None:
        make(self, name, **kwargs)
        self._stepwhy_name = name

    @functools.wraps(enter)
    def observed_enter(self: Any) -> Any:
        self._stepwhy_number = calls.loop.guard(lambda: begin(self._stepwhy_name))
        return enter(self)

    @functools.wraps(leave)
    def observed_exit(self: Any, *args: Any) -> Any:
        result = leave(self, *args)
        if self._stepwhy_number is not None:
            calls.end(self._stepwhy_number, failed=bool(args) and args[0] is not None)
        return result

    annotation.__init__ = init
    annotation.__enter__ = observed_enter
    annotation.__exit__ = observed_exit
