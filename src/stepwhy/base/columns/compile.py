"""Compiles all kernels into the user's cache: `python -P -m stepwhy.base.columns.compile`."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import stepwhy
from stepwhy.base import children
from stepwhy.base.columns import code_cache
from stepwhy.base.columns.trusted import UntrustedError
from stepwhy.base.text import visible


def main(arguments: list[str]) -> int:
    """Compile the kernels if they are missing; returns the exit status.

    Args:
        arguments: `--claimed` if the process that started this one already took the lock.

    Raises:
        OSError: The cache cannot be written, or other users may write to it.
    """
    is_done = is_compiled()
    if "--claimed" not in arguments and (is_done or not code_cache.claim()):
        return int(not is_done)
    try:
        if not is_done:
            compile_all()
    finally:
        code_cache.release()
    return 0


def is_compiled() -> bool:
    """Whether the cache holds valid code of the installed numba."""
    try:
        version = code_cache.checked_version(code_cache.code_folder())
    except UntrustedError:
        raise
    except (OSError, code_cache.DamagedError):
        return False
    return bool(version == _numba().__version__)


def compile_all() -> None:
    """Compile every module of kernels and publish the result.

    Raises:
        OSError: The cache cannot be written, or other users may write to it.
    """
    numba = _numba()
    with code_cache.draft() as folder:
        numba.config.CACHE_DIR = str(folder)
        for path in code_cache.sources():
            importlib.import_module(_module_name(path))
        code_cache.write_manifest(folder, numba.__version__)
        code_cache.publish(folder)


def _numba() -> Any:
    return importlib.import_module("numba")


def _module_name(path: Path) -> str:
    parts = path.relative_to(Path(stepwhy.__file__).parents[1]).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _main(arguments: list[str]) -> int | str:
    """The exit status, or an error message."""
    if not sys.flags.safe_path:
        # Run again in a process without the current folder, which `-m` puts first on the path.
        command = children.module_command("stepwhy.base.columns.compile", *arguments)
        return children.run(command, check=False, cwd=Path(sys.executable).anchor).returncode
    os.umask(0o077)
    with suppress(OSError, AttributeError):  # not on every system
        os.nice(10)
    try:
        return main(arguments)
    except UntrustedError as error:
        reason = "compiled code was not saved, because other users could change it"
        return visible(f"stepwhy: {reason}: {error}")


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
