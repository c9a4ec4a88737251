"""What may be printed: nothing that steers a terminal, and no markup of a page.

Written down apart from what `stepwhy.base.text` escapes, so that the two can disagree.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# C0 and C1 controls, bidirectional controls, line and paragraph separators, surrogates.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_MARKUP = re.compile(r"<script>stepwhy|<img src=x|</script><b>stepwhy|onload=stepwhy\(")


def broken_text(data: bytes) -> Iterator[str]:
    """What is wrong with text for a terminal, as 'promise: details'.

    Args:
        data: What was printed.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        yield f"encoding: {error}"
        return
    found = _CONTROL.search(text)
    if found:
        around = text[max(0, found.start() - 80) : found.end() + 80]
        yield f"control character U+{ord(found[0]):04X}: {around!r}"
    if "Traceback (most recent call last)" in text:
        yield f"traceback: {text[-2000:]}"


def broken_document(data: bytes) -> Iterator[str]:
    """What is wrong with a JSON document, as 'promise: details'."""
    yield from broken_text(data)
    try:
        json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        yield f"json: {error}"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def broken_page(data: bytes) -> Iterator[str]:
    """What is wrong with an HTML page, as 'promise: details'."""
    yield from broken_text(data)
    found = _MARKUP.search(data.decode(errors="replace"))
    if found:
        yield f"markup {found[0]}: in the page"
