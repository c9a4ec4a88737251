"""Addresses as text: the part that may be shown, and its components."""

from __future__ import annotations

import re
from urllib.parse import quote

from stepwhy.base.patterns import regex

WEB = frozenset({"http", "https"})
"""Schemes of the web, in which a question mark starts the query."""
MAGIC = regex(r"[*?\[]")
"""Characters that make a path a glob."""


_CONTROL = regex(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# A host with an invalid port: really a login that contains a '/', '?' or '#'.
_TORN_LOGIN = regex(r"[^\[\]]*:(?!\d*$)[^\[\]]*")

# An address with only one slash is parsed as a path.
_ONE_SLASH = regex(r"\A((?:https?|s3|gs|gcs):/?)[^/].*[@?].*", re.IGNORECASE | re.DOTALL)


def shown(address: str) -> str:
    """An address without user, password, query and fragment, safe to show; a path unchanged.

    Control characters, which a listing may contain, are quoted.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        return _ONE_SLASH.sub(r"\1...", address)
    host, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    host = host.rpartition("@")[2]
    if _TORN_LOGIN.fullmatch(host):
        return f"{scheme}://..."
    return _CONTROL.sub(
        lambda found: quote(found[0], errors="replace"), f"{scheme}://{host}{slash}{path}"
    )


def is_pattern(address: str) -> bool:
    """Whether an address is a glob; on the web, a question mark starts the query instead."""
    _, path = split(address)
    return MAGIC.search(path.partition("/")[2]) is not None


def is_file_name(path: str) -> bool:
    """Whether a path in a listing is a file or folder below the listed folder.

    It is not if it leads up or to the root, is hidden, or is a link with a query.
    """
    is_below = all(part and not part.startswith(".") for part in path.split("/"))
    return is_below and "?" not in path


def split(address: str) -> tuple[str, str]:
    """Scheme, and the rest of the address up to the query."""
    scheme, _, rest = address.partition("://")
    scheme = scheme.lower()
    return scheme, re.split(r"[?#]", rest, maxsplit=1)[0] if scheme in WEB else rest
