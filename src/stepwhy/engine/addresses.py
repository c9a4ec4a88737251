"""Addresses as text: what may be shown of one, and what it asks for."""

from __future__ import annotations

import re

from stepwhy.patterns import regex

WEB = frozenset({"http", "https"})
"""The schemes of the web, where a question mark begins the query."""
MAGIC = regex(r"[*?\[]")
"""What makes a path a glob."""


def shown(address: str) -> str:
    """An address without user, password, query and fragment, as it may be shown; a path as is."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return address
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def is_pattern(address: str) -> bool:
    """Whether an address is a glob; on the web a question mark begins the query."""
    _, path = split(address)
    return MAGIC.search(path.partition("/")[2]) is not None


def split(address: str) -> tuple[str, str]:
    """Scheme, and what follows it up to the query."""
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    return scheme, re.split(r"[?#]", rest, maxsplit=1)[0] if scheme in WEB else rest


__all__ = ["MAGIC", "WEB", "is_pattern", "shown", "split"]
