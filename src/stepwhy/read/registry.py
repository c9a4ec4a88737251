"""All formats, and the importer that reads a given file or folder.

A format is a package in `read.formats`; nothing else has to be registered. Other distributions may
have more of them: an entry point in the group `stepwhy.formats` names such a package. Those are
tried last, so that nothing that is installed changes how a known file is read.
"""

from __future__ import annotations

from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Protocol, cast

from stepwhy.base.errors import UnknownFormatError, UnsupportedFormatError
from stepwhy.read import formats as packages
from stepwhy.read.format import Format, declared
from stepwhy.read.inputs.memory import check_fits

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from stepwhy.read.format import ReadTrace, Recording
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace


GROUP = "stepwhy.formats"
"""Group of entry points of other distributions: the name of a format, and its package."""


class Reader(Protocol):
    """The module `reader` of a format of files."""

    def recognise(self, source: Source) -> bool:
        """Whether the content looks like this format. Cheap, never raises."""

    def read(self, source: Source) -> Trace | None:
        """The trace; None when it is not this format after all."""


class FolderReader(Protocol):
    """The module `reader` of a format of folders."""

    def recognise(self, path: Path) -> bool:
        """Whether the folder has this format."""

    def read(self, path: Path, read_trace: ReadTrace) -> list[Recording]:
        """The traces of the observed processes.

        Args:
            path: The folder.
            read_trace: Reads a file in it, of any format.
        """


@cache
def all_formats() -> dict[str, Format]:
    """The declarations of all formats by name of the package, in the order they are tried.

    Raises:
        CycleError: Formats declare that each is to be tried after the other.
    """
    names = [module.name for module in iter_modules(packages.__path__) if module.ispkg]
    found = {name: declared(import_module(f"{packages.__name__}.{name}")) for name in names}
    strict = [name for name in names if not found[name].is_fallback]
    earlier = {n: strict if found[n].is_fallback else found[n].after for n in names}
    return {name: found[name] for name in TopologicalSorter(earlier).static_order()}


def reader_of(name: str) -> Reader:
    """The module that reads a format of files.

    Args:
        name: Name of the format's package.
    """
    return cast("Reader", import_module(f"{packages.__name__}.{name}.reader"))


def read_trace(source: Source) -> tuple[Trace, str]:
    """Read a file with the importer that recognises it.

    Returns:
        The trace and the name of its format.

    Raises:
        UnsupportedFormatError: A known format that this version does not read.
        CorruptInputError: A recognised file of which nothing usable could be read.
        TooLargeError: It takes more memory than is left.
        UnknownFormatError: No importer recognises it.
    """
    for name, declaration in all_formats().items():
        if declaration.may_be(source.head):
            trace = _read_by(declaration, reader_of(name), source)
            if trace is not None:
                return trace, trace.meta.format
    for declaration, reader in _installed():
        trace = _read_by(declaration, reader, source) if declaration.may_be(source.head) else None
        if trace is not None:
            return trace, trace.meta.format
    from stepwhy.read.inputs.foreign.refusal import refuse  # noqa: PLC0415 - needed by no trace

    raise refuse(source)


def _read_by(declaration: Format, reader: Reader, source: Source) -> Trace | None:
    """The trace, if a format recognises the file; refused if it takes more memory than is left."""
    if not reader.recognise(source):
        return None
    if declaration.memory_factor is not None:
        held = source.size if isinstance(source.mapped, bytes) else 0
        check_fits(source.size, source.origin, declaration.memory_factor, held=held)
    trace = reader.read(source)
    if trace is not None:
        _note_truncation(trace, source)
    return trace


@cache
def _installed() -> list[tuple[Format, Reader]]:
    """The formats of other distributions, by name; their modules are imported here.

    Raises:
        UnsupportedFormatError: One of them cannot be imported, or declares no format.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes as long as a small trace

    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    return [_loaded(point) for point in found]


def _loaded(point: EntryPoint) -> tuple[Format, Reader]:
    try:
        package = import_module(point.value)
        return declared(package), cast("Reader", import_module(f"{point.value}.reader"))
    except Exception as error:
        owner = point.dist.name if point.dist else point.value
        raise UnsupportedFormatError(
            f"The format {point.name!r}, which the package {owner} adds, cannot be loaded "
            f"({type(error).__name__}: {error})",
            f"Update {owner}, or uninstall it",
        ) from error


def read_folder(path: Path) -> list[Recording]:
    """Read a folder with the importer that recognises it.

    Raises:
        InputError: It cannot be read.
        UnknownFormatError: No importer recognises it.
    """
    for name, declaration in all_formats().items():
        if declaration.is_folder:
            reader = cast("FolderReader", reader_of(name))
            if reader.recognise(path):
                return reader.read(path, read_trace)
    raise UnknownFormatError(f"{path.name} is not a run directory", "Check the path")


def _note_truncation(trace: Trace, source: Source) -> None:
    if source.truncated:
        trace.health.count(
            "gzip-truncated",
            "error",
            "The compressed file ends early: later events are missing. Copy it again.",
            dropped=False,
        )
