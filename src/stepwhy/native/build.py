"""Compiles kernels that are not in the user's cache yet: `python -m stepwhy.native.build`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError

from stepwhy import children
from stepwhy.native import code, store
from stepwhy.native.trusted import UntrustedError
from stepwhy.text import visible

_VERIFY = "--verify"


def main(arguments: list[str]) -> int:
    """Compile what is missing, or try out what was compiled; the exit status."""
    if _VERIFY in arguments:
        return _verify(arguments[-1])
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
        with suppress(OSError, RuntimeError, SubprocessError):
            return _put(code.linked(linker, code.emitted(for_linker=True)), library)
    return _put(code.emitted(for_linker=False), plain_object)


def _put(compiled: bytes, path: Path) -> Path:
    draft = store.put_draft(store.sealed(compiled), path.suffix)
    try:
        # Code that does not fit ends the process that loads it: that must be another one.
        check = children.module_command("stepwhy.native.build", _VERIFY, draft)
        if children.run(check, check=False).returncode:
            raise RuntimeError("the compiled kernels do not load")
        store.publish(draft, path.name)
    finally:
        store.discard(draft)
    return path


def _loads() -> bool:
    """Whether there is a file that can be used; a damaged one is made again."""
    from stepwhy.native.library import loaded  # noqa: PLC0415

    return bool(loaded())


def _verify(draft: str) -> int:
    from stepwhy.native.library import load  # noqa: PLC0415

    return int(not all(load(draft).values()))


def _isolated(arguments: list[str]) -> int:
    """Run in a process that imports nothing from the current folder, which `-m` puts first."""
    command = children.module_command("stepwhy.native.build", *arguments)
    return children.run(command, check=False, cwd=Path(sys.executable).anchor).returncode


def _main(arguments: list[str]) -> int | str:
    """The exit status, or an error for people."""
    if not sys.flags.safe_path:
        return _isolated(arguments)
    with suppress(OSError, AttributeError):  # not on every system
        os.nice(10)
    try:
        return main(arguments)
    except UntrustedError as error:
        reason = "compiled code was not saved, because other users could change it"
        return visible(f"stepwhy: {reason}: {error}")


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
