"""Where a web server may redirect a request to.

The address that a user names is the user's choice, in whatever network it lies. A redirect is the
server's choice: it never leads to another protocol, from https to http, or to a network that is
less public than where it comes from. That keeps a web site from making this machine ask its own
services or those of its network, such as the credentials that clouds serve at 169.254.169.254.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from enum import IntEnum
from typing import TYPE_CHECKING
from urllib.request import getproxies, proxy_bypass

from aiohttp.abc import AbstractResolver
from yarl import URL

from stepwhy.errors import UnreachableError
from stepwhy.inputs.remote.addresses import WEB, shown

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult


class Zone(IntEnum):
    """How far a network reaches; a redirect never leads to a higher one."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    LINK_LOCAL = 3


def zone_of(address: str) -> Zone:
    """The zone of an IP address.

    Raises:
        ValueError: It is none.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_link_local:
        return Zone.LINK_LOCAL
    if ip.is_loopback or ip.is_unspecified:  # the unspecified address connects to this machine
        return Zone.LOOPBACK
    return Zone.PUBLIC if ip.is_global else Zone.PRIVATE


class Resolver(AbstractResolver):
    """Resolves names once: a connection goes to the addresses whose zone was checked."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], list[ResolveResult]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of a host.

        Raises:
            OSError: There are none.
        """
        if (host, port) not in self._found:
            answers = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM, family=family
            )
            self._found[host, port] = [
                {
                    "hostname": host,
                    "host": str(address[0]),
                    "port": port,
                    "family": kind,
                    "proto": protocol,
                    "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                }
                for kind, _, protocol, _, address in answers
            ]
        return self._found[host, port]

    async def close(self) -> None:
        """Nothing to release."""

    async def zones(self, url: URL) -> set[Zone]:
        """The zones of the addresses that a URL's host has, as far as this machine asks for them.

        A proxy resolves names on its own: they count as public unless they name this machine.
        """
        host = url.host or ""
        try:
            return {zone_of(host)}
        except ValueError:
            pass
        if proxy_for(url) is not None:
            is_local = host.removesuffix(".").endswith("localhost")
            return {Zone.LOOPBACK if is_local else Zone.PUBLIC}
        return {zone_of(found["host"]) for found in await self.resolve(host, url.port or 0)}


def proxy_for(url: URL) -> str | None:
    """The proxy that the environment names for a URL; None for a direct connection."""
    if proxy_bypass(url.host or ""):
        return None
    proxy = getproxies().get(url.scheme)
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def as_url(address: str) -> URL:
    """An address as a URL; what is quoted already stays as it is, as signatures need it.

    Raises:
        ValueError: It is none.
    """
    return URL(address, encoded=re.fullmatch(r"[!-~]*", address) is not None)


async def follow(url: URL, location: str, resolver: Resolver) -> URL:
    """The URL that a server redirects to.

    Args:
        url: What was asked for.
        location: What the server answered.
        resolver: Knows the networks of hosts.

    Raises:
        UnreachableError: The redirect is not followed.
        ValueError: It leads to no valid URL.
        OSError: Its host is not known.
    """
    target = url.join(as_url(location))
    if target.scheme not in WEB or not target.host:
        _refuse(url, target, "which is not an http or https address")
    target = target.with_user(None)
    if url.scheme == "https" and target.scheme == "http":
        _refuse(url, target, "which is not encrypted")
    if target.host != url.host:
        before, after = await resolver.zones(url), await resolver.zones(target)
        if max(after) > min(before):
            _refuse(url, target, "which is in a less public network")
    return target


def _refuse(url: URL, target: URL, why: str) -> None:
    raise UnreachableError(
        f"{shown(str(url))} redirects to {shown(str(target))}, {why}",
        "If you trust it, give the address that it redirects to",
    )


def keeps_login(url: URL, target: URL) -> bool:
    """Whether a redirect stays on the server that a login is meant for; it may begin to encrypt."""
    is_upgrade = (url.scheme, url.port, target.scheme, target.port) == ("http", 80, "https", 443)
    return url.origin() == target.origin() or (is_upgrade and url.host == target.host)


__all__ = ["Resolver", "Zone", "as_url", "follow", "keeps_login", "proxy_for", "zone_of"]
