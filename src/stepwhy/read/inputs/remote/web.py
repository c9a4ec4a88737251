"""Files and folders on the web, within a budget.

Source: RFC 9110 (redirects, content codings), RFC 7617 (Basic authentication).
"""

from __future__ import annotations

import base64
import netrc
import os
import re
import zlib
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from html import unescape
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

import aiohttp

from stepwhy.base.errors import UnreachableError
from stepwhy.base.patterns import regex
from stepwhy.read.inputs.remote.addresses import MAGIC, is_file_name, shown, split
from stepwhy.read.inputs.remote.redirects import Resolver, as_url, follow, keeps_login, proxy_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence
    from typing import Self

    from yarl import URL

    from stepwhy.read.inputs.remote.budget import Budget

    Report = Callable[[int | None], None]

_CHUNK = 1 << 20
_IS_REDIRECT = frozenset({301, 302, 303, 307, 308})
# The requested file, possibly changed by a proxy. Part of a file (206) is not accepted.
_IS_WHOLE = frozenset({HTTPStatus.OK, HTTPStatus.NON_AUTHORITATIVE_INFORMATION})
_IS_MISSING = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.GONE})
_GZIP = 31  # zlib's window bits for a gzip header
_GZIP_MAGIC = b"\x1f"

# Longer links are not files: servers refuse requests for them.
_LINK = regex(
    rb"""<a\s[^<>]*?\bhref\s*=\s*(?:"([^"]{1,8000})"|'([^']{1,8000})'|([^\s"'<>]{1,8000}))""",
    re.IGNORECASE,
)
_PLAIN = regex(r"[\w+=~-][\w.+=~-]*/?")


class Web:
    """Reads web addresses in one session; used as an asynchronous context manager."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    async def __aenter__(self) -> Self:
        self._resolver = Resolver()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False),
            headers={"Accept-Encoding": "gzip"},
            auto_decompress=False,  # would decompress any amount of data at once
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30),  # rest: budget
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def is_folder(self, address: str) -> bool:
        """Whether an address is a folder: whether it ends with a slash."""
        return split(address)[1].endswith("/")

    # --- Requests ---

    @asynccontextmanager
    async def _answer(self, address: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Response of an address, after following redirects."""
        named = as_url(address)
        login = _login(named)
        url, times = named.with_user(None), 0
        while True:
            headers = {"Authorization": login} if login else {}
            async with self._session.get(
                url, headers=headers, allow_redirects=False, proxy=proxy_for(url)
            ) as response:
                location = response.headers.get("Location")
                if response.status not in _IS_REDIRECT or location is None:
                    response.raise_for_status()
                    if response.status not in _IS_WHOLE:
                        raise aiohttp.ClientResponseError(
                            response.request_info, response.history, status=response.status
                        )
                    self._budget.restart_window()
                    yield response
                    return
            times += 1
            self._budget.redirected(times)
            target = await follow(url, location, self._resolver)
            login = login if keeps_login(url, target) else ""
            url = target

    async def copy(self, address: str, target: Path, report: Report) -> None:
        """Copy a file.

        Args:
            address: Address of the file.
            target: Path of the copy, which must not exist.
            report: Called with the size in bytes, or None if unknown, after each write.
        """
        async with self._answer(address) as response:
            size = None if _is_gzip(response) else response.content_length
            report(size)
            self._budget.check_space(target.parent, size or 0)
            with target.open("xb") as file:
                async for chunk in _content(response, shown(address)):
                    self._budget.received(len(chunk))
                    self._budget.check_space(target.parent)
                    file.write(chunk)
                    report(size)

    # --- Folders ---

    async def find(self, folder: str) -> dict[str, str]:
        """Files below a folder: address by path in it."""
        return {
            path: address
            async for path, address, is_folder in self._list_folder(folder, ["**"])
            if not is_folder
        }

    async def glob(self, address: str) -> dict[str, bool]:
        """Addresses that match a glob, and whether each is a folder."""
        scheme, path = split(address)
        host, *parts = path.split("/")
        fixed = next(at for at, part in enumerate(parts) if MAGIC.search(part))
        folder = "/".join([f"{scheme}://{host}", *parts[:fixed], ""])
        pattern = [unquote(part) for part in parts[fixed:]]
        needs_folder = pattern[-1] == ""
        pattern = pattern[:-1] if needs_folder else pattern
        return {
            address.rstrip("/"): is_folder
            async for path, address, is_folder in self._list_folder(folder, pattern)
            if _matches(path.split("/"), pattern) and is_folder >= needs_folder
        }

    async def _list_folder(
        self, root: str, pattern: list[str]
    ) -> AsyncIterator[tuple[str, str, bool]]:
        """Path and address of each entry below a folder, and whether it is a folder.

        Only folders in which the pattern could match are listed.
        """
        pending, seen = [root], {root}
        while pending:
            folder = pending.pop()
            for name in _linked_names(await self._page(folder, is_root=folder == root), folder):
                self._budget.listed()  # also for links that lead elsewhere, as each takes time
                address = folder + name
                if address in seen:
                    continue
                seen.add(address)
                is_folder = name.endswith("/")
                path = unquote(address[len(root) :]).rstrip("/")
                yield path, address, is_folder
                parts = path.split("/")
                is_deep = len(parts) >= self._budget.limits.depth
                if is_folder and not is_deep and _matches(parts, pattern, or_above=True):
                    pending.append(address)

    async def _page(self, folder: str, *, is_root: bool) -> bytearray:
        """The page that lists a folder; empty for other content and for a broken link."""
        self._budget.listing_folder()
        try:
            with self._budget.transfer(shown(folder)):
                return await self._html(folder)
        except aiohttp.ClientResponseError as error:
            if is_root or error.status not in _IS_MISSING:
                raise
            return bytearray()

    async def _html(self, address: str) -> bytearray:
        page = bytearray()
        async with self._answer(address) as response:
            kind = response.headers.get("Content-Type", "text/html")
            if kind.partition(";")[0].strip().lower() == "text/html":
                async for chunk in _content(response, shown(address)):
                    self._budget.received_listing(len(chunk))
                    page += chunk
        return page


