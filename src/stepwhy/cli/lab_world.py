"""Programs whose authors did not know the diagnoses, for `stepwhy lab grade --world`."""

from __future__ import annotations

import ast
import sys
import tomllib
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import InputError, NotFoundError, StepwhyError
from stepwhy.cli.lab_pairs import lab_folder
from stepwhy.measure import Truth, grade_program
from stepwhy.result import WorldGrade, current_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from stepwhy.result import GradedProgram, Result

PROGRAM_FILE = "program.toml"
WORLD_GRADE_FILE = "world-grade.json"
HEALTHY = ("healthy.py",)
PAIR = ("slow.py", "fixed.py")


class Declared(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `program.toml` says about a program of `lab/world`.

    Args:
        framework: 'pytorch', 'tf1', 'tf2', 'keras' or 'jax'.
        field: What is trained, in a word or two.
        half: 'tune': diagnoses may be improved with it; 'locked': only graded.
        mistake: Why the slow version is slow, in one sentence; '' for a healthy program.
        lines: Lines where the time goes, as 'file:number' or 'file:first-last'.
        causes: Ids of the diagnoses that name the mistake; () if none does.
        gain: Measured gain of the fix, as a share of the slow step; None if not measured.
        proved: Ids of diagnoses whose advice was measured to make the fixed or healthy version
            faster as well.
        source: Address of a public report of such a mistake; '' for none.
    """

    framework: str
    field: str
    half: str
    mistake: str = ""
    lines: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    gain: float | None = None
    proved: tuple[str, ...] = ()
    source: str = ""


class WorldProgram(msgspec.Struct, frozen=True):
    """A program of `lab/world`.

    Args:
        name: Its name, such as 'twotower'.
        folder: Folder of its versions.
        declared: What is known about it.
    """

    name: str
    folder: Path
    declared: Declared

    @property
    def versions(self) -> tuple[str, ...]:
        """File names: the slow and the fixed version, or the healthy one."""
        return PAIR if self.declared.mistake else HEALTHY


def world_programs() -> list[WorldProgram]:
    """The programs, sorted by name.

    Raises:
        InputError: The folder of one holds other versions than its declaration says.
    """
    files = sorted((lab_folder() / "world").glob(f"*/{PROGRAM_FILE}"))
    found = [
        WorldProgram(
            file.parent.name,
            file.parent,
            msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Declared),
        )
        for file in files
    ]
    for program in found:
        versions = {v for v in (*PAIR, *HEALTHY) if (program.folder / v).is_file()}
        if versions != set(program.versions):
            raise InputError(
                f"lab/world/{program.name} holds {', '.join(sorted(versions)) or 'no program'}, "
                f"and not {' and '.join(program.versions)}",
                "Give each program a folder of its own",
            )
    return found


def chosen_programs(names: Sequence[str], half: str | None) -> list[WorldProgram]:
    """The programs with these names, or all; only those of one half if it is named.

    Raises:
        NotFoundError: If there is no program of such a name in the half, or none at all.
    """
    every = [p for p in world_programs() if half in {None, p.declared.half}]
    known = {program.name: program for program in every}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise NotFoundError(
            f"no program of lab/world is called {unknown[0]}",
            f"Choose one of: {', '.join(known)}",
        )
    if not every:
        raise NotFoundError("the lab has no programs of the world", "Install the whole lab")
    return [known[name] for name in names] or every


def truth_of(program: WorldProgram) -> Truth:
    """What its author said, with each line by itself; each stands for its whole statement."""
    declared = program.declared
    lines = {line for text in declared.lines for line in _lines(text)}
    for file in {file for file, _ in lines}:
        spans = _statements(program.folder / file)
        same = [span for span in spans if any((file, number) in lines for number in span)]
        lines |= {(file, number) for span in same for number in span}
    return Truth(
        name=program.name,
        half="locked" if declared.half == "locked" else "tune",
        causes=tuple(map(current_id, declared.causes)),
        lines=frozenset(lines),
        gain=declared.gain,
        proved=frozenset(map(current_id, declared.proved)),
        healthy=not declared.mistake,
    )


def world_grades(
    programs: Sequence[WorldProgram],
    folder: Path,
    progress: Callable[[str, int, int], None] | None,
) -> Iterator[GradedProgram]:
    """Run each version of each program once, one after another, and grade the reports.

    Args:
        programs: The programs.
        folder: Folder for the runs.
        progress: Called before each program with (its name, programs done, programs in all).
    """
    for done, program in enumerate(programs):
        if progress:
            progress(program.name, done, len(programs))
        results: dict[str, Result] = {}
        errors = []
        for version in program.versions:
            try:
                results[version] = _run(program, version, folder)
            except StepwhyError as failure:
                errors.append(failure.what)
            except Exception as fault:  # noqa: BLE001 - a fault of stepwhy is part of its grade
                errors.append(f"no report of {version}: {type(fault).__name__}: {fault}")
        yield grade_program(
            truth_of(program),
            results.get(PAIR[0]),
            results.get(program.versions[-1]),
            day=datetime.now().astimezone().date(),
            error="; ".join(errors),
        )


def stored_world(place: Path) -> tuple[GradedProgram, ...]:
    """The grades that the lab holds; () for none."""
    if not place.is_file():
        return ()
    return msgspec.json.decode(place.read_bytes(), type=WorldGrade).programs


def _run(world: WorldProgram, version: str, folder: Path) -> Result:
    from stepwhy.cli.programs import program

    label = version.removesuffix(".py")
    command = [sys.executable, str((world.folder / version).resolve())]
    return program(label, command, folder / world.name / label, folder).run(0)[1]


def _statements(path: Path) -> list[range]:
    """The lines of each statement that contains no other one.

    Python says of a call over several lines where it begins, and a reader where its argument is.
    """
    nodes = [each for each in ast.walk(ast.parse(path.read_bytes())) if isinstance(each, ast.stmt)]
    return [
        range(each.lineno, (each.end_lineno or each.lineno) + 1)
        for each in nodes
        if not any(
            isinstance(inner, ast.stmt | ast.ExceptHandler) for inner in ast.iter_child_nodes(each)
        )
    ]


def _lines(text: str) -> Iterator[tuple[str, int]]:
    """'slow.py:7-9' as ('slow.py', 7), ('slow.py', 8), ('slow.py', 9)."""
    file, _, span = text.rpartition(":")
    first, _, last = span.partition("-")
    return ((file, number) for number in range(int(first), int(last or first) + 1))
