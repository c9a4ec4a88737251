"""Where the compiled kernels are: one file per type of processor and version of their source."""

from __future__ import annotations

import os
import sys
from functools import cache
from pathlib import Path
from zlib import crc32  # `hashlib` takes 4 ms to import

from stepwhy.native.processor import processor

_HERE = Path(__file__).parent
_SOURCES = ("catalogue.py", "build.py", "code.py", "memory.py", "kernels/*.py")
# A compilation that has not ended after this has died, s.
_STALE_S = 600.0
_CHECKSUM = 4  # bytes


def enabled() -> bool:
    """Whether the user wants kernels at all."""
    return os.environ.get("STEPWHY_NATIVE", "1") != "0"


@cache
def folder() -> Path:
    """The user's cache: `STEPWHY_CACHE`, else where the platform keeps caches.

    Raises:
        OSError: There is none, for nobody knows where this user is at home.
    """
    told = os.environ.get("STEPWHY_CACHE")
    if told:
        return Path(told)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    if not base:
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


def unsealed(path: Path) -> bytes:
    """Code from a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is damaged.
    """
    data = path.read_bytes()
    code = data[:-_CHECKSUM]
    if sealed(code) != data:
        raise ValueError(f"{path.name} is damaged")
    return code


def claim() -> bool:
    """Whether this process may compile: no other one is at it."""
    try:
        lock = folder() / "compiling"
        folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        if lock.exists() and _age_s(lock) > _STALE_S:
            lock.unlink(missing_ok=True)
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:  # another one's, or a home that cannot be written
        return False
    return True


def release() -> None:
    """Let others compile."""
    (folder() / "compiling").unlink(missing_ok=True)


def _age_s(path: Path) -> float:
    import time  # noqa: PLC0415 - rarely needed

    return time.time() - path.stat().st_mtime


def temporary(suffix: str) -> Path:
    """A new file beside the compiled kernels, to be renamed."""
    import tempfile  # noqa: PLC0415 - only for a compilation

    handle, name = tempfile.mkstemp(dir=folder(), prefix="kernels-", suffix=f".part{suffix}")
    os.close(handle)
    return Path(name)