async def _content(response: aiohttp.ClientResponse, place: str) -> AsyncIterator[bytes]:
    """Content of a response; a gzip content coding is decoded.

    Other codings were not requested: a file that is stored with one stays as it is.
    """
    decoder = _Gzip(place) if _is_gzip(response) else None
    while chunk := await response.content.read(_CHUNK):
        if decoder is None:
            yield chunk
        else:
            for part in decoder.decode(chunk):
                yield part
    if decoder is not None:
        decoder.finish()


def _is_gzip(response: aiohttp.ClientResponse) -> bool:
    coding = response.headers.get("Content-Encoding", "")
    return coding.strip().lower() in {"gzip", "x-gzip"}


class _Gzip:
    """Decompresses a stream in chunks of bounded size."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._stream = zlib.decompressobj(_GZIP)
        self._has_started = False

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Decompress the next bytes."""
        while data:
            if self._stream.eof:  # another stream may follow, or padding
                if not data.startswith(_GZIP_MAGIC):
                    return
                self._stream = zlib.decompressobj(_GZIP)
            self._has_started = True
            if part := self._stream.decompress(data, _CHUNK):
                yield part
            data = self._stream.unconsumed_tail or self._stream.unused_data

    def finish(self) -> None:
        """Raise if the stream ends early."""
        if self._has_started and not self._stream.eof:
            raise UnreachableError(f"{self._place} breaks off", "Try again")


def _login(url: URL) -> str:
    """Authorization header for an address, from its login or that of its host in .netrc; or ''."""
    login = (url.user, url.password or "") if url.user is not None else _netrc_login(url.host)
    if login is None:
        return ""
    return "Basic " + base64.b64encode(":".join(login).encode()).decode()


def _netrc_login(host: str | None) -> tuple[str, str] | None:
    file = os.environ.get("NETRC") or Path("~/.netrc").expanduser()
    try:
        found = netrc.netrc(str(file)).authenticators(host or "")
    except (OSError, netrc.NetrcParseError, RuntimeError):  # RuntimeError: no home
        return None
    return None if found is None else (found[0], found[2] or "")


def _linked_names(page: bytes | bytearray, folder: str) -> Iterator[str]:
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


def _matches(names: Sequence[str], pattern: Sequence[str], *, or_above: bool = False) -> bool:
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
        return _matches(names, pattern[1:], or_above=or_above) or _matches(
            names[1:], pattern, or_above=or_above
        )
    is_match = fnmatchcase(names[0], pattern[0])
    return is_match and _matches(names[1:], pattern[1:], or_above=or_above)
