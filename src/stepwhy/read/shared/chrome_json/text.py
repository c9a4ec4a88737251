"""Validate and repair the UTF-8 text of a file."""

from __future__ import annotations

from codecs import getincrementaldecoder
from mmap import mmap
from typing import TYPE_CHECKING

from stepwhy.read.inputs.source import let_go

if TYPE_CHECKING:
    import msgspec

    from stepwhy.trace import Health

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 22


def valid_text(data: bytes | mmap, health: Health) -> bytes | mmap:
    """The file without its byte order mark; invalid bytes are replaced and counted."""
    if data[: len(BYTE_ORDER_MARK)] == BYTE_ORDER_MARK:
        data = data[len(BYTE_ORDER_MARK) :]
    if is_utf8(data):
        return data
    health.count(
        "invalid-utf8",
        "warning",
        "The file is not UTF-8 throughout; the offending bytes in names were replaced.",
        dropped=False,
    )
    return data[:].decode("utf-8", errors="replace").encode()


def is_utf8(data: bytes | mmap | msgspec.Raw) -> bool:
    """Whether a text is UTF-8; does not copy it."""
    decoder = getincrementaldecoder("utf-8")()
    try:
        with memoryview(data) as view:
            for start in range(0, len(data), _CHUNK):
                end = start + _CHUNK
                decoder.decode(view[start:end], final=end >= len(data))
                if isinstance(data, mmap):
                    let_go(data, start, end)
    except UnicodeDecodeError:
        return False
    return True
