"""Compressed files as streams: gzip, bzip2, xz, Zstandard and zip, told by their first bytes.

All of them are read by libraries, which say at the end whether a stream was whole. Only what is
left of a zip archive that has lost its directory, which stands last, is read here.

Source: RFC 1952 (gzip), RFC 8878 (Zstandard), the .xz file format 1.2, bzip2's own source; for the
header in front of a file in a zip archive, PKWARE's APPNOTE.TXT, section 4.3.7.
"""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol, cast

from stepwhy.errors import UnsupportedFormatError
from stepwhy.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Callable

_UNPACK = "Unpack it and give the trace inside"
# Signature, version, flags, method, time, date, checksum, sizes, lengths of name and extra field.
_FILE_HEADER = struct.Struct("<4sHHHHHIIIHH")
_DEFLATED = 8
_ENCRYPTED = 1  # the bit among a member's flags
_RAW_DEFLATE = -15  # zlib's spelling of "no header, largest window"
_PACKED_PIECE = 1 << 18


class Stream(Protocol):
    """Decompressed content, which raises one of `torn()` where it is damaged or ends early."""

    def read1(self, size: int, /) -> bytes:
        """At most `size` bytes; b'' at the end."""


class Kind(NamedTuple):
    """A kind of archive.

    Args:
        name: As in 'is a ... file'.
        open: The content of a file of it; raises one of `torn()` as well, or
            UnsupportedFormatError. Takes the file and its name for messages.
    """

    name: str
    open: Callable[[BinaryIO, str], Stream]


def kind_of(head: bytes) -> Kind | None:
    """The kind of archive that begins like this; None for anything else, a stored trace as well."""
    kind = next((kind for magic, kind in _KINDS if magic.match(head)), None)
    if kind is not None and kind.name == "zip":
        from stepwhy.trace.store import is_store  # noqa: PLC0415 - no other file can be one

        return None if is_store(head) else kind
    return kind


def torn() -> tuple[type[Exception], ...]:
    """What streams raise where they are damaged or end early."""
    try:
        from lzma import LZMAError  # noqa: PLC0415 - not every Python is built with it
    except ImportError:
        return (EOFError, OSError, zlib.error, zipfile.BadZipFile)
    return (EOFError, OSError, zlib.error, zipfile.BadZipFile, LZMAError)


def is_padding(error: Exception) -> bool:
    """Whether a stream was whole, and what follows it is only no gzip: tapes and tools pad."""
    return isinstance(error, gzip.BadGzipFile) and str(error).startswith("Not a gzipped file")


# --- One stream ---


def _gzip(file: BinaryIO, _name: str) -> Stream:
    return gzip.GzipFile(fileobj=file, mode="rb")


def _bzip2(file: BinaryIO, name: str) -> Stream:
    try:
        import bz2  # noqa: PLC0415 - not every Python is built with it
    except ImportError:
        raise _not_built_in(name, "bz2") from None
    return bz2.BZ2File(file)


def _xz(file: BinaryIO, name: str) -> Stream:
    try:
        import lzma  # noqa: PLC0415 - not every Python is built with it
    except ImportError:
        raise _not_built_in(name, "lzma") from None
    return lzma.LZMAFile(file)


def _not_built_in(name: str, module: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(f"{name} needs a Python with its module '{module}'", _UNPACK)


def _zstandard(file: BinaryIO, _name: str) -> Stream:
    import pyarrow as pa  # noqa: PLC0415 - a tenth of a second that few files need

    return cast("Stream", pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))


# --- Zip ---


def _zip(file: BinaryIO, name: str) -> Stream:
    """The one file in a zip archive; of a torn archive its first."""
    try:
        archive = zipfile.ZipFile(file)
        member = _only_file(archive, name)
        _refuse_encrypted(member.flag_bits, name)
        return cast("Stream", archive.open(member))
    except NotImplementedError:
        raise UnsupportedFormatError(
            f"{name} is a zip archive of a rare version or kind of compression", _UNPACK
        ) from None
    except (zipfile.BadZipFile, UnicodeDecodeError):
        return _first_of_torn(file, name)


def _only_file(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    # `is_dir` fails on names without a letter.
    files = [m for m in archive.infolist() if m.filename[-1:] != "/" and not _is_hidden(m.filename)]
    if len(files) != 1:
        from stepwhy.engine.refusals import known_archive  # noqa: PLC0415 - few files need it

        named = known_archive(name, [m.filename for m in files])
        raise named or UnsupportedFormatError(
            f"{name} is a zip archive of {len(files)} files",
            "Unpack it and give the folder, or one of them",
        )
    return files[0]


def _is_hidden(name: str) -> bool:
    """Whether a system added the member on its own: .DS_Store, __MACOSX/._trace.json."""
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _first_of_torn(file: BinaryIO, name: str) -> Stream:
    """What is left of the first file in an archive that has lost its end."""
    file.seek(0)
    header = file.read(_FILE_HEADER.size)
    if len(header) < _FILE_HEADER.size:
        raise EOFError
    _, _, flags, method, *_, name_bytes, extra_bytes = _FILE_HEADER.unpack(header)
    _refuse_encrypted(flags, name)
    if method != _DEFLATED:
        raise EOFError
    file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
    return _Inflated(file)


def _refuse_encrypted(flags: int, name: str) -> None:
    if flags & _ENCRYPTED:
        raise UnsupportedFormatError(f"{name} is an encrypted zip archive", _UNPACK)


class _Inflated:
    """A deflated stream without header or end: what follows it is lost."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(_RAW_DEFLATE)

    def read1(self, size: int) -> bytes:
        """At most `size` bytes, never none.

        Raises:
            EOFError: There is no more.
        """
        while not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._file.read(_PACKED_PIECE)
            if not packed:
                break
            piece = self._inflate.decompress(packed, size)
            if piece:
                return piece
        raise EOFError


_KINDS = (
    (regex(rb"\x1f\x8b"), Kind("gzip", _gzip)),
    (regex(rb"\x28\xb5\x2f\xfd"), Kind("Zstandard", _zstandard)),
    (regex(rb"\xfd7zXZ\x00"), Kind("xz", _xz)),
    (regex(rb"BZh[1-9]1AY&SY"), Kind("bzip2", _bzip2)),
    (regex(rb"PK\x03\x04"), Kind("zip", _zip)),
)

__all__ = ["Kind", "Stream", "is_padding", "kind_of", "torn"]
