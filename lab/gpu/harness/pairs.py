"""The pairs of programs, as commands."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1]
SIDES = ("faulty", "fixed")


@dataclass(frozen=True)
class Pair:
    """A program with a planted fault, and its healthy twin.

    Args:
        name: Name of its folder.
        diagnosis: Id of the diagnosis of the fault; '' if none should report a cost.
        words: For 'faulty' and 'fixed', the program and its arguments.
        variables: For both, environment variables.
        tiny: Further arguments of both, for a processor.
        tolerance: Largest relative difference of their losses.
        share: Planned share of the fault in a step, lowest and highest.
    """

    name: str
    diagnosis: str
    words: dict[str, tuple[str, ...]]
    variables: dict[str, dict[str, str]]
    tiny: tuple[str, ...]
    tolerance: float = 1e-3
    share: tuple[float, float] = (0.0, 1.0)
    also: tuple[str, ...] = field(default=())

    @property
    def uses_jax(self) -> bool:
        return self.name.startswith("jax_")

    def command(self, side: str, sizes: tuple[str, ...]) -> list[str]:
        """Command of one of its programs.

        Args:
            side: 'faulty' or 'fixed'.
            sizes: Arguments that scale both; the last value of an option counts.
        """
        program, *words = self.words[side]
        path = (FOLDER / self.name / program).resolve()
        return [sys.executable, str(path), *sizes, *words]


def pairs() -> dict[str, Pair]:
    """All pairs by name."""
    return {file.parent.name: _pair(file) for file in sorted(FOLDER.glob("*/pair.toml"))}


def _pair(file: Path) -> Pair:
    about = tomllib.loads(file.read_text(encoding="utf-8"))
    return Pair(
        name=file.parent.name,
        diagnosis=about["diagnosis"],
        words={side: tuple(about[side]) for side in SIDES},
        variables={side: about.get(f"{side}_variables", {}) for side in SIDES},
        tiny=tuple(about["sizes"]["tiny"]),
        tolerance=about.get("tolerance", 1e-3),
        share=tuple(about["share"]),
        also=tuple(about.get("also", ())),
    )


def printed(output: str) -> dict[str, list[float]]:
    """What a program printed: its first and last loss, and the time of a step in each block, ms.

    Args:
        output: Its standard output.
    """
    losses = re.search(r"^loss (\S+) to (\S+)$", output, re.MULTILINE)
    times = re.search(r"^ms per step (.+)$", output, re.MULTILINE)
    return {
        "losses": [float(each) for each in losses.groups()] if losses else [],
        "step_ms": [float(each) for each in times[1].split()] if times else [],
    }
