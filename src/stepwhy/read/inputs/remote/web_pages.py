"""Pages on which web servers list folders: their links, and names that match a glob."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from html import unescape
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

from stepwhy.base.patterns import regex
from stepwhy.read.inputs.remote.addresses import is_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Longer links are not files: servers refuse requests for them.
_LINK = regex(
    rb"""<a\s[^<>]*?\bhref\s*=\s*(?:"([^"]{1,8000})"|'([^']{1,8000})'|([^\s"'<>]{1,8000}))""",
    re.IGNORECASE,
)
_PLAIN = regex(r"[\w+=~-][\w.+=~-]*/?")


def linked_names(page: bytes | bytearray, folder: str) -> Iterator[str]:
    """Names below a folder that the links on its page lead to.

    Args:
        page: The page as HTML.
        folder: Address of the folder, with a trailing slash.

    Yields:
        For each link, its path relative to the folder, with a trailing slash for a folder; '' for
        a link that leads elsewhere.
    """
    base = urlsplit(folder)
    for match in _LINK.finditer(page):
        link = (match[1] or match[2] or match[3]).decode("utf-8", "replace")
        text = unescape(link).strip()
        name = text if _PLAIN.fullmatch(text) else _name_below(text, folder, base.hostname)
        yield name if is_file_name(unquote(name).removesuffix("/")) else ""


def _name_below(link: str, folder: str, host: str | None) -> str:
    """Path of a link relative to a folder; '' for a link that leads elsewhere."""
    try:
        target = urlsplit(urljoin(folder, link))
    except ValueError:
        return ""
    path = urlsplit(folder).path
    is_below = target.path.startswith(path) and target.hostname == host and not target.query
    return target.path[len(path) :] if is_below else ""


def matches(names: Sequence[str], pattern: Sequence[str], *, or_above: bool = False) -> bool:
    """Whether a path matches a glob, in which '**' stands for any number of folders.

    Args:
        names: Components of the path.
        pattern: Components of the glob.
        or_above: Also accept a folder in which something could match.
    """
    if not names:
        return or_above or all(part == "**" for part in pattern)
    if not pattern:
        return False
    if pattern[0] == "**":
        return matches(names, pattern[1:], or_above=or_above) or matches(
            names[1:], pattern, or_above=or_above
        )
    is_match = fnmatchcase(names[0], pattern[0])
    return is_match and matches(names[1:], pattern[1:], or_above=or_above)


__all__ = ["linked_names", "matches"]
