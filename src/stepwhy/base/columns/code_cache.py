"""The folder of compiled code in the user's cache: its name, its lock and its checks.

numba stores compiled functions as pickles, which run code when they are loaded. So the folder is
used only if the effective user owns it and every file in it, and no one else can write to them.

A folder holds all kernels for one installation of their sources, one Python and one processor,
because machines may share a home. Its manifest lists the version of numba and the checksum of each
file.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32  # `hashlib` takes 4 ms to import

from stepwhy.base.columns.trusted import UntrustedError, opened_file, opened_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGE: Final = Path(__file__).parents[2]
_SOURCES: Final = (
    "base/columns/_longest_plain.py",
    "base/columns/kernels/*.py",
    "read/formats/*/kernels/*.py",
)
_MANIFEST: Final = "manifest.json"
_LOCK: Final = "compiling"
# Age of a lock, s, after which the compiler is assumed to have died.
_STALE_S: Final = 600.0
_LARGEST_FILE: Final = 1 << 26  # bytes

# Lines that identify the type of a processor, on x86 and on ARM.
_PROCESSOR_FIELDS = (
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
)
_INSTRUCTION_SETS = {"flags", "Features"}
# Enough for the lines of the first processor; those of all may take a megabyte.
_ENOUGH_OF_PROCESSORS = 1 << 13  # bytes


class DamagedError(ValueError):
    """A folder of compiled code does not match its manifest."""


@cache
def user_cache() -> Path:
    """The user's cache: `STEPWHY_CACHE`, else the platform's folder for caches; not checked.

    Raises:
        OSError: The user has no home folder.
    """
    chosen = os.environ.get("STEPWHY_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or ""
    # Relative paths must be ignored (XDG Base Directory Specification).
    if not Path(base).is_absolute():
        base = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    try:
        return Path(base).expanduser() / "stepwhy"
    except RuntimeError as error:  # a container whose user has no name
        raise OSError(f"{error} Set STEPWHY_CACHE to a folder for compiled code") from None


def sources() -> list[Path]:
    """The files that define kernels, in a fixed order."""
    return [path for pattern in _SOURCES for path in sorted(_PACKAGE.glob(pattern))]


@cache
def code_folder() -> Path:
    """The folder of the compiled code for these sources and this machine; it may not exist.

    Raises:
        OSError: The user has no home folder.
        ImportError: The processor cannot be identified.
    """
    text = b"\0".join(map(_identity, sources()))
    tag = sys.implementation.cache_tag or "python"
    return user_cache() / f"compiled-{tag}-{crc32(processor()):08x}-{crc32(text):08x}"


def _identity(path: Path) -> bytes:
    """What numba compares before it uses compiled code: path and time; and the source itself."""
    return f"{path}\0{path.stat().st_mtime_ns}\0".encode() + path.read_bytes()


def checked_version(folder: Path) -> str:
    """Check every file of a folder; the version of numba that compiled it.

    Raises:
        UntrustedError: Other users may write to the folder or to a file.
        OSError: A file is missing or cannot be opened.
        DamagedError: A file differs from what was compiled.
    """
    import json  # noqa: PLC0415 - after `-m` has left the current folder

    try:
        manifest = json.loads(_content(folder / _MANIFEST))
        files, version = manifest["files"], str(manifest["numba"])
        damaged = [name for name in files if crc32(_content(folder / name)) != files[name]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(f"{folder} has no valid manifest") from error
    if damaged or not files:
        raise DamagedError(f"{folder} is damaged")
    return version


def _content(path: Path) -> bytes:
    with (
        opened_folder(path.parent) as parent,
        opened_file(path, parent) as file,
        open(file, "rb", closefd=False) as content,
    ):
        return content.read(_LARGEST_FILE)


def write_manifest(folder: Path, numba_version: str) -> None:
    """Describe a folder of code that has just been compiled.

    Raises:
        OSError: It cannot be written.
    """
    import json  # noqa: PLC0415 - as above

    paths = [path for path in folder.rglob("*") if path.suffix in {".nbi", ".nbc"}]
    files = {path.relative_to(folder).as_posix(): crc32(path.read_bytes()) for path in paths}
    text = json.dumps({"numba": numba_version, "files": files})
    with opened_folder(folder) as opened:
        _create(_MANIFEST, opened, text.encode())


@contextmanager
def draft() -> Iterator[Path]:
    """A new folder in the cache that only this user can access; removed unless published.

    Raises:
        UntrustedError: Other users may write to the cache.
        OSError: The cache cannot be written.
    """
    path = user_cache() / f"compiled-{os.urandom(8).hex()}.part"
    with opened_folder(path.parent, create=True) as opened:
        os.mkdir(path.name, 0o700, dir_fd=opened)
    try:
        yield path
    finally:
        _remove(path)


def publish(path: Path) -> None:
    """Move a draft to `code_folder()`, replacing what is there.

    Raises:
        OSError: The cache cannot be written, or other users may write to it.
    """
    target = code_folder()
    _remove(target)
    with opened_folder(target.parent) as opened:
        os.rename(path.name, target.name, src_dir_fd=opened, dst_dir_fd=opened)


def _remove(path: Path) -> None:
    import shutil  # noqa: PLC0415 - only where something was compiled

    with suppress(OSError), opened_folder(path.parent):
        shutil.rmtree(path)


def claim() -> bool:
    """Take the lock; False if another process compiles or the cache cannot be written.

    Raises:
        UntrustedError: Other users may write to the cache.
    """
    try:
        with opened_folder(user_cache(), create=True) as opened:
            with suppress(FileNotFoundError):
                import time  # noqa: PLC0415 - rarely needed

                age_s = time.time() - os.stat(_LOCK, dir_fd=opened, follow_symlinks=False).st_mtime
                if age_s > _STALE_S:
                    os.unlink(_LOCK, dir_fd=opened)
            _create(_LOCK, opened)
    except UntrustedError:
        raise
    except OSError:  # another process claimed it, or the home cannot be written
        return False
    return True


def release() -> None:
    """Release the lock."""
    with suppress(OSError), opened_folder(user_cache()) as opened:
        os.unlink(_LOCK, dir_fd=opened)


def _create(name: str, folder: int, data: bytes = b"") -> None:
    """Write a new file; raises an error if anything of that name exists, even a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:  # noqa: PTH123
        file.write(data)


def processor(described: Path = Path("/proc/cpuinfo")) -> bytes:
    """A fingerprint of this machine's type of processor and its instruction sets.

    Args:
        described: File in which Linux describes the processors.

    Raises:
        ImportError: There is no such file, and the compiler library is not installed.

    Source: proc_cpuinfo(5).
    """
    fields = _processor_fields(described)
    if not fields:
        return _processor_of_compiler()
    lines = [os.uname().machine, *(f"{key}:{fields[key]}" for key in sorted(fields))]
    return "\0".join(lines).encode()


def _processor_fields(described: Path) -> dict[str, str]:
    """Fields of the first processor in Linux's list; {} if it does not name instruction sets."""
    try:
        with described.open("rb") as file:
            text = file.read(_ENOUGH_OF_PROCESSORS).decode(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    fields = {
        key.strip(): value.strip() for key, _, value in pairs if key.strip() in _PROCESSOR_FIELDS
    }
    return fields if fields.keys() & _INSTRUCTION_SETS else {}


def _processor_of_compiler() -> bytes:
    """The type according to the compiler library, which takes 40 ms to load."""
    from llvmlite import binding  # noqa: PLC0415 - slow, and not always installed

    name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return f"{binding.get_process_triple()}\0{name}\0{features}".encode()
