"""Reduced ranks as files, so that the last command merges kilobytes.

Each rank reduces its own trace in place, when its run ends. `explain` uses such a file instead of
the trace as long as the trace is the one that it was made from. Only the trace of the rank that the
report describes is read again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepwhy.base.errors import InputError, OutputError
from stepwhy.base.whole_files import write_whole
from stepwhy.engine.analysed import Analysed
from stepwhy.engine.privacy import redactor_of
from stepwhy.engine.reduction import Part, Work, reduce_file
from stepwhy.engine.summaries import decode, encode
from stepwhy.read.inputs.kinds import is_file, is_folder
from stepwhy.read.inputs.places import Local
from stepwhy.read.inputs.reduced import IN_RUN, digest_of, is_reduced, reduced_path
from stepwhy.read.inputs.side_files import MOST_RECORD_BYTES, read_side_file
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.engine.analysed import Seen
    from stepwhy.engine.reduction import Named
    from stepwhy.read.inputs.places import Place

    Progress = Callable[[str, int, int], None]

# Stands for the path of the trace, which other machines may see under another one.
_HERE = "<trace>"


def reduce_in_place(source: Path) -> Path:
    """Reduce the ranks of a trace or run directory to a file beside it, or in it.

    Args:
        source: The file of the trace, or the run directory.

    Returns:
        The file.

    Raises:
        InputError: The trace cannot be read.
        OutputError: The file cannot be written.
    """
    path = reduced_path(source)
    work = Work(0, Local(source, named=_HERE), redactor_of(redact=True))
    try:
        digest = digest_of(source)
        part = reduce_file(work)
        if part.error is not None:
            raise part.error
        write_whole(path, encode(replace(part, digest=digest)))
    except OSError as error:
        raise OutputError(
            f"{path.name} cannot be written: {error.strerror}", "Free some space"
        ) from None
    return path


def part_of(
    work: Work, progress: Progress | None = None, seen: Seen | None = None, *, is_run: bool = True
) -> Part:
    """The part that was reduced in place, or that the trace is reduced to now.

    Args:
        work: The trace, run directory, or file of reduced ranks.
        progress: As in `reduction.reduce_file`.
        seen: Likewise; it is not called with ranks that were reduced in place.
        is_run: Likewise.
    """
    try:
        found = _lone(work) if is_reduced(work.place.name) else _read_beside(work)
    except InputError as error:
        return Part(work.number, error=error)
    return found or reduce_file(work, progress, seen, is_run=is_run)


def has_reduced(place: Place) -> bool:
    """Whether reduced ranks of a trace or run directory are beside it, or in it.

    Args:
        place: Where the trace is.
    """
    if is_reduced(place.name):
        return True
    return isinstance(place, Local) and is_file(reduced_path(place.path))


def _lone(work: Work) -> Part:
    """Reduced ranks whose trace is elsewhere."""
    with work.place.here() as path:
        return _restore_paths(_decoded(path, work.place.within or path.parent), work)


def _read_beside(work: Work) -> Part | None:
    """Reduced ranks of this very trace; None if there are none.

    They have no secrets, so they are of no use where secrets are kept.
    """
    place = work.place
    if not isinstance(place, Local) or not has_reduced(place) or not work.redactor.rules:
        return None
    folder = place.within or (place.path if is_folder(place.path) else place.path.parent)
    try:
        part = _decoded(reduced_path(place.path), folder)
        is_of_it = part.digest == digest_of(place.path, place.within)
    except (InputError, OSError):  # reading the trace says the same
        return None
    is_numbered = work.rank == NULL or all(one.meta.rank != NULL for one in part.ranks)
    return _restore_paths(part, work) if is_of_it and is_numbered else None


def _decoded(path: Path, folder: Path) -> Part:
    return decode(read_side_file(folder, path, MOST_RECORD_BYTES) or b"", path.name)


def _restore_paths(part: Part, work: Work) -> Part:
    """A part with the number and the paths that reading the trace now would have given it."""
    trace = _trace_of(work.place)

    def named(text: str) -> str:
        return work.redactor.text(text.replace(_HERE, trace))

    def moved(one: Analysed | Named, index: int) -> Analysed | Named:
        found = replace(one, path=named(one.path))
        if isinstance(found, Analysed):
            file = replace(found.input, path=named(found.input.path))
            found = replace(found, input=file, place=(work.number, index))
        if found.meta.rank != NULL or work.rank == NULL:
            return found
        return replace(found.numbered(work.rank), meta=found.meta)

    ranks = tuple(moved(one, index) for index, one in enumerate(part.ranks))
    return replace(part, number=work.number, ranks=ranks, beside=tuple(map(named, part.beside)))


def _trace_of(place: Place) -> str:
    """The name in results of the trace that was reduced."""
    if not is_reduced(place.name):
        return place.shown
    path = Path(place.shown)
    return str(path.parent if path.name == IN_RUN else path.with_suffix(""))
