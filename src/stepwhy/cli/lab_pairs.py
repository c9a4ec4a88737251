"""The pairs of programs in the lab folder."""

from __future__ import annotations

import sys
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from stepwhy.base.errors import NotFoundError
from stepwhy.result import current_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.measure import Program
    from stepwhy.result import Result

PAIR_FILE = "pair.toml"
GPU_PREFIX = "gpu/"


class Pair(msgspec.Struct, frozen=True):
    """A program with a planted fault, and its healthy twin.

    Args:
        name: Its name, such as 'tf1/towers'.
        folder: Folder of its programs.
        title: Its title, in one line.
        diagnosis: Id of the diagnosis of the planted fault; '' if none should find anything.
        faulty: The faulty program and its arguments.
        fixed: The fixed program and its arguments.
        sizes: Further arguments of both, by name of a size; 'small' is the default.
        page: Page about the problem, relative to the documentation; '' for none.
        variables: Environment variables of the faulty and of the fixed program, as NAME=VALUE.
    """

    name: str
    folder: Path
    title: str
    diagnosis: str
    faulty: tuple[str, ...]
    fixed: tuple[str, ...]
    sizes: dict[str, tuple[str, ...]]
    page: str
    variables: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


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


def pairs(*, gpu: bool = False) -> list[Pair]:
    """The pairs, sorted by name.

    Args:
        gpu: Whether to include those whose fault shows on a GPU only.
    """
    root = lab_folder()
    every = [_pair(file, root) for file in sorted(root.glob(f"*/*/{PAIR_FILE}"))]
    return [pair for pair in every if gpu or not pair.name.startswith(GPU_PREFIX)]


def find(name: str) -> Pair:
    """Find a pair by its name; the framework may be left out if that is unambiguous.

    Raises:
        NotFoundError: If there is none, or if there are several.
    """
    every = pairs(gpu=True)
    found = [p for p in every if name in (p.name, p.name.rpartition("/")[2])]
    if len(found) == 1:
        return found[0]
    if found:
        names = " or ".join(p.name for p in found)
        raise NotFoundError(f"several pairs are called {name}", f"Choose {names}")
    known = {name: p.name for p in every for name in (p.name, p.name.rpartition("/")[2])}
    near = [f"Did you mean {known[like]}? " for like in get_close_matches(name, known, 1)]
    raise NotFoundError(
        f"no pair is called {name}", f"{''.join(near)}'stepwhy lab list' shows all pairs"
    )


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
            [
                *(["env", *variables] if variables else []),
                *(sys.executable, str((pair.folder / words[0]).resolve())),
                *words[1:],
                *pair.sizes[size],
            ],
            folder / label,
            folder,
            explain_run,
        )
        for label, words, variables, explain_run in (
            ("faulty", pair.faulty, pair.variables[0], explain_faulty or explain),
            ("fixed", pair.fixed, pair.variables[1], explain),
        )
    ]


def _pair(file: Path, root: Path) -> Pair:
    about = tomllib.loads(file.read_text(encoding="utf-8"))
    return Pair(
        name=file.parent.relative_to(root).as_posix(),
        folder=file.parent,
        title=about["title"],
        diagnosis=current_id(about["diagnosis"]),
        faulty=tuple(about.get("faulty", ["faulty.py"])),
        fixed=tuple(about.get("fixed", ["fixed.py"])),
        sizes={name: tuple(words) for name, words in about.get("sizes", {"small": []}).items()},
        page=about.get("page", ""),
        variables=(_variables(about, "faulty"), _variables(about, "fixed")),
    )


def _variables(about: dict[str, Any], side: str) -> tuple[str, ...]:
    named = about.get(f"{side}_variables", {})
    return tuple(f"{name}={value}" for name, value in named.items())
