"""Which importer reads a file, decided by its content."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from stepwhy.inputs.memory import TIMES, check_fits, check_small_archive

if TYPE_CHECKING:
    from stepwhy.inputs.source import Source
    from stepwhy.trace import Trace

IMPORTERS = (
    "stepwhy.importers.formats.store.reader",
    "stepwhy.importers.formats.exported.reader",
    "stepwhy.importers.formats.rocprof.reader",
    "stepwhy.importers.formats.megascan.reader",
    "stepwhy.importers.formats.nsys.reader",
    "stepwhy.importers.formats.nvprof.reader",
    "stepwhy.importers.formats.kineto.reader",
    "stepwhy.importers.formats.xplane.reader",
    "stepwhy.importers.formats.tf_timeline.reader",
    "stepwhy.importers.formats.horovod.reader",
    "stepwhy.importers.formats.tensorboard.reader",
    "stepwhy.importers.formats.tfprof.reader",
    "stepwhy.importers.formats.memory_timeline.reader",
    "stepwhy.importers.formats.run_metadata.reader",
    "stepwhy.importers.formats.chrome_trace.reader",
)
"""Asked in this order; a strict recogniser stands before a lenient one."""

_DATABASE = b"SQLite format 3\x00"
_HEADS_HOLD = {
    "stepwhy.importers.formats.store.reader": b"PK\x03\x04",
    "stepwhy.importers.formats.exported.reader": b'"stepwhy.chrome-trace/',
    "stepwhy.importers.formats.rocprof.reader": b'"rocprofiler-sdk-tool"',
    "stepwhy.importers.formats.megascan.reader": b'"iteration"',
    "stepwhy.importers.formats.nsys.reader": _DATABASE,
    "stepwhy.importers.formats.nvprof.reader": _DATABASE,
}
"""Bytes without which at its beginning a file is none of these importers': they are not loaded."""


class Importer(Protocol):
    """What every module of `IMPORTERS` offers."""

    def recognise(self, source: Source) -> bool:
        """Whether the content looks like this format."""

    def read(self, source: Source) -> Trace | None:
        """The trace, or None when it is not this format after all."""


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
    for name in IMPORTERS:
        if _HEADS_HOLD.get(name, b"") not in source.head:
            continue
        importer = cast("Importer", import_module(name))
        if importer.recognise(source):
            _check_fits(source, name)
            trace = importer.read(source)
            if trace is not None:
                _note_truncation(trace, source)
                return trace, trace.meta.format
    from stepwhy.inputs.foreign.refusal import refuse  # noqa: PLC0415 - needed by no file that is read

    raise refuse(source)


def _check_fits(source: Source, importer: str) -> None:
    """Refuse a file that would take more memory than is left, or too long for a small archive."""
    importer = importer.split(".")[-2]
    if source.packed is not None:
        check_small_archive(source.size, source.packed, source.origin, importer)
    times = TIMES.get(importer)
    if times is not None:
        held = source.size if isinstance(source.mapped, bytes) else 0
        check_fits(source.size, source.origin, times, held=held)


def _note_truncation(trace: Trace, source: Source) -> None:
    if source.truncated:
        trace.health.count(
            "gzip-truncated",
            "error",
            "The compressed file ends early: later events are missing. Copy it again.",
            dropped=False,
        )
