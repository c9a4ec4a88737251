"""The pytest plugin, which is loaded automatically where stepwhy is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from stepwhy.testing.checks import StepTime
from stepwhy.testing.programs import words_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


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
