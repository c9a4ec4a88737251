"""Keep a compiler of Python code, such as Dynamo of PyTorch, away from the observer's own code.

Dynamo compiles each function that is called while a compiled one runs, unless it is told not to:
also those that observe. It would take seconds, count as compilations of the training, and break
what cannot be compiled.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])
    Exclude = Callable[[CodeType, bool], None]

_marked: list[tuple[CodeType, bool]] = []
_excludes: list[Exclude] = []


def never_compiled(function: Function) -> Function:
    """Mark a function of the observer: neither it nor what it calls is compiled."""
    return _mark(function, True)


def wrapper(function: Function) -> Function:
    """Mark a wrapper: it is not compiled itself, but what it calls is as without it."""
    return _mark(function, False)


def _mark(function: Function, deep: bool) -> Function:
    code = function.__code__
    # Closures share their code. Equal code of another function is another object.
    if not any(code is known for known, _ in _marked):
        _marked.append((code, deep))
        for exclude in _excludes:
            exclude(code, deep)
    return function


def exclude_by(exclude: Exclude) -> None:
    """Exclude all marked functions, now and later.

    Args:
        exclude: Tells a compiler to leave out a function, and if true also all that it calls.
    """
    _excludes.append(exclude)
    for code, deep in _marked:
        exclude(code, deep)
