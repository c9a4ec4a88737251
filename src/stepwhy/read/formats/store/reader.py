"""stepwhy's own stored traces (`trace.store`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepwhy.read.inputs.memory import check_fits
from stepwhy.trace.store import is_store, load

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace


def recognise(source: Source) -> bool:
    """Whether the file is a stored trace."""
    return is_store(source.head)


def read(source: Source) -> Trace:
    """Read a stored trace.

    Raises:
        NewerFormatError: A later version of stepwhy wrote it.
        CorruptInputError: It is damaged.
        TooLargeError: It does not fit into memory.
    """
    fits = partial(check_fits, name=source.origin, times=1)
    return load(source.mapped, source.origin, fits)
