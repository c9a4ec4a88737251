"""Read the files of a run: its traces, redacted, and notes on what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base.errors import InputError, NoTracesError, SeveralRunsError
from stepwhy.engine.privacy import redacted_errors, redactor_of
from stepwhy.engine.rank_sets import Opened, numbered, same_run, without_copies
from stepwhy.read.inputs.kinds import is_file, is_folder
from stepwhy.read.inputs.places import resolve
from stepwhy.read.inputs.reading import read_source
from stepwhy.read.inputs.remote.addresses import shown
from stepwhy.read.inputs.torch_npu import rank_beside, world_size_beside
from stepwhy.read.inputs.within import check_within
from stepwhy.read.registry import read_folder, read_trace
from stepwhy.result.wording.notes import left_out, other_processes
from stepwhy.trace import NULL
from stepwhy.trace.redacting import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from stepwhy.base.redaction import Redactor
    from stepwhy.engine.privacy import Redact
    from stepwhy.read.inputs.places import Place
    from stepwhy.trace import Trace

    Progress = Callable[[str, int, int], None]


def open_run(
    names: Sequence[str], progress: Progress | None = None, *, redact: Redact = True
) -> tuple[list[Opened], list[str]]:
    """Read files, folders, globs, addresses or run directories.

    Args:
        names: The inputs, as the user named them.
        progress: As in `explain`.
        redact: As in `explain`.

    Returns:
        The traces, and notes on what was left out. Of several processes of one run that are not
        ranks, only the trace of the main one.

    Raises:
        InputError: No input can be read.
    """
    redactor = redactor_of(redact)
    with redacted_errors(redactor):
        places = resolve(names)
        opened, skipped = open_places(places, redactor, redacted_progress(progress, redactor))
    opened, by_name = numbered(opened)
    opened, copies = without_copies(opened)
    return opened, [*skipped, *left_out(copies), *by_name]


def open_one(name: str, progress: Progress | None = None, *, redact: Redact = True) -> Opened:
    """Read a file, folder, glob, address or run directory that contains a single trace.

    Args:
        name: The input, as the user named it.
        progress: As in `explain`.
        redact: As in `explain`.

    Raises:
        InputError: It cannot be read, or contains several traces.
    """
    redactor = redactor_of(redact)
    opened, _ = open_run([name], progress, redact=redactor)
    if len(opened) > 1:
        raise SeveralRunsError(
            f"{redactor.text(shown(name))} contains {len(opened)} traces, of several ranks or runs",
            f"Name one of them, such as {opened[0].path}",
        )
    return opened[0]


def redacted_progress(progress: Progress | None, redactor: Redactor) -> Progress | None:
    """The same callback for progress, called with redacted texts."""
    if progress is None:
        return None
    return lambda text, done, total: progress(redactor.text(text), done, total)


def open_places(
    places: Sequence[Place], redactor: Redactor, progress: Progress | None
) -> tuple[list[Opened], list[str]]:
    """Read all places; among several, those that cannot be read are only noted.

    Args:
        places: Where the traces are.
        redactor: What replaces secrets.
        progress: As in `explain`.

    Returns:
        The traces, and notes on what could not be read beside them.

    Raises:
        InputError: Nothing can be read.
    """
    opened: list[Opened] = []
    skipped: list[str] = []
    beside: list[str] = []
    for done, place in enumerate(places):
        try:
            found, others = open_place(place, redactor, counted(progress, done, len(places)))
            opened += found
            beside += others
        except InputError as error:
            if len(places) == 1:
                raise
            skipped.append(redactor.text(error.what))
    if not opened:
        raise nothing_readable(len(places), skipped)
    return opened, [*left_out(skipped), *beside]


def counted(progress: Progress | None, done: int, total: int) -> Progress | None:
    """The callback for what is read of one of several files.

    Args:
        progress: As in `explain`.
        done: Number of files that have been read.
        total: Number of files.
    """
    if progress is None:
        return None
    # Downloads report bytes; reading has no amount of its own.
    return lambda text, part, whole: progress(text, part if whole else done, whole or total)


def nothing_readable(places: int, skipped: Sequence[str]) -> NoTracesError:
    """The error where no file is a trace.

    Args:
        places: Number of files.
        skipped: Why each could not be read.
    """
    return NoTracesError(
        f"none of the {places} files is a readable trace; the first: {skipped[0]}",
        "Name the trace file that the profiler wrote",
    )


def open_place(
    place: Place, redactor: Redactor, progress: Progress | None = None
) -> tuple[list[Opened], list[str]]:
    """Read the traces of one file or run directory, redacted.

    Args:
        place: Where it is.
        redactor: What replaces secrets.
        progress: As in `explain`.

    Returns:
        The traces, and notes on other processes beside them.

    Raises:
        InputError: It cannot be read.
    """
    with place.here(progress) as path:
        if progress:
            progress(f"reading {place.name}", 0, 0)
        found, others = _main_process(_open(path, place.shown, place.within))
        # Before anything else uses them.
        public = [
            replace(one, path=redactor.text(one.path), trace=redacted(one.trace, redactor))
            for one in found
        ]
        return public, [*map(redactor.text, others)]


def _main_process(opened: list[Opened]) -> tuple[list[Opened], list[str]]:
    """The process with most time in steps, if these are not ranks, and a note on the others."""
    if len(opened) <= 1 or same_run([o.trace.meta for o in opened]):
        return opened, []
    main = max(opened, key=lambda o: int(o.trace.marks.dur_ns.sum()))
    others = [o.path for o in opened if o is not main]
    return [main], [other_processes(others)]


def _add_rank_beside(trace: Trace, path: Path) -> Trace:
    """The trace with the rank that a file beside it names, if it does not record one itself."""
    rank = rank_beside(path) if trace.meta.rank == NULL else None
    if rank is None:
        return trace
    world_size = world_size_beside(path)
    meta = replace(trace.meta, rank=rank, world_size=NULL if world_size is None else world_size)
    return replace(trace, meta=meta)


def _open(path: Path, name: str, within: Path | None) -> list[Opened]:
    """Read all traces of a file or run directory.

    Args:
        path: The local file or folder.
        name: Its name in results.
        within: The folder in which it was found, see `open_input`.
    """
    if not is_folder(path):
        trace, format_name = read_trace(read_source(path, within))
        return [Opened(name, format_name, _add_rank_beside(trace, path))]
    if within is not None:
        check_within(within, path)
    is_run = is_file(path / "run.json")
    return [
        Opened(f"{name}/{r.name}" if is_run else name, r.format, r.trace) for r in read_folder(path)
    ]
