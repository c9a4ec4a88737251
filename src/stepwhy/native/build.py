"""Compiles kernels that are not in the user's cache yet: `python -m stepwhy.native.build`."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from stepwhy.native import code, store

_VERIFY = "--verify"


def main(arguments: list[str]) -> int:
    """Compile what is missing, or try out what was compiled; the exit status."""
    if _VERIFY in arguments:
        return _verify(Path(arguments[-1]))
    is_there = _loads()
    if "--claimed" not in arguments and (is_there or not store.claim()):
        return int(not is_there)
    try:
        if not is_there:
            publish()
    finally:
        store.release()
    return 0


def publish() -> Path:
    """Compile all kernels and put the file where `kernel` looks for it.

    Raises:
        RuntimeError: What was compiled does not load.
    """
    library, plain_object = store.files()
    linker = code.linker()
    if linker:
        # No linker that works, or a folder from which nothing may be run: the object does there.
        with suppress(OSError, RuntimeError, subprocess.SubprocessError):
            return _put(code.linked(linker, code.emitted(for_linker=True)), library)
    return _put(code.emitted(for_linker=False), plain_object)


def _put(compiled: bytes, path: Path) -> Path:
    part = store.temporary(path.suffix)
    try:
        part.write_bytes(store.sealed(compiled))
        # Code that does not fit ends the process that loads it: that must be another one.
        check = [sys.executable, "-m", "stepwhy.native.build", _VERIFY, str(part)]
        if subprocess.run(check, check=False).returncode:  # noqa: S603
            raise RuntimeError("the compiled kernels do not load")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _loads() -> bool:
    """Whether there is a file that can be used; a damaged one is made again."""
    from stepwhy.native.library import loaded  # noqa: PLC0415

    return bool(loaded())


def _verify(path: Path) -> int:
    from stepwhy.native.library import load  # noqa: PLC0415

    return int(not all(load(path).values()))


if __name__ == "__main__":
    with suppress(OSError, AttributeError):  # not on every system
        os.nice(10)
    sys.exit(main(sys.argv[1:]))
