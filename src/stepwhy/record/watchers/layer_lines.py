"""The lines at which the program declares its Keras layers and metrics.

A functional or sequential model calls its layers itself, and `fit` its metrics, so that all of them
have one line of the program in their stack: that of `fit`. The line of each is that of its
declaration.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import weakref
from pathlib import PurePath
from typing import TYPE_CHECKING

from stepwhy.record.core.user_code import is_users_file, user_line
from stepwhy.record.core.wrappers import wraps

if TYPE_CHECKING:
    from types import CodeType, FrameType, ModuleType
    from typing import Any

# Files of Keras whose code calls the layers of a declared model.
_RUNS_MODELS = (
    "keras/src/ops/function.py",
    "keras/src/models/sequential.py",
    "keras/src/engine/functional.py",
    "keras/src/engine/sequential.py",
)
# Functions of a layer in which it makes others.
_BUILDING = frozenset({"build", "call", "__call__"})

_lines: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
# Where metrics of Keras are declared, '' for those of Keras itself, by the code that updates them.
_metrics: dict[CodeType, dict[str, None]] = {}


def observe_layers(module: ModuleType, _: str) -> None:
    """Note where layers are declared.

    Args:
        module: `keras.src.ops.operation`.
    """
    original = module.Operation.__init__

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            line = _line_of(sys._getframe(1))
            if line:
                _lines[self] = line

    module.Operation.__init__ = init


def observe_metrics(module: ModuleType, _: str) -> None:
    """Note where metrics are declared.

    Args:
        module: `keras.src.metrics.metric`.
    """
    original = module.Metric.__init__

    @wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            at: FrameType | None = sys._getframe(1)
            while at is not None and at.f_code.co_name == "__init__":
                at = at.f_back
            # Keras makes metrics of its own, and those that are given by name.
            declared = at is not None and is_users_file(at.f_code.co_filename)
            code = inspect.unwrap(type(self).update_state).__code__
            place = user_line(at).partition(": ")[0]
            line = f"{place}: {type(self).__name__}.update_state" if declared else ""
            _metrics.setdefault(code, {})[line] = None

    module.Metric.__init__ = init


def metric_at(file: str, number: int) -> str:
    """The line that declares the metric of Keras whose update a line of Keras is part of.

    Returns:
        Like 'train.py(41): AUC.update_state', of several metrics of one class the first; '' for
        any other line, and if metrics of other classes are updated by the same code.
    """
    for code, lines in _metrics.items():
        if code.co_filename == file and code.co_firstlineno <= number <= _last_line(code):
            kinds = {line.rpartition(": ")[2] for line in lines}
            return next(iter(lines)) if len(kinds) == 1 else ""
    return ""


@functools.cache
def _last_line(code: CodeType) -> int:
    return max(line for _, _, line in code.co_lines() if line is not None)


def _line_of(frame: FrameType | None) -> str:
    """The program's line in a stack; '' for a layer that another one makes when it is called."""
    at = frame
    while at is not None and not is_users_file(at.f_code.co_filename):
        if at.f_code.co_name in _BUILDING:
            return ""
        at = at.f_back
    return user_line(at) if at is not None else ""


def declared_at(layer: Any) -> str:
    """The line at which a layer was declared, '' if unknown."""
    return _lines.get(layer, "")


def runs_models(file: str) -> bool:
    """Whether code of a file calls the layers of a declared model."""
    return PurePath(file).as_posix().endswith(_RUNS_MODELS)
