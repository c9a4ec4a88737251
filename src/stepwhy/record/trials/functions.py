"""Compile functions of the program that the user names, or compile them for more inputs."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from stepwhy.record.trials.reports import Trial

_DEBUGGING = ("jax_debug_nans", "jax_debug_infs", "jax_disable_jit", "jax_check_tracer_leaks")

# Methods of what `tf.function` and `jax.jit` return.
_OF_COMPILED = ("get_concrete_function", "lower")

_METHOD = (
    "which is a method: compiled, it would keep the attributes of its object as they were; move "
    "the computation into a function outside of the class"
)

# Instructions of Python that set what outlives a call.
_SETTING = ("STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL")


def reduce_retracing(module: Any, trial: Trial) -> None:
    """Let each `tf.function` generalise the shapes that it has seen."""
    original = module.Function.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        trial.guard(lambda: generalise(self))

    def generalise(function: Any) -> None:
        if function._reduce_retracing:
            return
        if getattr(function, "input_signature", None) is not None:
            trial.left("a tf.function with an input signature, which is traced once")
            return
        function._reduce_retracing = True
        trial.changed("tf.function: reduce_retracing=True")

    module.Function.__init__ = init


def make_tf_function(module: Any, trial: Trial) -> None:
    """Make the function that `value` names a `tf.function`, at the first gradient tape."""

    def compiled(function: Any) -> Any:
        import tensorflow as tf

        return tf.function(function, reduce_retracing=True)

    _at_first_call([(module.GradientTape, "__init__")], lambda: _replace(trial, compiled))


def make_jitted(module: Any, trial: Trial) -> None:
    """Make the function that `value` names a jitted one, at the first gradient."""

    def compiled(function: Any) -> Any:
        import jax

        return jax.jit(function)

    names = ("value_and_grad", "grad")
    _at_first_call(
        [(module, name) for name in names], lambda: _replace(trial, compiled, methods=False)
    )
    for name in names:
        _copy_to_package("jax", name, getattr(module, name))


def _copy_to_package(package: str, name: str, function: Any) -> None:
    """Replace the copy of a function that a package offers, once it is imported."""
    from stepwhy.record.core import import_hooks

    import_hooks.after_import(package, lambda module: setattr(module, name, function))


def _at_first_call(places: list[tuple[Any, str]], replace: Callable[[], object]) -> None:
    """Compile the named function when one of some functions of the framework is first called.

    By then the program has defined it. The call that is running finishes as it was.
    """
    done: list[bool] = []

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def first(*args: Any, **kwargs: Any) -> Any:
            if not done:
                done.append(True)
                replace()
            return original(*args, **kwargs)

        return first

    for place, attribute in places:
        setattr(place, attribute, wrap(getattr(place, attribute)))


def _replace(trial: Trial, compiled: Callable[[Any], Any], *, methods: bool = True) -> None:
    """Replace the named function: 'train_step', 'Trainer.train_step' or 'module:train_step'."""
    trial.guard(lambda: _replace_named(trial, trial.spec.value, compiled, methods))


def _replace_named(trial: Trial, name: str, compiled: Callable[[Any], Any], methods: bool) -> None:
    module, _, path = name.rpartition(":")
    place: Any = sys.modules.get(module or "__main__")
    *owners, last = path.split(".")
    for owner in owners:
        place = getattr(place, owner, None)
    function = vars(place).get(last) if place is not None else None
    why = _why_not(function, methods=methods)
    if why:
        trial.left(f"{name}, {why}" if function is not None else f"{why} {name!r} in the program")
        return
    setattr(place, last, _or_original(function, compiled(function), name, trial))
    trial.changed(f"{name}: compiled")


def _why_not(function: Any, *, methods: bool) -> str:
    """Why a function is not compiled; '' if it is."""
    if function is None:
        return "there is no function"
    if any(hasattr(function, method) for method in _OF_COMPILED):
        return "which is compiled already"
    if not isinstance(function, FunctionType):
        return "which is no plain function"
    plain = inspect.unwrap(function)
    is_method = "." in plain.__qualname__.rpartition("<locals>.")[2]
    if not methods and (is_method or next(iter(inspect.signature(plain).parameters), "") == "self"):
        return _METHOD
    if _sets_state(plain.__code__):
        return "which sets attributes or global variables: compiled, it does so only when traced"
    return ""


def _sets_state(code: CodeType) -> bool:
    """Whether a function itself sets attributes or global variables."""
    return any(at.opname in _SETTING for at in dis.get_instructions(code)) or any(
        _sets_state(inner) for inner in code.co_consts if isinstance(inner, CodeType)
    )


def _or_original(original: Any, compiled: Any, name: str, trial: Trial) -> Any:
    """A compiled function, until a call of it fails; from then on the original one."""
    failed: list[bool] = []

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not failed:
            try:
                return compiled(*args, **kwargs)
            except Exception as error:
                failed.append(True)
                trial.refuse(f"{name} cannot be compiled ({type(error).__name__})")
        return original(*args, **kwargs)

    return call


def debug_nothing(module: Any, trial: Trial) -> None:
    """Ignore settings of JAX that check each operation or run without compilation."""
    config = module.config
    original = config.update

    def update(name: str, value: Any) -> None:
        if name in _DEBUGGING and value:
            trial.changed(f"jax.config.{name}: off")
            return
        original(name, value)

    for name in _DEBUGGING:
        if getattr(config, name, False):
            original(name, False)
            trial.changed(f"jax.config.{name}: off")
    type(config).update = lambda _, name, value: update(name, value)
