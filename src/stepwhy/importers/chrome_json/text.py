"""The text of a file: UTF-8 throughout."""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import msgspec

    from stepwhy.trace import Health

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK = 1 << 22


def valid_text(data: bytes, health: Health) -> bytes:
    """The file without its byte order mark; bytes that are not UTF-8 are replaced and counted."""
    data = data.removeprefix(BYTE_ORDER_MARK)
    if data.isascii() or is_utf8(data):
        return data
    health.count(
        "invalid-utf8",
        "warning",
        "The file is not UTF-8 throughout; the offending bytes in names were replaced.",
        dropped=False,
    )
    return data.decode("utf-8", errors="replace").encode()


def is_utf8(data: bytes | msgspec.Raw) -> bool:
    """Whether a text is UTF-8, without a second copy of it."""
    decoder = getincrementaldecoder("utf-8")()
    view = memoryview(data)
    try:
        for start in range(0, len(data), _CHUNK):
            decoder.decode(view[start : start + _CHUNK], final=start + _CHUNK >= len(data))
    except UnicodeDecodeError:
        return False
    return True
