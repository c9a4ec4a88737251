"""Limits of one command on reading from addresses: bytes, time, redirects and listings.

The server decides how much data an address has, how fast it arrives and where it redirects to. All
requests of a command share one `Budget`, for every protocol. Each limit is far above what traces
need, and can be changed by an environment variable.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import msgspec

from stepwhy.base.errors import RemoteLimitError, TooLargeError, UnreachableError
from stepwhy.base.patterns import regex
from stepwhy.base.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

PREFIX = "STEPWHY_REMOTE_"
"""Prefix of the environment variables, which are named after the fields of `Limits`."""

_NUMBER = regex(r"(\d{1,18})([KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one command on reading from addresses.

    Args:
        bytes: Total of copied bytes.
        seconds: Total time of waiting for servers.
        rate: Minimum bytes per second while a file is copied.
        window: Seconds over which the rate is measured; silence for as long ends a transfer.
        reserve: Bytes that stay free on the disk of the copies; a tenth of a small disk.
        redirects: Redirects of one address.
        files: Total number of files in listings.
        folders: Total number of listed folders.
        depth: Levels below a folder that are searched.
        listing_bytes: Total size of the pages that list folders.
        listing_seconds: Total time of listing folders.
    """

    bytes: int = 1 << 40
    seconds: int = 24 * 3600
    rate: int = 1 << 10
    window: int = 60
    reserve: int = 1 << 30
    redirects: int = 10
    files: int = 1_000_000
    folders: int = 2_000
    depth: int = 8
    listing_bytes: int = 1 << 28
    listing_seconds: int = 120


# How each limit is exceeded, and how to print it.
_EXCEEDED: dict[str, tuple[str, Callable[[int], str]]] = {
    "bytes": ("exceeds the {} that one command may copy from addresses", format_bytes),
    "seconds": ("exceeds the {} seconds that one command may wait for servers", str),
    "redirects": ("redirects more than {} times", str),
    "files": ("lists more than {} files", "{:,}".format),
    "folders": ("has more than {} folders to list", "{:,}".format),
    "listing_bytes": ("needs more than {} to list its files", format_bytes),
    "listing_seconds": ("takes more than {} seconds to list", str),
}


def limits_of(environment: Mapping[str, str]) -> Limits:
    """Limits from environment variables, or their defaults.

    Raises:
        RemoteLimitError: If a variable is not a whole number, optionally followed by K, M, G or T.
    """
    names = {field: PREFIX + field.upper() for field in Limits.__struct_fields__}
    values = {f: _number(n, environment[n]) for f, n in names.items() if environment.get(n)}
    return Limits(**values)


def _number(name: str, text: str) -> int:
    number = _NUMBER.fullmatch(text.strip().upper())
    if number is None:
        raise RemoteLimitError(
            f"{name} is not a whole number",
            f"Set {name} to a number such as 100 or 10G, or unset it",
        )
    return int(number[1]) * _UNITS[number[2]]


