"""Which importer reads a file, decided by its content."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

from stepwhy.inputs.memory import TIMES, check_fits

if TYPE_CHECKING:
    from stepwhy.importers.source import Source
    from stepwhy.trace import Trace

IMPORTERS = (
    "stepwhy.importers.store",
    "stepwhy.importers.exported",
    "stepwhy.importers.rocprof",
    "stepwhy.importers.megascan",
    "stepwhy.importers.nsys",
    "stepwhy.importers.nvprof",
    "stepwhy.importers.kineto",
    "stepwhy.importers.xplane",
    "stepwhy.importers.tf_timeline",
    "stepwhy.importers.horovod",
    "stepwhy.importers.tensorboard",
    "stepwhy.importers.tfprof",
    "stepwhy.importers.memory_timeline",
    "stepwhy.importers.run_metadata",
    "stepwhy.importers.chrome_trace",
)
"""Asked in this order; a strict recogniser stands before a lenient one."""

_DATABASE = b"SQLite format 3\x00"
_HEADS_HOLD = {
    "stepwhy.importers.store": b"PK\x03\x04",
    "stepwhy.importers.exported": b'"stepwhy.chrome-trace/',
    "stepwhy.importers.rocprof": b'"rocprofiler-sdk-tool"',
    "stepwhy.importers.megascan": b'"iteration"',
    "stepwhy.importers.nsys": _DATABASE,
    "stepwhy.importers.nvprof": _DATABASE,
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
    from stepwhy.engine.foreign import refuse  # noqa: PLC0415 - needed by no file that is read

    raise refuse(source)


def _check_fits(source: Source, importer: str) -> None:
    """Refuse a file that the importer would need more memory for than is left."""
    times = TIMES.get(importer.rpartition(".")[2])
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
