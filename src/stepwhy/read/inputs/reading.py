"""Read and decompress input files; the intact part of a damaged archive is kept."""

from __future__ import annotations

import io
import os
from contextlib import ExitStack
from functools import partial
from mmap import mmap
from typing import TYPE_CHECKING, BinaryIO

from stepwhy.base.errors import CorruptInputError, EmptyInputError, TooLargeError
from stepwhy.base.units import format_bytes
from stepwhy.read.inputs.archives import is_padding, kind_of, torn
from stepwhy.read.inputs.memory import ANY_SIZE, MAPPED_TIMES, check_fits
from stepwhy.read.inputs.opening import open_input, unreadable
from stepwhy.read.inputs.source import HEAD_BYTES, Source
from stepwhy.read.inputs.spool import Spool, content_of, is_spooled

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.read.inputs.archives import Kind

# Recorded traces are compressed by a factor of at most 37 with gzip, 52 with xz and 57 with bzip2;
# generated ones by 2 to 21. The limit of Deflate is 1030.
_LARGEST_RATIO = 60
_ALWAYS_ALLOWED = 1 << 26  # bytes; any file of this size is explained in seconds
_LARGE = 1 << 30  # bytes; any smaller file is read in seconds
# Profilers compress their traces; archives and mails of traces compress them again.
_MOST_LAYERS = 3
_CHUNK = 1 << 16  # bytes; some libraries lose this much of a torn archive


def read_source(path: Path, within: Path | None = None) -> Source:
    """Read a file, decompressed if it is an archive by its content.

    The content of a plain file is read at first use. Importers that open a file by its path, such
    as those of databases, never read it.

    Args:
        path: The file.
        within: The folder that it was found in; see `open_input`.

    Raises:
        NotFoundError: If there is no such file, or it cannot be opened.
        NotAFileError: If it is a device, a socket or a folder; in a folder, also a pipe or a link
            out of it.
        EmptyInputError: If it has no bytes.
        CorruptInputError: If nothing of it could be decompressed.
        UnsupportedFormatError: If it is an archive of several files, or encrypted.
        TooLargeError: If it does not fit into memory, or expands more than any known trace.
    """
    try:
        with open_input(path, within) as file:
            return _read(file, path, within)
    except OSError as error:
        raise unreadable(path, error) from None


def _read(file: BinaryIO, path: Path, within: Path | None) -> Source:
    head = _head_of(file)
    if not head:
        raise EmptyInputError(
            f"{path.name} is empty", "Record the trace again; the profiler wrote nothing"
        )
    if kind_of(head) is not None:
        packed = file.seek(0, io.SEEK_END)
        _refuse_holes(file, packed, path.name)
        content, is_torn = _unpack(file, packed, path.name)
        fits = partial(check_fits, name=path.name) if isinstance(content, mmap) else None
        return Source(content, path.name, path, is_torn, within=within, fits=fits)
    if is_spooled(file):
        return Source(content_of(file), path.name, path)
    # A sparse file of a terabyte needs no space, but takes hours to search.
    check_fits(os.fstat(file.fileno()).st_size, path.name, MAPPED_TIMES)
    read = partial(_read_whole, path, within)
    return Source(read, path.name, path, head=head, within=within)


def _head_of(file: BinaryIO) -> bytes:
    head = file.read(HEAD_BYTES)
    file.seek(0)
    return head


def _read_whole(path: Path, within: Path | None) -> bytes:
    """The content of a plain file."""
    try:
        with open_input(path, within) as file:
            size = os.fstat(file.fileno()).st_size
            check_fits(size, path.name)
            return file.read(max(size, HEAD_BYTES))
    except OSError as error:
        raise unreadable(path, error) from None


# --- Archives ---


def _unpack(file: BinaryIO, packed: int, name: str) -> tuple[bytes | mmap, bool]:
    """Content of an archive, including nested archives, and whether its end is missing."""
    file.seek(0)
    kind = kind_of(_head_of(file))
    is_torn = False
    for _ in range(_MOST_LAYERS):
        if kind is None:
            break
        content, ends_early = _unpack_layer(file, kind, packed, name)
        is_torn |= ends_early
        file.close()
        file = content
        kind = kind_of(_head_of(file))
    with file:
        if kind is not None:
            raise CorruptInputError(
                f"{name} is compressed more than {_MOST_LAYERS} times over",
                "Unpack it and give the trace inside",
            )
        return content_of(file), is_torn


def _unpack_layer(file: BinaryIO, kind: Kind, packed: int, name: str) -> tuple[BinaryIO, bool]:
    """The content of one archive, and whether its end is missing.

    Args:
        file: The archive.
        kind: Its kind.
        packed: Size of the file around all archives, bytes.
        name: Name for messages.
    """
    spool = Spool(name)
    is_torn = False
    with ExitStack() as on_error:
        on_error.callback(spool.close)
        try:
            for chunk in iter(partial(kind.open(file, name).read1, _CHUNK), b""):
                spool.add(chunk)
                _refuse_bomb(spool.size, packed, name)
        except torn() as error:
            is_torn = not is_padding(error)
        if not spool.size:
            raise CorruptInputError(
                f"{name} is a {kind.name} file of which nothing can be decompressed",
                "Copy or record the trace again",
            )
        spool.file.seek(0)
        on_error.pop_all()
    return spool.file, is_torn


def _refuse_holes(file: BinaryIO, packed: int, name: str) -> None:
    """Refuse an archive with a huge sparse tail, which needs no disk space but hours to skip."""
    if is_spooled(file) or packed < _LARGE or os.environ.get(ANY_SIZE) == "1":
        return
    if os.fstat(file.fileno()).st_blocks * 512 < packed // 8:
        raise TooLargeError(
            f"{name} claims {format_bytes(packed)}, but most of it is a hole; archives have none",
            f"Copy it again from its source, or set {ANY_SIZE}=1 to read it as it is",
        )


def _refuse_bomb(size: int, packed: int, name: str) -> None:
    if size > _LARGEST_RATIO * packed + _ALWAYS_ALLOWED and os.environ.get(ANY_SIZE) != "1":
        raise TooLargeError(
            f"{name} expands to more than {_LARGEST_RATIO} times its size, as no known trace does",
            "Check where it comes from; then unpack it and give the file inside, or set "
            f"{ANY_SIZE}=1 to read it as it is",
        )
