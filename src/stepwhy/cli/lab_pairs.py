"""The pairs of programs in the lab folder."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from stepwhy.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.bench import Program
    from stepwhy.findings import Result

PAIR_FILE = "pair.toml"


class Pair(msgspec.Struct, frozen=True):
    """A program with a planted fault, and its healthy twin.

    Args:
        name: Its name, such as 'tf1/towers'.
        folder: Folder of its programs.
        title: Its title, in one line.
        diagnosis: Id of the diagnosis of the planted fault.
        faulty: The faulty program and its arguments.
        fixed: The fixed program and its arguments.
        sizes: Further arguments of both, by name of a size; 'small' is the default.
        page: Page about the problem, relative to the documentation; '' for none.
    """

    name: str
    folder: Path
    title: str
    diagnosis: str
    faulty: tuple[str, ...]
    fixed: tuple[str, ...]
    sizes: dict[str, tuple[str, ...]]
    page: str


def lab_folder() -> Path:
    """Folder of the lab, in the installed package or in a clone of the repository.

    Raises:
        NotFoundError: If it is not installed.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_lab", package.parents[1] / "lab"):
        if folder.is_dir():
            return folder
    raise NotFoundError("the lab is not installed", "Run from a clone of the repository")


def pairs() -> list[Pair]:
    """All pairs, sorted by name."""
    root = lab_folder()
    return [_pair(file, root) for file in sorted(root.glob(f"*/*/{PAIR_FILE}"))]


def find(name: str) -> Pair:
    """Find a pair by its name; the framework may be left out if that is unambiguous.

    Raises:
        NotFoundError: If there is none, or if there are several.
    """
    every = pairs()
    found = [p for p in every if name in (p.name, p.name.rpartition("/")[2])]
    if len(found) == 1:
        return found[0]
    names = ", ".join(p.name for p in found or every)
    kind = "several pairs are" if found else "no pair is"
    raise NotFoundError(f"{kind} called {name}", f"Choose one of: {names}")


def programs_of(
    pair: Pair,
    size: str,
    folder: Path,
    explain_faulty: Callable[[Sequence[str]], Result] | None = None,
) -> list[Program]:
    """The faulty and the fixed program of a pair, ready to run.

    Args:
        pair: The pair.
        size: A name in `Pair.sizes`.
        folder: Folder for their runs.
        explain_faulty: Explains a run of the faulty program; None for the usual way.

    Raises:
        click.BadParameter: If the pair has no such size.
    """
    from stepwhy.cli.programs import program
    from stepwhy.engine import explain

    if size not in pair.sizes:
        raise click.BadParameter(f"{pair.name} has the sizes {', '.join(pair.sizes)}")
    return [
        program(
            label,
            [sys.executable, str(pair.folder / words[0]), *words[1:], *pair.sizes[size]],
            folder / label,
            folder,
            explain_run,
        )
        for label, words, explain_run in (
            ("faulty", pair.faulty, explain_faulty or explain),
            ("fixed", pair.fixed, explain),
        )
    ]


def _pair(file: Path, root: Path) -> Pair:
    about = tomllib.loads(file.read_text(encoding="utf-8"))
    return Pair(
        name=file.parent.relative_to(root).as_posix(),
        folder=file.parent,
        title=about["title"],
        diagnosis=about["diagnosis"],
        faulty=tuple(about.get("faulty", ["faulty.py"])),
        fixed=tuple(about.get("fixed", ["fixed.py"])),
        sizes={name: tuple(words) for name, words in about.get("sizes", {"small": []}).items()},
        page=about.get("page", ""),
    )
