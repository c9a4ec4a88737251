"""Compressed files as streams: gzip, bzip2, xz, Zstandard and zip, recognised by their first bytes.

The libraries that decompress are imported on demand, as most traces are plain files.

Source: RFC 1952 (gzip), RFC 8878 (Zstandard), the .xz file format 1.2, bzip2's own source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from stepwhy.base.errors import UnsupportedFormatError
from stepwhy.base.optional import needs_extra
from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.read.inputs.stream import Stream

_UNPACK = "Unpack it and give the trace inside"


class Kind(NamedTuple):
    """A kind of archive.

    Args:
        name: Its name, as in 'is a ... file'.
        open: Function from the file and its name for messages to its content. It may raise one of
            `torn()` or UnsupportedFormatError.
    """

    name: str
    open: Callable[[BinaryIO, str], Stream]


def kind_of(head: bytes) -> Kind | None:
    """The kind of archive with this start; None for other files, including stored traces."""
    kind = next((kind for magic, kind in _KINDS if magic.match(head)), None)
    if kind is not None and kind.name == "zip":
        from stepwhy.trace.store import is_store  # noqa: PLC0415 - no other file can be one

        return None if is_store(head) else kind
    return kind


def torn() -> tuple[type[Exception], ...]:
    """Exception types of streams that are damaged or end early."""
    import zlib  # noqa: PLC0415 - only for archives
    from zipfile import BadZipFile  # noqa: PLC0415 - only for archives

    try:
        from lzma import LZMAError  # noqa: PLC0415 - not every Python is built with it
    except ImportError:
        return (EOFError, OSError, zlib.error, BadZipFile)
    return (EOFError, OSError, zlib.error, BadZipFile, LZMAError)


def is_padding(error: Exception) -> bool:
    """Whether a complete gzip stream is followed by other bytes, such as padding of tapes."""
    from gzip import BadGzipFile  # noqa: PLC0415 - only for archives

    return isinstance(error, BadGzipFile) and str(error).startswith("Not a gzipped file")


# --- One stream ---


def _gzip(file: BinaryIO, _name: str) -> Stream:
    from gzip import GzipFile  # noqa: PLC0415 - not every file is one

    return GzipFile(fileobj=file, mode="rb")


def _bzip2(file: BinaryIO, name: str) -> Stream:
    try:
        import bz2  # noqa: PLC0415 - not every Python is built with it
    except ImportError:
        raise _missing_module(name, "bz2") from None
    return bz2.BZ2File(file)


def _xz(file: BinaryIO, name: str) -> Stream:
    try:
        import lzma  # noqa: PLC0415 - not every Python is built with it
    except ImportError:
        raise _missing_module(name, "lzma") from None
    return lzma.LZMAFile(file)


def _missing_module(name: str, module: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(f"{name} needs a Python with its module '{module}'", _UNPACK)


def _zip(file: BinaryIO, name: str) -> Stream:
    from stepwhy.read.inputs.zip_archives import open_zip  # noqa: PLC0415 - few files need it

    return open_zip(file, name)


def _zstandard(file: BinaryIO, name: str) -> Stream:
    with needs_extra("parquet", f"Zstandard archives such as {name}"):
        import pyarrow as pa  # noqa: PLC0415 - optional, and the import takes 0.1 s

    return cast("Stream", pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))


_KINDS = (
    (regex(rb"\x1f\x8b"), Kind("gzip", _gzip)),
    (regex(rb"\x28\xb5\x2f\xfd"), Kind("Zstandard", _zstandard)),
    (regex(rb"\xfd7zXZ\x00"), Kind("xz", _xz)),
    (regex(rb"BZh[1-9]1AY&SY"), Kind("bzip2", _bzip2)),
    (regex(rb"PK\x03\x04"), Kind("zip", _zip)),
)
