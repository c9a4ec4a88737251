"""What `bench` and `compare` measure: scripts, commands, stored runs and traces."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepwhy.bench import Program, sample
from stepwhy.capture import command_for_script, launch
from stepwhy.engine import explain
from stepwhy.errors import InputError, MeasurementError, NotAFileError, NotFoundError
from stepwhy.inputs.remote.addresses import shown
from stepwhy.inputs.side_files import MOST_RECORD_BYTES, read_side_file
from stepwhy.inputs.within import check_within
from stepwhy.redaction.commands import redact_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.bench import Sample
    from stepwhy.findings import Result
    from stepwhy.redaction import Redactor

BENCH_FILE = "bench.json"
COMPARE_FILE = "compare.json"
OUTPUT_FILE = "output.log"


class Source(msgspec.Struct, frozen=True):
    """What a person named.

    Args:
        label: Its name in reports.
        command: What to run; () when it is stored.
        stored: The stored runs or traces; () when it is to be run.
    """

    label: str
    command: tuple[str, ...] = ()
    stored: tuple[str, ...] = ()


def source(name: str, redactor: Redactor) -> Source:
    """What a person means by one word: a script, a quoted command, or something stored.

    Args:
        name: 'train.py', 'python train.py --fast', a run directory, a folder of `stepwhy bench`,
            a trace file, or the address of one.
        redactor: What labels are shown through; secrets of a command never stand in them.

    Raises:
        NotFoundError: It is none of these.
    """
    path = Path(name)
    if path.is_file() and path.suffix == ".py":
        return Source(redactor.text(path.name), command=tuple(command_for_script(name, ())))
    if path.exists():
        return Source(redactor.text(path.name or name), stored=tuple(_stored(path)))
    words = _split(name)
    if "://" in name and len(words) == 1:
        return Source(redactor.text(shown(name)), stored=(name,))
    if len(words) < 2:
        raise NotFoundError(
            f"{redactor.text(shown(name))} is neither a script, a run directory, a trace, nor a "
            "command with arguments",
            "Check the path, or put the whole command in quotes",
        )
    return Source(" ".join(redact_command(words)), command=_words(words))


def _split(name: str) -> list[str]:
    """The words of a command as a shell splits them; one word where a quote is left open."""
    try:
        return shlex.split(name)
    except ValueError:
        return [name]


def _words(words: Sequence[str]) -> tuple[str, ...]:
    """A command; 'train.py --fast' runs under this interpreter."""
    if words[0].endswith(".py") and Path(words[0]).is_file():
        return tuple(command_for_script(words[0], words[1:]))
    return tuple(words)


def _stored(path: Path) -> list[str]:
    """The runs of a folder of `stepwhy bench`; anything else is a single run."""
    listing = path / BENCH_FILE
    if not listing.is_file():
        return [str(path)]
    data = read_side_file(path, listing, MOST_RECORD_BYTES) or b""
    try:
        runs = json.loads(data)["measurement"]["runs"]
        return [str(_run_in(path, run["path"])) for run in runs]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{listing} is damaged ({error})", "Measure again") from None


def _run_in(folder: Path, name: str) -> Path:
    """A run by its path in a folder.

    Raises:
        NotAFileError: The path leads out of the folder.
        OSError: There is no such run.
    """
    try:
        check_within(folder, folder / name)
    except NotAFileError:
        raise NotAFileError(
            f"{folder.name}/{BENCH_FILE} names {name}, which is outside of {folder.name}",
            "Give that run itself",
        ) from None
    return folder / name


def program(label: str, command: Sequence[str], folder: Path, base: Path) -> Program:
    """A command that can be run again and again, each time into a folder of its own.

    Args:
        label: What the person calls it.
        command: What to run.
        folder: Where its runs go.
        base: The folder that recorded paths are relative to.
    """

    def run(number: int) -> tuple[str, Result]:
        run_dir = folder / f"{number:03d}"
        run_dir.mkdir(parents=True)
        output = run_dir / OUTPUT_FILE
        ended = launch(command, run_dir, output=output)
        if ended.exit_code:
            raise MeasurementError(
                f"{label} ended with exit code {ended.exit_code}",
                f"Read what it printed in {output}",
            )
        try:
            return str(run_dir.relative_to(base)), explain([str(run_dir)])
        except InputError as error:
            raise MeasurementError(
                f"{label} cannot be measured: {error.what}", error.todo
            ) from error

    return Program(label, run)


def stored_samples(found: Source, redactor: Redactor, *, allow_busy: bool) -> list[Sample]:
    """The samples of stored runs or traces.

    Args:
        found: What a person named, stored.
        redactor: What is found in them is shown through it.
        allow_busy: Whether runs count that were made on a busy machine.
    """
    return [
        sample(
            explain([path], redact=redactor),
            redactor.text(shown(path)),
            allow_busy=allow_busy,
        )
        for path in found.stored
    ]
