"""The bytes of an input file, decompressed; what a torn archive still holds is kept."""

from __future__ import annotations

import io
from contextlib import ExitStack, suppress
from functools import partial
from mmap import ACCESS_READ, mmap
from typing import TYPE_CHECKING, BinaryIO, cast

from stepwhy.engine.archives import is_padding, kind_of, torn
from stepwhy.engine.memory import check_fits
from stepwhy.errors import CorruptInputError, EmptyInputError, NotFoundError
from stepwhy.importers.source import HEAD_BYTES, Source

if TYPE_CHECKING:
    from pathlib import Path

    from stepwhy.engine.archives import Kind

# Traces compress 10 to 40 times, and deflate ends at 1030; what grows this much is a bomb.
_LARGEST_RATIO = 300
_ALWAYS_ALLOWED = 1 << 24  # bytes; what is this small harms nobody
# A profiler may compress its trace, who keeps it compresses it again, who sends it makes a zip.
_MOST_LAYERS = 3
_PIECE = 1 << 16  # bytes; of a torn archive some libraries lose one
# How many bytes a file may grow by until it is asked again what memory is left; with the first of
# these it leaves memory for a temporary file, which is mapped like a plain one.
_UNWATCHED = 1 << 26


def read_source(path: Path) -> Source:
    """Read a file, decompressed if it is an archive by its content.

    The content of a plain file is read when it is first asked for: what opens a database by its
    path never does.

    Raises:
        NotFoundError: No such file, or it cannot be opened.
        EmptyInputError: Not a single byte.
        CorruptInputError: Not a single byte could be decompressed, or absurdly many.
        UnsupportedFormatError: An archive of several files, or an encrypted one.
        TooLargeError: It does not fit into memory.
    """
    try:
        with path.open("rb") as file:
            return _read(file, path)
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> NotFoundError:
    return NotFoundError(
        f"{path.name} cannot be read ({error.strerror or 'unknown error'})",
        "Check the path and its permissions",
    )


def _read(file: BinaryIO, path: Path) -> Source:
    is_pipe = not file.seekable()
    if is_pipe:
        file = io.BytesIO(file.read())
    head = _head_of(file)
    if not head:
        raise EmptyInputError(
            f"{path.name} is empty", "Record the trace again; the profiler wrote nothing"
        )
    if kind_of(head) is not None:
        content, is_torn = _unpack(file, path.name)
        fits = partial(check_fits, name=path.name) if isinstance(content, mmap) else None
        return Source(content, path.name, path, is_torn, fits=fits)
    if is_pipe:
        return Source(file.read(), path.name, path)
    return Source(partial(_read_whole, path), path.name, path, head=head)


def _head_of(file: BinaryIO) -> bytes:
    head = file.read(HEAD_BYTES)
    file.seek(0)
    return head


def _read_whole(path: Path) -> bytes:
    """The content of a plain file."""
    try:
        check_fits(path.stat().st_size, path.name)
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


# --- Archives ---


def _unpack(file: BinaryIO, name: str) -> tuple[bytes | mmap, bool]:
    """The content of an archive, or of the archive in it, and whether an end is missing."""
    packed = file.seek(0, io.SEEK_END)
    file.seek(0)
    kind = kind_of(_head_of(file))
    is_torn = False
    for _ in range(_MOST_LAYERS):
        if kind is None:
            break
        content, ends_early = _unpack_layer(file, kind, packed, name)
        is_torn |= ends_early
        file.close()
        file = content.file
        kind = kind_of(_head_of(file))
    with file:
        if kind is not None:
            raise CorruptInputError(
                f"{name} is compressed more than {_MOST_LAYERS} times over",
                "Unpack it and give the trace inside",
            )
        return content.whole(), is_torn


def _unpack_layer(file: BinaryIO, kind: Kind, packed: int, name: str) -> tuple[_Content, bool]:
    """What one archive holds, and whether its end is missing.

    Args:
        file: The archive.
        kind: Its kind.
        packed: Size of the file around all archives, bytes.
        name: For messages.
    """
    content = _Content(packed, name)
    is_torn = False
    with ExitStack() as on_error:
        on_error.callback(content.close)
        try:
            for piece in iter(partial(kind.open(file, name).read1, _PIECE), b""):
                content.add(piece)
        except torn() as error:
            is_torn = not is_padding(error)
        if not content.size:
            raise CorruptInputError(
                f"{name} is a {kind.name} file of which nothing can be decompressed",
                "Copy or record the trace again",
            )
        content.file.seek(0)
        on_error.pop_all()
    return content, is_torn


class _Content:
    """What comes out of an archive, watched while it grows: no header can be trusted on its size.

    Args:
        packed: Size of the file around all archives, bytes.
        name: For messages.
    """

    def __init__(self, packed: int, name: str) -> None:
        self.size = 0
        self.file: BinaryIO = io.BytesIO()
        """What came out so far: in memory, or in a temporary file where it is large."""
        self._largest = _LARGEST_RATIO * packed + _ALWAYS_ALLOWED
        self._name = name
        self._look_at = _UNWATCHED

    def add(self, piece: bytes) -> None:
        """Append a piece.

        Raises:
            CorruptInputError: It is a bomb.
            TooLargeError: It does not fit into memory, nor onto the disk.
        """
        try:
            self.file.write(piece)
        except OSError:
            self._return_to_memory(piece)
        self.size += len(piece)
        if self.size > self._largest:
            raise CorruptInputError(
                f"{self._name} expands to more than {_LARGEST_RATIO} times its size",
                "Check where the file comes from; traces never compress that well",
            )
        if self.size > self._look_at:
            self._look_at = self.size + _UNWATCHED
            self._watch()

    def _watch(self) -> None:
        """Leave memory once, where that is possible, and see to it that there is enough else."""
        if isinstance(self.file, io.BytesIO) and self.size < 2 * _UNWATCHED:
            self._leave_memory()
        if isinstance(self.file, io.BytesIO):
            check_fits(self.size, self._name, held=self.size)

    def _leave_memory(self) -> None:
        import tempfile  # noqa: PLC0415 - few archives are as large

        with suppress(OSError):  # no space there, or no right to it: it stays where it is
            spilled = tempfile.TemporaryFile(prefix="stepwhy-")  # noqa: SIM115 - lives as long as we
            spilled.write(self.file.getbuffer())  # type: ignore[attr-defined]
            self.file = cast("BinaryIO", spilled)

    def _return_to_memory(self, piece: bytes) -> None:
        """Go on in memory: the disk is full."""
        import shutil  # noqa: PLC0415 - rarely needed

        check_fits(self.size, self._name)
        spilled, self.file = self.file, io.BytesIO()
        spilled.seek(0)
        shutil.copyfileobj(spilled, self.file, _UNWATCHED)
        spilled.close()
        self.file.truncate(self.size)
        self.file.seek(self.size)
        self.file.write(piece)

    def close(self) -> None:
        """Throw it away."""
        self.file.close()

    def whole(self) -> bytes | mmap:
        """All of it."""
        if isinstance(self.file, io.BytesIO):
            return self.file.getvalue()
        self.file.flush()
        return mmap(self.file.fileno(), 0, access=ACCESS_READ)


__all__ = ["read_source"]
