"""Files at addresses: what is there, and private copies of it.

`fsspec` and the packages behind it speak the protocols; they are imported when an address is given.
Whatever they raise becomes an error of our own without their words, which may repeat an address in
full: an address may hold a password or a signature.
"""

from __future__ import annotations

import errno
import logging
import re
import shutil
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from stepwhy.engine.addresses import MAGIC, WEB, shown, split
from stepwhy.errors import (
    InputError,
    MissingPackageError,
    NotFoundError,
    TooLargeError,
    UnreachableError,
    UnsupportedFormatError,
)
from stepwhy.patterns import regex
from stepwhy.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Progress = Callable[[str, int, int], None]

# 'memory' is a file system of fsspec's in this process.
_SCHEMES = WEB | {"s3", "gs", "gcs", "memory"}
# Loggers that would write what servers say to standard error, addresses in full among it, unless
# somebody has set up where it goes.
_TALKATIVE = ("aiobotocore", "aiohttp", "asyncio", "botocore", "fsspec", "gcsfs", "google", "s3fs")
_SILENT = logging.NullHandler()
_CONNECT_S = 30
_SILENCE_S = 60  # until a connection counts as broken; a slow one may take as long as it takes
# Deeper than profilers put their traces: web pages may link in circles.
_DEEPEST = 8
_MAY_NOT_READ = frozenset({401, 403, 407})
_IS_NOT_THERE = frozenset({404, 410})
# What the packages for s3:// and gs:// raise without credentials, or with expired ones.
_NO_CREDENTIALS = regex(r"Credential|SSO|TokenRetrieval|RefreshError")


# --- What is there ---


def is_folder(address: str) -> bool:
    """Whether there is a folder at an address; on the web its address ends with a slash.

    Raises:
        NotFoundError: There is nothing.
        InputError: It cannot be asked.
    """
    scheme, path = split(address)
    if scheme in WEB:
        return path.endswith("/")
    with _speaking_to(address) as files:
        return bool(files.info(address)["type"] == "directory")


def files_below(address: str) -> dict[str, str]:
    """The files in a folder and in those below, in order: address by path in the folder.

    Raises:
        NotFoundError: There is no such folder.
        InputError: It cannot be listed.
    """
    scheme, path = split(address)
    folder = f"{scheme}://{path.rstrip('/')}/"
    with _speaking_to(address) as files:
        files.ls(folder)  # raises; `find` takes what may not be listed for empty
        names = files.find(folder, maxdepth=_DEEPEST)
    found = {}
    for name in sorted(names):
        inside = name.partition(path.strip("/") + "/")[2]
        inside = unquote(inside) if scheme in WEB else inside
        if _is_file_name(inside):
            found[inside] = _address(scheme, name)
    return found


def matching(address: str) -> dict[str, bool]:
    """The addresses that match a glob, in order, and whether each is a folder.

    Raises:
        NotFoundError: There is no folder in which something could match.
        InputError: It cannot be listed.
    """
    scheme, path = split(address)
    host, _, inside = path.partition("/")
    fixed = f"{host}/{MAGIC.split(inside, maxsplit=1)[0]}".rpartition("/")[0]
    with _speaking_to(address) as files:
        files.ls(f"{scheme}://{fixed}/")  # raises; `glob` takes what may not be listed for empty
        found = files.glob(f"{scheme}://{path}", detail=True)
    return {
        _address(scheme, name): info["type"] == "directory"
        for name, info in sorted(found.items())
        if _is_file_name(name.rpartition("/")[2])
    }


def _address(scheme: str, name: str) -> str:
    """The address of what a listing names; on the web that is one."""
    return name if scheme in WEB else f"{scheme}://{name.lstrip('/')}"


def _is_file_name(path: str) -> bool:
    """Whether a path below a folder is that of a file: not hidden, nor above, nor a page's link."""
    return bool(path) and "?" not in path and not any(p.startswith(".") for p in path.split("/"))


# --- Copies ---


