"""Compile the steps of Keras models, although the program asks for eager ones."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.trials.reports import Trial


def compile_steps(module: Any, trial: Trial) -> None:
    """Ignore `run_eagerly` of `Model.compile`."""
    _change_compile(module, trial, "run_eagerly", wanted=False)


def jit_steps(module: Any, trial: Trial) -> None:
    """Let XLA compile the steps."""
    _change_compile(module, trial, "jit_compile", wanted=True)


def _change_compile(module: Any, trial: Trial, name: str, *, wanted: bool) -> None:
    original = module.Trainer.compile
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile_(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            given = dict(signature.bind(self, *args, **kwargs).arguments)
            before = given.get(name, signature.parameters[name].default)
        except (TypeError, KeyError):
            return original(self, *args, **kwargs)
        if before is wanted:
            trial.left(f"a model that is compiled with {name}={wanted} already")
            return original(self, *args, **kwargs)
        trial.changed(f"Model.compile: {name}={wanted} instead of {before}")
        return original(**{**given, name: wanted})

    module.Trainer.compile = compile_


def run_functions_as_graphs(module: Any, trial: Trial) -> None:
    """Ignore `tf.config.run_functions_eagerly(True)`."""
    original = module.run_functions_eagerly

    @functools.wraps(original)
    def run_functions_eagerly(run_eagerly: Any) -> None:
        if run_eagerly:
            trial.changed("tf.config.run_functions_eagerly(False)")
        original(False)

    module.run_functions_eagerly = run_functions_eagerly
