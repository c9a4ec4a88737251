"""The only file in a zip archive, or what is left of it if the end of the archive is missing.

The directory is at the end of an archive, so a torn archive has none.

Source: for the header before a file, PKWARE's APPNOTE.TXT, section 4.3.7.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING, BinaryIO, cast

from stepwhy.base.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from stepwhy.read.inputs.stream import Stream

_UNPACK = "Unpack it and give the trace inside"
# Signature, version, flags, method, time, date, checksum, sizes, lengths of name and extra field.
_FILE_HEADER = struct.Struct("<4sHHHHHIIIHH")
_DEFLATED = 8
_ENCRYPTED = 1  # bit in the flags of a member
_RAW_DEFLATE = -15  # zlib: no header, largest window
_CHUNK = 1 << 18  # bytes


def open_zip(file: BinaryIO, name: str) -> Stream:
    """Open the only file in a zip archive, or the first one in a torn archive."""
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
    # The operating system adds hidden members: .DS_Store, __MACOSX/._trace.json.
    files = [
        m
        for m in archive.infolist()
        if m.filename[-1:] != "/"
        and not any(part.startswith((".", "__MACOSX")) for part in m.filename.split("/"))
    ]
    if len(files) != 1:
        from stepwhy.read.inputs.foreign.known import known_archive  # noqa: PLC0415 - few files need it

        named = known_archive(name, [m.filename for m in files])
        raise named or UnsupportedFormatError(
            f"{name} is a zip archive of {len(files)} files",
            "Unpack it and give the folder, or one of them",
        )
    return files[0]


def _first_of_torn(file: BinaryIO, name: str) -> Stream:
    """The rest of the first file in an archive without its end."""
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
    """A deflated stream without header, which may end early."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(_RAW_DEFLATE)

    def read1(self, size: int) -> bytes:
        """Between 1 and `size` bytes.

        Raises:
            EOFError: At the end.
        """
        while not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._file.read(_CHUNK)
            if not packed:
                break
            chunk = self._inflate.decompress(packed, size)
            if chunk:
                return chunk
        raise EOFError