class Budget:
    """Counts what the requests of one command use, and raises when a limit is exceeded.

    Requests run in another thread than the one that waits for them; both call `check`.

    Args:
        limits: Limits; by default those of the environment.
        clock: Monotonic clock in seconds.

    Attributes:
        place: The address that is being read, safe to show.
        done: Bytes received in its current transfer.
    """

    def __init__(
        self, limits: Limits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or limits_of(os.environ)
        self.place = ""
        self.done = 0
        self._clock = clock
        self._used = dict.fromkeys(_EXCEEDED, 0.0)
        self._timed: tuple[str, ...] = ()
        self._timed_since = 0.0
        self._window_since: float | None = None
        self._window_bytes = 0

    # --- Time ---

    @contextmanager
    def waiting(self, place: str, *, listing: bool = False) -> Iterator[None]:
        """Count the time in this block.

        Args:
            place: The requested address, safe to show.
            listing: Whether the request lists a folder.
        """
        self.place, self.done = place, 0
        self._timed = ("seconds", "listing_seconds") if listing else ("seconds",)
        self._timed_since = self._clock()
        self._window_since = None
        try:
            yield
        finally:
            passed = self._clock() - self._timed_since
            for name in self._timed:
                self._used[name] += passed

    @contextmanager
    def transfer(self, place: str) -> Iterator[None]:
        """Require the minimum rate in this block.

        Args:
            place: The address that the bytes come from, safe to show.
        """
        self.place, self.done = place, 0
        self.restart_window()
        try:
            yield
        finally:
            self._window_since = None

    def restart_window(self) -> None:
        """Restart the measurement of the rate, because the response has started."""
        self._window_since, self._window_bytes = self._clock(), 0

    def check(self) -> None:
        """Raise if too much time has passed.

        Raises:
            RemoteLimitError: If it exceeds a total, or the rate is too low.
            UnreachableError: If not a single byte arrived.
        """
        now = self._clock()
        for name in self._timed:
            self._check(name, now - self._timed_since)
        if self._window_since is not None:
            self._check_rate(now - self._window_since)

    def _check_rate(self, passed: float) -> None:
        if passed < self.limits.window:
            return
        if not self._window_bytes:
            _silent(self.place, self.done, self.limits.window)
        if self._window_bytes < self.limits.rate * passed:
            name = f"{PREFIX}RATE"
            raise RemoteLimitError(
                f"{self.place} sends less than {format_bytes(self.limits.rate)} per second, "
                f"measured over {self.limits.window} s ({name}, {PREFIX}WINDOW)",
                f"Try again later, set {name} to a lower number, or download it with another "
                "program and give the local file",
            )
        self.restart_window()

    # --- Amounts ---

    def received(self, size: int) -> None:
        """Count bytes of a copy, if possible before they are written."""
        self._arrived(size)
        self._spend("bytes", size)

    def received_listing(self, size: int) -> None:
        """Count bytes of a page that lists a folder."""
        self._arrived(size)
        self._spend("listing_bytes", size)

    def _arrived(self, size: int) -> None:
        self.done += size
        self._window_bytes += size
        self.check()

    def listed(self, files: int = 1) -> None:
        """Count files and folders in a listing."""
        self._spend("files", files)

    def listing_folder(self) -> None:
        """Count a folder that is about to be listed."""
        self._spend("folders", 1)

    def redirected(self, times: int) -> None:
        """Check how often one address has redirected."""
        if times > self.limits.redirects:
            self._exceed("redirects")

    def check_space(self, folder: Path, missing: int = 0) -> None:
        """Raise if a copy would leave less than the reserve on its disk.

        Args:
            folder: Folder of the copy.
            missing: Bytes that are still expected, as far as known.

        Raises:
            TooLargeError: If there is not enough space.
            RemoteLimitError: If the expected bytes exceed the limit.
        """
        self._check("bytes", missing)
        disk = shutil.disk_usage(folder)
        reserve = min(self.limits.reserve, disk.total // 10)
        if disk.free - missing < reserve:
            raise TooLargeError(
                f"{self.place} holds {format_bytes(self.done + missing)} or more, but the disk has "
                f"{format_bytes(disk.free)} free, of which {format_bytes(reserve)} stay reserved "
                f"({PREFIX}RESERVE)",
                "Set TMPDIR to a folder with more space",
            )

    def _spend(self, name: str, amount: float) -> None:
        self._used[name] += amount
        self._check(name)

    def _check(self, name: str, more: float = 0) -> None:
        if self._used[name] + more > getattr(self.limits, name):
            self._exceed(name)

    def _exceed(self, name: str) -> NoReturn:
        words, format_limit = _EXCEEDED[name]
        variable = PREFIX + name.upper()
        raise RemoteLimitError(
            f"{self.place} {words.format(format_limit(getattr(self.limits, name)))} ({variable})",
            f"If you trust it, set {variable} to a higher number",
        )


def _silent(place: str, done: int, window: int) -> NoReturn:
    # Headers may have arrived, one byte at a time; that is not known here.
    what = f"breaks off after {format_bytes(done)}" if done else f"sent no content for {window} s"
    raise UnreachableError(
        f"{place} {what}",
        "Check address and network and try again, or download it and pass the local file",
    )
