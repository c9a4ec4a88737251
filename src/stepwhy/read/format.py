"""What a format's package declares about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

    ReadTrace: TypeAlias = Callable[[Source], tuple[Trace, str]]
    """Reads a file of any format: its trace and the name of its format."""


class Format(msgspec.Struct, frozen=True):
    """A trace format; `FORMAT` in the package of the format.

    The functions `recognise` and `read` are in the package's module `reader`, which is imported
    only for files that have the magic bytes.

    Args:
        signals: What traces of this format can show, see `trace.Meta`; None for formats that hold
            traces of other formats.
        magic: Bytes that the head of every file contains; b'' if there are none.
        after: Packages of formats that are tried first: their recognisers are stricter, or their
            files are more common.
        is_fallback: Tried after all other formats.
        is_folder: It is a folder, not a file.
        memory_factor: Peak memory of `stepwhy explain` as a multiple of the decompressed size:
            the smallest value measured on files of 18 to 900 MB. Larger files than memory allows
            are refused. None if no file has to be refused for it.
    """

    signals: tuple[str, ...] | None
    magic: bytes = b""
    after: tuple[str, ...] = ()
    is_fallback: bool = False
    is_folder: bool = False
    memory_factor: float | None = None

    def may_be(self, head: bytes) -> bool:
        """Whether a file that starts with `head` can have this format."""
        return not self.is_folder and self.magic in head


class Recording(msgspec.Struct, frozen=True):
    """One process of a run, as read from a folder.

    Args:
        trace: Its traced windows, with the step log in `marks`.
        format: Name of the format of the windows, or 'step-log' without any.
        name: Name of the process's folder.
    """

    trace: Trace
    format: str
    name: str


def declared(module: Any) -> Format:
    """The declaration in the package of a format.

    Raises:
        TypeError: The package declares no format.
    """
    found = getattr(module, "FORMAT", None)
    if not isinstance(found, Format):
        raise TypeError(f"{module.__name__} declares no FORMAT")
    return found
