"""The bytes of an input file, decompressed; what a torn archive still holds is kept."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from stepwhy.errors import CorruptInputError, EmptyInputError, NotFoundError
from stepwhy.importers.source import Source

if TYPE_CHECKING:
    from pathlib import Path

_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib's spelling of "gzip header expected, largest window"
# Traces compress 10 to 40 times, and deflate ends at 1030; what grows this much is a bomb.
_LARGEST_RATIO = 300
_CHUNK = 1 << 24


def read_source(path: Path) -> Source:
    """Read a file, decompressed if it is gzip by its content.

    Raises:
        NotFoundError: No such file, or it cannot be opened.
        EmptyInputError: Not a single byte.
        CorruptInputError: Not a single byte could be decompressed, or absurdly many.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotFoundError(
            f"{path.name} cannot be read ({error.strerror or 'unknown error'})",
            "Check the path and its permissions",
        ) from None
    if not data:
        raise EmptyInputError(
            f"{path.name} is empty", "Record the trace again; the profiler wrote nothing"
        )
    truncated = False
    if data.startswith(_GZIP):
        data, truncated = _gunzip(data, path.name)
    return Source(data, path.name, path, truncated)


def _gunzip(data: bytes, name: str) -> tuple[bytes, bool]:
    """All members of a gzip file, as far as they are whole."""
    parts: list[bytes] = []
    size, limit = 0, _LARGEST_RATIO * len(data) + _CHUNK
    truncated = False
    while data:
        inflate = zlib.decompressobj(_GZIP_WINDOW)
        try:
            while data and not inflate.eof:
                parts.append(inflate.decompress(data, _CHUNK))
                data = inflate.unconsumed_tail
                size += len(parts[-1])
                if size > limit:
                    raise CorruptInputError(
                        f"{name} expands to more than {_LARGEST_RATIO} times its size",
                        "Check where the file comes from; traces never compress that well",
                    )
            if not inflate.eof:
                parts.append(inflate.flush())
                truncated = True
        except zlib.error:
            truncated = True
            break
        data = inflate.unused_data if inflate.unused_data.startswith(_GZIP) else b""
    text = b"".join(parts)
    if not text:
        raise CorruptInputError(
            f"{name} is a gzip file of which nothing can be decompressed",
            "Copy or record the trace again",
        )
    return text, truncated
