"""Where the compiled kernels are: one file per type of processor and version of their source.

They are code, so all access goes through a folder that only this user may write (`trusted`).
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32  # `hashlib` takes 4 ms to import

from stepwhy.native.processor import processor
from stepwhy.native.trusted import UntrustedError, opened_file, opened_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).parent
_LOCK = "compiling"
_SOURCES = ("catalogue.py", "build.py", "code.py", "memory.py", "kernels/*.py")
# A compilation that has not ended after this has died, s.
_STALE_S = 600.0
_CHECKSUM = 4  # bytes


def enabled() -> bool:
    """Whether the user wants kernels at all."""
    return os.environ.get("STEPWHY_NATIVE", "1") != "0"


@cache
def folder() -> Path:
    """The user's cache: `STEPWHY_CACHE`, else where the platform keeps caches; not checked.

    Raises:
        OSError: There is none, for nobody knows where this user is at home.
    """
    told = os.environ.get("STEPWHY_CACHE")
    if told:
        return Path(told)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or ""
    # A relative path is to be ignored (XDG Base Directory Specification).
    if not Path(base).is_absolute():
        base = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    try:
        return Path(base).expanduser() / "stepwhy"
    except RuntimeError as error:  # a container whose user has no name
        raise OSError(f"{error} Set STEPWHY_CACHE to a folder for compiled kernels") from None


def files() -> tuple[Path, Path]:
    """Where compiled kernels may be: as a shared library, else as an object; none need exist.

    Raises:
        OSError: There is no folder for them.
    """
    return library_file(), library_file().with_suffix(".o")


@cache
def library_file() -> Path:
    """The file that fits the sources and the processor; it may not exist.

    Homes are shared between machines, so the processor is part of the name.

    Raises:
        OSError: There is no folder for it.
    """
    sources = [path for pattern in _SOURCES for path in sorted(_HERE.glob(pattern))]
    text = b"\0".join(path.read_bytes() for path in sources)
    return folder() / f"kernels-{crc32(processor()):08x}-{crc32(text):08x}.so"


def sealed(code: bytes) -> bytes:
    """Code before its checksum: what is damaged ends the process that loads it.

    Loaders do not read behind the code that they are told of.
    """
    return code + crc32(code).to_bytes(_CHECKSUM, "little")


def unsealed(data: bytes) -> bytes:
    """Code without its checksum.

    Raises:
        ValueError: It is damaged.
    """
    code = data[:-_CHECKSUM]
    if sealed(code) != data:
        raise ValueError("the compiled kernels are damaged")
    return code


@contextmanager
def opened(name: str) -> Iterator[int]:
    """A file descriptor of a file in the cache.

    Args:
        name: Its name, without the folder.

    Raises:
        UntrustedError: Other users may write to it, or to the cache.
        OSError: It cannot be opened.
    """
    path = folder() / name
    with opened_folder(path.parent) as cache, opened_file(path, cache) as file:
        yield file


def claim() -> bool:
    """Whether this process may compile: no other one does.

    Raises:
        UntrustedError: Other users may write to the cache.
    """
    try:
        with opened_folder(folder(), create=True) as cache:
            with suppress(FileNotFoundError):
                if _age_s(_LOCK, cache) > _STALE_S:
                    os.unlink(_LOCK, dir_fd=cache)
            _create(_LOCK, cache)
    except UntrustedError:
        raise
    except OSError:  # another process claimed it, or the home cannot be written
        return False
    return True


def release() -> None:
    """Let other processes compile."""
    with suppress(OSError), opened_folder(folder()) as cache:
        os.unlink(_LOCK, dir_fd=cache)


def put_draft(data: bytes, suffix: str) -> str:
    """Write a new file beside the compiled kernels.

    Args:
        data: Its content.
        suffix: Of its name.

    Returns:
        Its name, without the folder.

    Raises:
        OSError: The cache cannot be written, or other users may write to it.
    """
    name = f"kernels-{os.urandom(8).hex()}.part{suffix}"
    with opened_folder(folder()) as cache:
        _create(name, cache, data)
    return name


def publish(draft: str, name: str) -> None:
    """Give a draft the name under which kernels are looked for.

    Raises:
        OSError: The cache cannot be written, or other users may write to it.
    """
    with opened_folder(folder()) as cache:
        os.replace(draft, name, src_dir_fd=cache, dst_dir_fd=cache)


def discard(draft: str) -> None:
    """Remove a draft."""
    with suppress(OSError), opened_folder(folder()) as cache:
        os.unlink(draft, dir_fd=cache)


def _create(name: str, cache: int, data: bytes = b"") -> None:
    """Write a file that is not there yet; a link in its place is an error."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(name, flags, 0o600, dir_fd=cache), "wb") as file:  # noqa: PTH123
        file.write(data)


def _age_s(name: str, cache: int) -> float:
    import time  # noqa: PLC0415 - rarely needed

    return time.time() - os.stat(name, dir_fd=cache, follow_symlinks=False).st_mtime