def fetch(address: str, target: Path, progress: Progress | None = None) -> None:
    """Copy a file.

    Args:
        address: Where it is.
        target: Where the copy goes, in a folder that is there.
        progress: Called with (what is done now, bytes done, bytes in all; 0 where unknown).

    Raises:
        NotFoundError: There is no such file.
        TooLargeError: There is no space for it.
        InputError: It cannot be read.
    """
    done = 0

    def hook(size: int | None, value: int, **_: Any) -> None:
        nonlocal done
        done = value
        if value == 0 and size is not None:
            _check_space(size, target, address)
        if progress:
            progress(f"fetching {target.name}, {_amount(value, size)}", value, size or 0)

    with _speaking_to(address, lambda: done) as files:
        from fsspec.callbacks import Callback  # noqa: PLC0415 - only where there is an address

        files.get_file(address, str(target), callback=Callback(hooks={"progress": hook}))


def _amount(done: int, size: int | None) -> str:
    return f"{format_bytes(done)} of {format_bytes(size)}" if size else format_bytes(done)


def _check_space(size: int, target: Path, address: str) -> None:
    free = shutil.disk_usage(target.parent).free
    if size > free:
        raise _no_space(f"{shown(address)} has {format_bytes(size)}, {format_bytes(free)} are free")


def _no_space(what: str) -> TooLargeError:
    return TooLargeError(what, "Set TMPDIR to a folder with more space")


# --- Through fsspec ---


@contextmanager
def _speaking_to(address: str, done: Callable[[], int] = int) -> Iterator[Any]:
    """The file system behind an address; whatever it raises is one of our errors.

    Args:
        address: Where a file or folder is.
        done: How many bytes of it have been copied.
    """
    try:
        yield _file_system(address)
    except InputError:
        raise
    except ImportError:
        raise MissingPackageError(
            f"{split(address)[0]}:// addresses need packages that are not installed",
            "Run: pip install 'stepwhy[remote]'",
        ) from None
    except Exception as error:  # noqa: BLE001 - each protocol has errors of its own
        raise _typed(error, shown(address), done()) from None


def _file_system(address: str) -> Any:
    scheme, _ = split(address)
    if scheme not in _SCHEMES:
        raise UnsupportedFormatError(
            f"{scheme}:// addresses cannot be read", "Download the trace and give the local file"
        )
    import fsspec  # noqa: PLC0415 - only where there is an address

    for name in _TALKATIVE:
        logging.getLogger(name).addHandler(_SILENT)
    with warnings.catch_warnings():  # that no project is set, which only writing needs
        warnings.simplefilter("ignore")
        return fsspec.filesystem(scheme, **_options(scheme, address))


def _options(scheme: str, address: str) -> dict[str, Any]:
    """What the file system of a scheme is set up with.

    `aiohttp` ends each transfer after five minutes and knows of no proxy unless told otherwise.
    """
    if scheme not in WEB:
        return {}
    from aiohttp import ClientTimeout  # noqa: PLC0415 - only where there is an address

    timeout = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    # Quoting it again would break a signature.
    is_quoted = re.fullmatch(r"[!-~]*", address) is not None
    return {"client_kwargs": {"timeout": timeout, "trust_env": True}, "encoded": is_quoted}


def _typed(error: Exception, place: str, done: int) -> InputError:
    """The error of ours for one that a file system raised.

    Args:
        error: What was raised.
        place: The address, as it may be shown.
        done: How many bytes had been copied.
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
        return _no_space(f"there is no space for a copy of {place}")
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
    """Whether access was denied; the package for gs:// says so in its words only."""
    is_forbidden = isinstance(error, OSError) and str(error).startswith("Forbidden")
    return isinstance(error, PermissionError) or is_forbidden or bool(_NO_CREDENTIALS.search(name))


def _status(error: Exception) -> int:
    """The HTTP status in an error; 0 for none."""
    status = str(getattr(error, "status", None) or getattr(error, "code", None))
    return int(status) if status.isdigit() else 0


__all__ = ["fetch", "files_below", "is_folder", "matching"]
