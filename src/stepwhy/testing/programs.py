"""Commands of the programs that tests measure."""

from __future__ import annotations

import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def words_of(
    program: str | os.PathLike[str] | Callable[[], Any], arguments: Iterable[object] = ()
) -> list[str]:
    """The command that runs a program.

    Args:
        program: A script, the program of a command, or a function.
        arguments: Arguments of the script or command.

    Raises:
        TypeError: It is a function that no other process can call.
    """
    if callable(program):
        return _call(program, list(arguments))
    words = [os.fspath(program), *map(str, arguments)]
    return [sys.executable, *words] if words[0].endswith(".py") else words


def _call(function: Callable[[], Any], arguments: list[object]) -> list[str]:
    """The command that calls a function in a process of its own."""
    name = getattr(function, "__qualname__", "")
    if arguments or not inspect.isfunction(function) or not name.isidentifier():
        raise TypeError(
            f"{name or function!r} cannot be called in another process: step_time() takes a "
            "function at the top of a module, without arguments"
        )
    file = inspect.getsourcefile(function) or ""
    return [sys.executable, "-m", "stepwhy.testing.call", file, name]


__all__ = ["words_of"]
