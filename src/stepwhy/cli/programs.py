"""Programs to measure: scripts, commands, stored runs and traces."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwhy.base.errors import InputError, MeasurementError, NotFoundError
from stepwhy.base.redaction.commands import redact_command
from stepwhy.engine import explain
from stepwhy.engine.stored_runs import stored_runs
from stepwhy.measure import Program
from stepwhy.read.inputs.remote.addresses import shown
from stepwhy.record import command_for_script, launch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.base.redaction import Redactor
    from stepwhy.result import Result

COMPARE_FILE = "compare.json"
OUTPUT_FILE = "output.log"


class Source(msgspec.Struct, frozen=True):
    """A program or recording named on the command line.

    Args:
        label: Its name in reports.
        command: Command to run; () for a recording.
        stored: Paths of stored runs or traces; () for a program.
    """

    label: str
    command: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()


def source(name: str, redactor: Redactor) -> Source:
    """Interpret one argument: a script, a quoted command, or a stored run or trace.

    Args:
        name: 'train.py', 'python train.py --fast', a run directory, a folder of `stepwhy bench`,
            a trace file, or the address of one.
        redactor: Redactor for the label; secrets of a command are always redacted.

    Raises:
        NotFoundError: If it is none of these.
    """
    path = Path(name)
    if path.is_file() and path.suffix == ".py":
        return Source(redactor.text(path.name), command=tuple(command_for_script(name, ())))
    if path.exists():
        return Source(redactor.text(path.name or name), stored=tuple(stored_runs(path)))
    words = _split(name)
    if "://" in name and len(words) == 1:
        return Source(redactor.text(shown(name)), stored=(name,))
    if len(words) < 2:
        raise NotFoundError(
            f"{redactor.text(shown(name))} is neither a script, a run directory, a trace, nor a "
            "command with arguments",
            "Check the path, or put the whole command in quotes",
        )
    # A command to run; 'train.py --fast' uses this Python interpreter.
    runnable = (
        tuple(command_for_script(words[0], words[1:]))
        if words[0].endswith(".py") and Path(words[0]).is_file()
        else tuple(words)
    )
    return Source(" ".join(redact_command(words)), command=runnable)


def _split(name: str) -> list[str]:
    """Split a command like a shell; a single word if a quote is not closed.

    In a path of Windows, backslashes separate folders, and escape nothing.
    """
    lexer = shlex.shlex(name, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    if ":\\" in name:
        lexer.escape = ""
    try:
        return list(lexer)
    except ValueError:
        return [name]


def program(
    label: str,
    command: Sequence[str],
    folder: Path,
    base: Path,
    explain_run: Callable[[Sequence[str]], Result] = explain,
) -> Program:
    """A command that can be run repeatedly, each time with a run directory of its own.

    Args:
        label: Its name in reports.
        command: Command to run.
        folder: Folder for its run directories.
        base: Folder that recorded paths are relative to.
        explain_run: Explains a run directory.

    A run that was asked to end, by Ctrl-C or a signal to this process, raises KeyboardInterrupt.
    """

    def run(number: int) -> tuple[str, Result]:
        run_dir = folder / f"{number:03d}"
        run_dir.mkdir(parents=True)
        output = run_dir / OUTPUT_FILE
        ended = launch(command, run_dir, output=output)
        if ended.asked_to_end_s is not None or ended.code == -signal.SIGINT:
            raise KeyboardInterrupt  # it was meant for all runs, not for this one alone
        if ended.exit_code:
            raise MeasurementError(
                f"{label} ended with exit code {ended.exit_code}", f"See its output in {output}"
            )
        try:
            return str(run_dir.relative_to(base)), explain_run([str(run_dir)])
        except InputError as error:
            raise MeasurementError(
                f"{label} cannot be measured: {error.what}", error.todo
            ) from error

    return Program(label, run)
