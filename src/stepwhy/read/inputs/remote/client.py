"""List files at addresses, and fetch private copies.

`aiohttp` reads the web; `fsspec` and its plug-ins read buckets. They are imported on demand. Their
exceptions become errors of stepwhy without the original text, because it may contain the full
address with a password or a signature.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from stepwhy.base.errors import (
    InputError,
    NotFoundError,
    TooLargeError,
    UnreachableError,
    UnsupportedFormatError,
)
from stepwhy.base.optional import needs_extra
from stepwhy.base.patterns import regex
from stepwhy.base.units import format_bytes
from stepwhy.read.inputs.remote.addresses import WEB, shown, split

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from stepwhy.read.inputs.remote.budget import Budget

    Progress = Callable[[str, int, int], None]
    T = TypeVar("T")
    Work = Coroutine[Any, Any, T]

# 'memory' is a file system of fsspec within this process.
_SCHEMES = WEB | {"s3", "gs", "gcs", "memory"}
# Loggers that would print messages of servers, with full addresses, on standard error if logging is
# not configured.
_SILENCED = ("aiobotocore", "aiohttp", "asyncio", "botocore", "fsspec", "gcsfs", "google", "s3fs")
_NULL_HANDLER = logging.NullHandler()
_CHECK_S = 0.1  # interval of checking the time; arriving bytes are checked at once
_CANCEL_S = 5  # for a cancelled transfer to close its file
_MAY_NOT_READ = frozenset({401, 403, 407})
_IS_NOT_THERE = frozenset({404, 410})
# Names of exceptions of the packages for s3:// and gs:// for missing or expired credentials.
_NO_CREDENTIALS = regex(r"Credential|SSO|TokenRetrieval|RefreshError")


class Store(Protocol):
    """Reads the addresses of a scheme."""

    async def is_folder(self, address: str) -> bool:
        """Whether there is a folder at an address."""

    async def find(self, folder: str) -> dict[str, str]:
        """Files in a folder and below it: address by path in the folder."""

    async def glob(self, address: str) -> dict[str, bool]:
        """Addresses that match a glob, and whether each is a folder."""

    async def copy(self, address: str, target: Path, report: Callable[[int | None], None]) -> None:
        """Copy a file; calls `report` with its size for each chunk."""


# --- Listing ---


def is_folder(address: str, budget: Budget) -> bool:
    """Whether there is a folder at an address; on the web, its address ends with a slash.

    Raises:
        NotFoundError: If there is nothing.
        InputError: If it cannot be reached.
    """
    return _ask(address, budget, lambda store: store.is_folder(address))


def files_below(address: str, budget: Budget) -> dict[str, str]:
    """Files in a folder and below it, sorted: address by path in the folder.

    Raises:
        NotFoundError: If there is no such folder.
        InputError: If it cannot be listed.
    """
    scheme, path = split(address)
    folder = f"{scheme}://{path.rstrip('/')}/"
    return dict(sorted(_ask(address, budget, lambda store: store.find(folder)).items()))


def matching(address: str, budget: Budget) -> dict[str, bool]:
    """Addresses that match a glob, sorted, and whether each is a folder.

    Raises:
        NotFoundError: If there is no folder in which something could match.
        InputError: If it cannot be listed.
    """
    pattern = "://".join(split(address))
    return dict(sorted(_ask(address, budget, lambda store: store.glob(pattern)).items()))


def _ask(address: str, budget: Budget, question: Callable[[Store], Work[T]]) -> T:
    with _typed_errors(budget), budget.waiting(shown(address), listing=True):
        return _run(question, _store(address, budget), budget)


# --- Copies ---


def fetch(
    copies: Sequence[tuple[str, Path]], budget: Budget, progress: Progress | None = None
) -> None:
    """Copy files of one scheme, one after the other.

    Args:
        copies: Address and target of each file; the targets must not exist.
        budget: Budget of the command.
        progress: Called with (description, bytes done, total bytes or 0 if unknown), from another
            thread.

    Raises:
        NotFoundError: If a file does not exist.
        TooLargeError: If there is no space for it.
        RemoteLimitError: If it exceeds the budget.
        InputError: If it cannot be read.
    """

    async def copy_all(store: Store) -> None:
        for address, target in copies:
            with budget.transfer(shown(address)):
                target.parent.mkdir(parents=True, exist_ok=True)
                await store.copy(address, target, _reporter(target.name, budget, progress))

    with _typed_errors(budget), budget.waiting(shown(copies[0][0])):
        _run(copy_all, _store(copies[0][0], budget), budget)


def _reporter(name: str, budget: Budget, progress: Progress | None) -> Callable[[int | None], None]:
    def report(size: int | None) -> None:
        if progress:
            done = budget.done
            amount = f"{format_bytes(done)} of {format_bytes(size)}" if size else format_bytes(done)
            progress(f"fetching {name}, {amount}", done, size or 0)

    return report


# --- Calls of the packages ---


def _store(address: str, budget: Budget) -> AbstractAsyncContextManager[Store]:
    scheme, _ = split(address)
    if scheme not in _SCHEMES:
        raise UnsupportedFormatError(
            f"{scheme}:// addresses cannot be read", "Download the trace and give the local file"
        )
    for name in _SILENCED:
        logging.getLogger(name).addHandler(_NULL_HANDLER)
    if scheme in WEB:
        from stepwhy.read.inputs.remote.web import Web  # noqa: PLC0415 - only where there is an address

        return Web(budget)
    from stepwhy.read.inputs.remote.buckets import Bucket  # noqa: PLC0415 - only where there is an address

    return Bucket(scheme, budget)


def _run(
    work: Callable[[Store], Work[T]], opening: AbstractAsyncContextManager[Store], budget: Budget
) -> T:
    """Run work in the event loop of `fsspec`, in its thread, and cancel it when time is up.

    The waiting thread can be interrupted, and may already run an event loop, as in a notebook.
    """
    from fsspec.asyn import get_loop  # noqa: PLC0415 - only where there is an address

    ended = threading.Event()

    async def whole() -> T:
        try:
            async with opening as store:
                return await work(store)
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(whole(), get_loop())
    try:
        while True:
            try:
                return future.result(_CHECK_S)
            except TimeoutError:
                if future.done():  # an error of the work itself
                    raise
            budget.check()
    finally:
        if future.cancel():
            ended.wait(_CANCEL_S)


@contextmanager
def _typed_errors(budget: Budget) -> Iterator[None]:
    """Convert exceptions of the packages to typed errors."""
    try:
        with needs_extra("remote", f"{budget.place.partition('://')[0]}:// addresses"):
            yield
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - each protocol has its own errors
        raise _typed(error, budget.place, budget.done) from None


def _typed(error: Exception, place: str, done: int) -> InputError:
    """Convert an exception of a file system to a typed error.

    Args:
        error: The exception.
        place: The address, safe to show.
        done: Number of bytes that were copied.
    """
    status = _status(error)
    name = type(error).__name__
    if isinstance(error, FileNotFoundError) or status in _IS_NOT_THERE:
        return NotFoundError(f"{place} does not exist", "Check the address")
    if _is_refusal(error, name) or status in _MAY_NOT_READ:
        return UnreachableError(
            f"{place} may not be read",
            "Sign in to the provider as for its own command, or make a new signed address",
        )
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return TooLargeError(
            f"there is no space for a copy of {place}", "Set TMPDIR to a folder with more space"
        )
    if isinstance(error, TimeoutError) or "Timeout" in name:
        what = f"{place} does not answer"
    elif done:
        what = f"{place} breaks off after {format_bytes(done)}"
    else:
        what = f"{place} cannot be read ({f'status {status}' if status else name})"
    return UnreachableError(
        what, "Try again, check address and network, or download it and give the local file"
    )


def _is_refusal(error: Exception, name: str) -> bool:
    """Whether access was denied; the package for gs:// shows that only in its message."""
    is_forbidden = isinstance(error, OSError) and str(error).startswith("Forbidden")
    return isinstance(error, PermissionError) or is_forbidden or bool(_NO_CREDENTIALS.search(name))


def _status(error: Exception) -> int:
    """The HTTP status in an error; 0 for none."""
    # aiohttp has both attributes, deprecates the second, and uses 0 for invalid responses.
    status = getattr(error, "status", None)
    if status is None:
        status = getattr(error, "code", None)
    return int(str(status)) if str(status).isdigit() else 0
