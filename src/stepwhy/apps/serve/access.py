"""Who may read and who may write.

A browser sends requests for any page that it shows. So a request counts as the user's own only if

- `Host` is a name of this server: otherwise another site has pointed its own name at this address
  (DNS rebinding) and could read the answers;
- `Origin` and `Sec-Fetch-Site` do not name another site: otherwise a page of that site sent it;
- for everything that writes, it has the token of the address that was printed at the start: as a
  header, or as a cookie together with a form field that only our own pages contain.

Sources: RFC 6265bis (SameSite), Fetch Standard (Origin), Fetch Metadata Request Headers.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_HEADER = "x-stepwhy-token"  # noqa: S105 - the name of a header
TOKEN_PARAMETER = "token"  # noqa: S105 - the name of a parameter
FORM_FIELD = "form_key"
_LOOPBACK_NAMES = frozenset({"localhost"})
_READING = frozenset({"GET", "HEAD"})

_NOT_IN_A_HOST = set("@,/?#\\ \t")


class Access:
    """The rules of one server.

    Args:
        host: The address that it listens on, as a number.
        port: Its port.
        names: Further names by which it may be addressed, such as that of `--host`.
        private: Whether reading needs the token, too; always so for an address that other machines
            can reach.

    Attributes:
        token: The token, random for each start.
        form_key: What forms of our own pages contain.
        cookie: Value of the cookie of a browser that has shown the token.
        is_private: Whether reading needs the token.
    """

    def __init__(
        self, host: str, port: int, *, names: tuple[str, ...] = (), private: bool = False
    ) -> None:
        self.token, self.form_key, self.cookie = (secrets.token_urlsafe(32) for _ in range(3))
        self.is_local = is_loopback(host)
        self.is_private = private or not self.is_local
        # Browsers send cookies to all ports of a host: the name keeps two servers apart.
        self.cookie_name = f"stepwhy-{port}"
        own = _LOOPBACK_NAMES if self.is_local else {socket.gethostname().lower()}
        self._names = {*own, *(name.lower() for name in names)}

    def refusal(self, method: str, headers: Mapping[str, str]) -> str:
        """Why a request is refused, whoever sent it; '' if it is not.

        Args:
            method: Its method.
            headers: Its headers, with names in lower case.
        """
        host = headers.get("host", "")
        if not self._is_own(host):
            return "This server does not serve the name in the address."
        site = headers.get("sec-fetch-site", "")
        origin = headers.get("origin")
        # A form of a page with `Referrer-Policy: no-referrer` sends the origin 'null'. Pages in a
        # sandbox do as well, but they are another site.
        is_own_form = origin == "null" and site == "same-origin"
        if origin is not None and not is_own_form and not _is_same(origin, host):
            return "Requests of other sites are refused."
        # Whether the user followed a link on another site, which cannot read the answer.
        is_followed_link = (
            method in _READING
            and headers.get("sec-fetch-mode") == "navigate"
            and headers.get("sec-fetch-dest") == "document"
        )
        if site in {"cross-site", "same-site"} and not is_followed_link:
            return "Requests of other sites are refused."
        return ""

    def knows(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> bool:
        """Whether a request comes from somebody who has the token.

        Args:
            headers: Its headers, with names in lower case.
            cookies: Its cookies.
        """
        return self.is_token(headers.get(TOKEN_HEADER, "")) or _equal(
            cookies.get(self.cookie_name, ""), self.cookie
        )

    def may_write(
        self, headers: Mapping[str, str], cookies: Mapping[str, str], form: Mapping[str, str]
    ) -> bool:
        """Whether a request may change something.

        Args:
            headers: Its headers, with names in lower case.
            cookies: Its cookies.
            form: The fields of its form.
        """
        if self.is_token(headers.get(TOKEN_HEADER, "")):
            return True
        return self.knows(headers, cookies) and _equal(form.get(FORM_FIELD, ""), self.form_key)

    def is_token(self, text: str) -> bool:
        """Whether a text is the token; takes the same time for every text of its length."""
        return _equal(text, self.token)

    def _is_own(self, host: str) -> bool:
        name = _name_of(host)
        address = _address(name)
        if address is None:
            return name in self._names
        # Nobody can point a name at an address without having it in `Host`.
        return address.is_loopback if self.is_local else True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Args:
        host: The address, as a number.
    """
    address = _address(host)
    return address is not None and address.is_loopback


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return None


def _name_of(host: str) -> str:
    """The name or address in a `Host` header; '' if it is not valid."""
    if _NOT_IN_A_HOST & set(host):
        return ""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_same(origin: str, host: str) -> bool:
    """Whether an origin is this server: the port counts, as programs of others may have others."""
    scheme, _, netloc = origin.partition("://")
    return scheme in {"http", "https"} and netloc.lower() == host.lower()


def _equal(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())
