"""The pytest plugin, which is loaded automatically where stepwhy is installed."""

from __future__ import annotations

import inspect
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.testing.checks import StepTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


@pytest.fixture
def step_time(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., StepTime]:
    """Measure the step time of a training program, and check it.

    Call it with a script, a command or a function of a test module, and then a check::

        def test_training_step(step_time):
            step_time("train.py", "--steps", "60").at_most_ms(120)

    Nothing runs before a check asks for it. All programs run in processes of their own.
    """

    def measured(
        program: str | os.PathLike[str] | Callable[[], Any],
        *arguments: str | float,
        repeats: int | None = None,
        budget: str = "3m",
        allow_busy: bool = False,
    ) -> StepTime:
        """A program to measure.

        Args:
            program: A script, the program of a command, or a module-level function that runs the
                training and takes no argument.
            arguments: Arguments of the script or command.
            repeats: Number of valid runs; None for as many as the question needs.
            budget: Time for the runs, such as '90s', if `repeats` is None.
            allow_busy: Whether runs count while other programs keep the machine busy.
        """
        options = ["--budget", budget, *(["--allow-busy"] if allow_busy else [])]
        options += ["--repeats", str(repeats)] if repeats else []
        folder = tmp_path_factory.mktemp(f"{request.node.name[:40]}-steps")
        return StepTime(words_of(program, arguments), options, folder)

    return measured


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
