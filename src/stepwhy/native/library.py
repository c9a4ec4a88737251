"""Loads compiled kernels, and has them compiled where there are none."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from stepwhy import children
from stepwhy.native import store
from stepwhy.native.catalogue import KERNELS
from stepwhy.native.trusted import UntrustedError

Kernel = Callable[..., int]
"""A compiled kernel: addresses and integers in, an integer out; runs without the GIL."""


@cache
def kernel(name: str) -> Kernel | None:
    """A compiled kernel, None where there is none on this machine yet.

    Args:
        name: Its name in the catalogue.
    """
    address = _addresses().get(name)
    if not address:
        return None
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * KERNELS[name].arguments)
    return kind(address)


def find_kernels(*names: str) -> list[Kernel]:
    """All of these kernels, or none; where there are none, the next process may find them.

    Args:
        names: Their names in the catalogue.
    """
    found = [one for name in names if (one := kernel(name))]
    if len(found) == len(names):
        return found
    prepare()
    return []


def prepare() -> None:
    """Have the kernels compiled in the background, so that the next process finds them.

    Silent in all cases: kernels are a matter of speed alone.
    """
    if not store.enabled() or _addresses() or not _can_compile():
        return
    try:
        is_ours = store.claim()
    except UntrustedError as error:
        _refuse(error)
        return
    if is_ours:
        _start_compiler()


def _start_compiler() -> None:
    from subprocess import DEVNULL  # noqa: PLC0415 - only before a compilation

    try:
        compiler = children.start(
            children.module_command("stepwhy.native.build", "--claimed"),
            cwd=Path(sys.executable).anchor,  # numba reads its settings in the current folder
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )
    except OSError:
        store.release()
        return
    compiler.returncode = 0  # it outlives this process: nobody is to wait for it, or to be warned


def _can_compile() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415 - only before a compilation

    return find_spec("numba") is not None


@cache
def _addresses() -> dict[str, int]:
    """Addresses of all kernels, {} where they cannot be loaded, or are not wanted."""
    return loaded() if store.enabled() else {}


def loaded() -> dict[str, int]:
    """Addresses of the kernels in the user's cache, {} where none can be loaded."""
    with suppress(ImportError, OSError):  # no folder, or a processor that cannot be identified
        for path in store.files():
            try:
                return load(path.name)
            except UntrustedError as error:
                _refuse(error)
            except (ImportError, OSError, RuntimeError, ValueError, AttributeError):
                continue
    return {}


def refusal() -> str | None:
    """Why compiled kernels were not used or made, if other users could have written them.

    None where nothing was refused, also where there are no kernels for another reason.
    """
    return _REFUSALS[0] if _REFUSALS else None


_REFUSALS: list[str] = []
_LOADED: list[Any] = []  # they own the code


def _refuse(error: UntrustedError) -> None:
    _REFUSALS.append(str(error))


def load(name: str) -> dict[str, int]:
    """Addresses of the kernels in a shared library ('.so') or an object.

    Args:
        name: Name of a file in the user's cache.

    Raises:
        UntrustedError: Other users may have written it.
        OSError: It cannot be read or loaded.
        ValueError: It is damaged.
        RuntimeError: It is none for this machine.
        AttributeError: It holds other kernels.
        ImportError: It is an object, and there is no loader for it.
    """
    with store.opened(name) as file:
        with open(file, "rb", closefd=False) as content:
            code = store.unsealed(content.read())
        return _of_library(file) if Path(name).suffix == ".so" else _of_object(code)


def _of_library(file: int) -> dict[str, int]:
    """Load the open file itself: another one may have taken its name since.

    Raises:
        OSError: It cannot be loaded, or this system does not show open files as paths.
    """
    # The loader takes paths that are spelled alike for one library, so this number stays in use.
    kept = os.dup(file)
    try:
        library = ctypes.CDLL(f"/proc/self/fd/{kept}")
    except OSError:
        os.close(kept)
        raise
    _LOADED.append((kept, library))
    found = {name: ctypes.cast(library[f"stepwhy_{name}"], ctypes.c_void_p) for name in KERNELS}
    return {name: pointer.value or 0 for name, pointer in found.items()}


def _of_object(code: bytes) -> dict[str, int]:
    from llvmlite import binding  # noqa: PLC0415 - 40 ms

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _LOADED.append(engine)
    return {name: engine.get_function_address(f"stepwhy_{name}") for name in KERNELS}
