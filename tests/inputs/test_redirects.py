"""Which redirects are followed, and with which login."""

from __future__ import annotations

import asyncio
import socket

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

from yarl import URL

from stepwhy.base.errors import UnreachableError
from stepwhy.read.inputs.remote.redirects import (
    Resolver,
    Zone,
    as_url,
    follow,
    keeps_login,
    proxy_for,
    zone_of,
)

ADDRESSES = {
    "public.test": ["93.184.216.34"],
    "other.test": ["2606:2800:220:1::1"],
    "inside.test": ["10.0.0.7"],
    "mixed.test": ["93.184.216.34", "127.0.0.1"],
    "local.test": ["127.0.0.1"],
    "metadata.test": ["169.254.169.254"],
}


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """A name service without a proxy; returns the resolved names."""
    asked = []

    def getaddrinfo(host, port, *_args, **_options):
        asked.append(host)
        if host.startswith("2130706433"):  # as the C library reads it
            return [(socket.AF_INET, 0, 6, "", ("127.0.0.1", port))]
        return [(socket.AF_INET, 0, 6, "", (ip, port)) for ip in ADDRESSES[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return asked


def followed(url, location):
    return str(asyncio.run(follow(URL(url), location, Resolver())))


@pytest.mark.parametrize(
    ("address", "zone"),
    [
        ("93.184.216.34", Zone.PUBLIC),
        ("2606:2800:220:1::1", Zone.PUBLIC),
        ("10.0.0.7", Zone.PRIVATE),
        ("192.168.1.1", Zone.PRIVATE),
        ("100.100.100.200", Zone.PRIVATE),
        ("fd00:ec2::254", Zone.PRIVATE),
        ("127.0.0.1", Zone.LOOPBACK),
        ("0.0.0.0", Zone.LOOPBACK),  # noqa: S104 - nothing is bound to it
        ("::1", Zone.LOOPBACK),
        ("::ffff:127.0.0.1", Zone.LOOPBACK),
        ("::ffff:169.254.169.254", Zone.LINK_LOCAL),
        ("169.254.169.254", Zone.LINK_LOCAL),
        ("fe80::1%eth0", Zone.LINK_LOCAL),
    ],
)
def test_zones(address, zone):
    assert zone_of(address) == zone


@pytest.mark.parametrize(
    ("url", "location", "expected"),
    [
        ("https://public.test/a/b", "c", "https://public.test/a/c"),
        ("https://public.test/a", "//other.test/c?sig=a%2Bb", "https://other.test/c?sig=a%2Bb"),
        ("http://public.test/a", "https://someone:pw@other.test/c", "https://other.test/c"),
        ("http://local.test/a", "http://127.0.0.1:81/c", "http://127.0.0.1:81/c"),
        ("http://local.test/a", "http://inside.test/c", "http://inside.test/c"),
        ("http://inside.test/a", "http://public.test/c", "http://public.test/c"),
        ("http://169.254.0.1/a", "/c", "http://169.254.0.1/c"),
    ],
)
def test_allowed_redirects(url, location, expected):
    assert followed(url, location) == expected


@pytest.mark.parametrize(
    ("url", "location", "why"),
    [
        ("https://public.test/", "http://public.test/", "is not encrypted"),
        ("https://public.test/", "http://other.test/", "is not encrypted"),
        ("https://public.test/", "file:///etc/passwd", "is not an http or https address"),
        ("http://public.test/", "http://169.254.169.254/x", "less public"),
        ("http://public.test/", "http://metadata.test/x", "less public"),
        ("http://public.test/", "http://127.0.0.1/x", "less public"),
        ("http://public.test/", "http://2130706433/x", "less public"),
        ("http://public.test/", "http://[::ffff:7f00:1]/x", "less public"),
        ("http://public.test/", "http://local.test/x", "less public"),
        ("http://public.test/", "http://mixed.test/x", "less public"),
        ("http://mixed.test/", "http://local.test/x", "less public"),
        ("http://public.test/", "http://inside.test/x", "less public"),
        ("http://inside.test/", "http://local.test/x", "less public"),
        ("http://local.test/", "http://metadata.test/x", "less public"),
    ],
)
def test_refused_redirects(url, location, why):
    with pytest.raises(UnreachableError, match=why) as caught:
        followed(url, location)
    assert "give the address that it redirects to" in str(caught.value)


def test_host_is_resolved_once(names, monkeypatch):
    """A second query could give an address that was not checked."""

    async def both():
        resolver = Resolver()
        first = await resolver.resolve("public.test", 80)
        monkeypatch.setitem(ADDRESSES, "public.test", ["127.0.0.1"])
        return first, await resolver.resolve("public.test", 80)

    first, second = asyncio.run(both())
    assert first == second
    assert names == ["public.test"]


def test_proxy_resolves_hosts(names, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://proxy.test:3128")
    assert proxy_for(URL("http://public.test/")) == "http://proxy.test:3128"
    assert proxy_for(URL("https://public.test/")) is None
    assert followed("http://public.test/", "http://inside.test/x") == "http://inside.test/x"
    assert names == []
    for local in ("http://localhost/x", "http://a.localhost./x", "http://169.254.169.254/x"):
        with pytest.raises(UnreachableError, match="less public"):
            followed("http://public.test/", local)
    monkeypatch.setenv("no_proxy", "public.test")
    assert proxy_for(URL("http://public.test/")) is None


@pytest.mark.parametrize(
    ("url", "target", "expected"),
    [
        ("https://h/a", "https://h/b", True),
        ("http://h/a", "https://h/a", True),
        ("http://h/a", "https://h:8443/a", False),
        ("http://h/a", "http://h:8080/a", False),
        ("https://h/a", "https://other/a", False),
    ],
)
def test_redirects_that_keep_the_login(url, target, expected):
    assert keeps_login(URL(url), URL(target)) is expected


def test_quoted_address_is_unchanged():
    assert str(as_url("https://h/a%2bb?sig=c%2Bd")) == "https://h/a%2bb?sig=c%2Bd"
    assert str(as_url("https://h/ä b")) == "https://h/%C3%A4%20b"
