"""Foreign training programs whose number of steps is known.

A step is counted as in tests/matrix: PyTorch's n optimizer steps bound n - 1 steps, a batch of
Keras' `fit` is one, and of JAX the calls of the function that trains are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Program:
    """One way to start a training program.

    Args:
        script: Its file.
        arguments: What follows it on the command line.
        environment: Variables to set.
        ranks: Processes that `torchrun` starts; 0 where Python starts the script itself.
        steps: Steps that each process makes; None where that is not known.
    """

    script: str
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    ranks: int = 0
    steps: int | None = None

    @property
    def name(self) -> str:
        """The words that a person would type."""
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        return " ".join([*variables, self.script, *self.arguments])


def _keras(*arguments: str, backend: str = "") -> Program:
    environment = {"KERAS_BACKEND": backend} if backend else {}
    return Program("keras_cb.py", arguments, environment, steps=180)


KNOWN = (
    Program("hf_trainer.py", steps=59),
    Program("lightning_loop.py", steps=299),
    Program("ddp.py", ranks=2, steps=149),
    Program("amp.py", steps=99),
    Program("workers.py", ("fork",), steps=95),
    Program("workers.py", ("spawn",), steps=95),
    Program("flax_loop.py", steps=400),
    _keras(),
    _keras("tb"),
    _keras("eager"),
    _keras(backend="jax"),
    _keras(backend="torch"),
)


def programs(folder: Path) -> list[Program]:
    """The programs of a folder: the known ones, and its other scripts without arguments."""
    scripts = sorted(path.name for path in folder.glob("*.py"))
    known = {program.script for program in KNOWN}
    found = [program for program in KNOWN if program.script in scripts]
    return [*found, *(Program(script) for script in scripts if script not in known)]
