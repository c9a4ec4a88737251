"""Find out which Python a command starts, and with which options, without running it."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Which = Callable[[str], str | None]

_INTERPRETER = re.compile(r"(python|pypy)[\d.]*(\.exe)?$")
# Options of Python whose value is a word of its own.
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_HEAD_BYTES = 1024
# Written by installers if a path is too long for a shebang or contains a space.
# Source: distlib/scripts.py, `_build_shebang`.
_EXEC_TRICK = re.compile(r"""^'''exec' (?P<quote>["']?)(?P<python>.+?)(?P=quote) "\$0" "\$@"$""")


@dataclass(frozen=True, slots=True)
class Target:
    """The program that a command starts, and its Python.

    Args:
        command: Program and arguments.
        interpreter: Path of the Python that it starts; None if unknown.
        flags: Options of Python, before the script.
        script: The script that it runs; None if none is named.
        wrapper: The program before the Python, such as 'mpirun'; empty for none.
        exists: Whether the program can be found at all.
    """

    command: tuple[str, ...]
    interpreter: str | None
    flags: tuple[str, ...] = ()
    script: str | None = None
    wrapper: str = ""
    exists: bool = True


def target_of(command: Sequence[str], which: Which = shutil.which) -> Target:
    """Find out which Python a command starts.

    Args:
        command: Program and arguments; empty for this interpreter.
        which: Finds a program on the path.
    """
    words = tuple(command)
    if not words:
        return Target(words, sys.executable)
    program = which(words[0])
    if program is None:
        return Target(words, None, exists=False)
    if _is_python(words[0]):
        flags, script = _split(words[1:])
        return Target(words, program, flags, script)
    started = _started_by(Path(program))
    if started:
        return Target(words, which(started[0]), _split(started[1:])[0])
    return _behind_wrapper(words, which)


def _is_python(word: str) -> bool:
    return _INTERPRETER.fullmatch(Path(word).name) is not None


def _behind_wrapper(words: tuple[str, ...], which: Which) -> Target:
    """A Python that another program starts: `mpirun -np 2 python train.py`."""
    place = next((i for i, word in enumerate(words) if _is_python(word)), None)
    if place is None:
        return Target(words, None)
    flags, script = _split(words[place + 1 :])
    return Target(words, which(words[place]), flags, script, wrapper=Path(words[0]).name)


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], str | None]:
    """Python's own options, and the script that follows unless it is a module or code."""
    flags: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith(("-c", "-m")) or word == "-":
            return tuple(flags), None
        if not word.startswith("-"):
            return tuple(flags), word
        flags.append(word)
        if word in _WITH_VALUE:
            flags += itertools.islice(rest, 1)
    return tuple(flags), None


def _started_by(program: Path) -> list[str]:
    """The Python in the first line of a script, with its options; empty if there is none."""
    try:
        with program.open("rb") as file:
            lines = file.read(_HEAD_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    if not lines or not lines[0].startswith("#!"):
        return []
    trick = _EXEC_TRICK.match(lines[1]) if len(lines) > 1 else None
    words = [trick["python"]] if trick else _words(lines[0][2:])
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if word != "-S"]
    return words if words and _is_python(words[0]) else []


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return []
