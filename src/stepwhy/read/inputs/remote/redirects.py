"""Check the redirects of web servers.

A user may name an address in any network. But a redirect, which the server chooses, must not lead
to another protocol, from https to http, or to a less public network. Otherwise a web site could
make this machine send requests to itself or its local network, such as to the credentials that
clouds serve at 169.254.169.254.
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

from stepwhy.base.errors import UnreachableError
from stepwhy.read.inputs.remote.addresses import WEB, shown

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult


class Zone(IntEnum):
    """How far a network reaches; a redirect never leads to a higher one."""

    PUBLIC = 0
    PRIVATE = 1
    LOOPBACK = 2
    LINK_LOCAL = 3


def zone_of(address: str) -> Zone:
    """Zone of an IP address.

    Raises:
        ValueError: If it is not an IP address.
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
        """Addresses of a host.

        Raises:
            OSError: If there are none.
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
        """Do nothing."""

    async def zones(self, url: URL) -> set[Zone]:
        """Zones of the addresses of a URL's host.

        Names that a proxy resolves count as public, unless they name this machine.
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
    """Proxy for a URL, according to the environment; None for a direct connection."""
    if proxy_bypass(url.host or ""):
        return None
    proxy = getproxies().get(url.scheme)
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def as_url(address: str) -> URL:
    """An address as a URL; quoted characters stay unchanged, because signatures depend on them.

    Raises:
        ValueError: If it is not a URL.
    """
    return URL(address, encoded=re.fullmatch(r"[!-~]*", address) is not None)


async def follow(url: URL, location: str, resolver: Resolver) -> URL:
    """The URL of a redirect, if it may be followed.

    Args:
        url: The requested URL.
        location: The `Location` header of the response.
        resolver: Resolves hosts.

    Raises:
        UnreachableError: If the redirect must not be followed.
        ValueError: If the location is not a valid URL.
        OSError: If its host is unknown.
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
    """Whether a redirect stays on the server, or only switches to https: the login is then kept."""
    is_upgrade = (url.scheme, url.port, target.scheme, target.port) == ("http", 80, "https", 443)
    return url.origin() == target.origin() or (is_upgrade and url.host == target.host)
