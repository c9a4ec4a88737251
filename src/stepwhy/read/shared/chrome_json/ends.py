"""Keys around the list of events of a damaged file, and what follows the end of the trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json.torn import encodable, encoded_length
from stepwhy.read.shared.several_files import count_further, count_text_after

if TYPE_CHECKING:
    from mmap import mmap

    from stepwhy.trace import Health

# Bytes read to find the end of an object; symbol tables can follow the events.
_WINDOWS = (1 << 20, 1 << 26)
# Bytes of what follows a trace that are looked at.
_LOOKED_AT = 1 << 16

_KEY = regex(r'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')
_CLOSED = regex(r"[\s,]*\}")
_BETWEEN = b" \t\r\n,;\x00\x1e"
_DECODER = json.JSONDecoder(strict=False)


class Keys(NamedTuple):
    """The keys of an object from some place on.

    Args:
        values: Their values, up to the first one that is damaged.
        end: Offset after the object, or where reading ended.
        closed: Whether the end of the object was reached.
    """

    values: dict[str, Any]
    end: int
    closed: bool


def keys_before(data: bytes) -> Keys:
    """The keys before the events of a damaged file; not closed if one of them is damaged.

    Args:
        data: The file up to the key of the events.
    """
    text = data.decode("utf-8", "replace").lstrip()[1:]
    values, end, _ = _keys_of(text)
    return Keys(values, end, closed=not text[end:].strip(" \t\r\n,"))


def keys_after(data: bytes | mmap, position: int) -> Keys:
    """The keys after the events of a damaged file.

    Args:
        data: The file, UTF-8.
        position: Offset after the bracket that closes the list.
    """
    for window in _WINDOWS:
        with memoryview(data) as view:
            text = str(view[position : position + window], "utf-8", "ignore")
        values, end, closed = _keys_of(text)
        if closed or position + window >= len(data):
            break
    return Keys(values, position + encoded_length(text, end), closed)


def _keys_of(text: str) -> tuple[dict[str, Any], int, bool]:
    """Keys of the text of an object without its opening bracket, up to the first damaged one."""
    values: dict[str, Any] = {}
    at = 0
    while found := _KEY.match(text, at):
        try:
            value, at = _DECODER.raw_decode(text, found.end())
            values[encodable(json.loads(found[1], strict=False))] = encodable(value)
        except (ValueError, RecursionError):
            return values, at, False
    closing = _CLOSED.match(text, at)
    return values, closing.end() if closing else at, closing is not None


def count_damage(health: Health, keys: Keys) -> None:
    """Count keys that could not be read.

    Args:
        health: The counters.
        keys: The keys.
    """
    health.count(
        "unreadable-header",
        "warning",
        "What stands before or after the list of events is damaged: the names of devices, the rank "
        "or the clock may be missing. Copy the trace again.",
        count=int(not keys.closed),
        dropped=False,
    )


def count_rest(health: Health, data: bytes | mmap, end: int) -> None:
    """Count what follows the end of a trace in the same file.

    Args:
        health: The counters.
        data: The file.
        end: Offset after the trace.
    """
    rest = data[end : end + _LOOKED_AT].lstrip(_BETWEEN)
    if not rest:
        return
    is_trace = rest[:1] in {b"{", b"["} and b'"ph"' in rest
    (count_further if is_trace else count_text_after)(health, len(data) - end)
