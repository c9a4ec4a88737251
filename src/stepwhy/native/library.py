"""Loads compiled kernels, and has them compiled where there are none."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from stepwhy.native import store
from stepwhy.native.catalogue import KERNELS

if TYPE_CHECKING:
    from pathlib import Path

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
    if store.claim():
        _start_compiler()


def _start_compiler() -> None:
    import subprocess  # noqa: PLC0415 - only before a compilation

    try:
        compiler = subprocess.Popen(
            [sys.executable, "-m", "stepwhy.native.build", "--claimed"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
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
    with suppress(ImportError, OSError):  # no folder, or a processor that nobody can name
        for path in store.files():
            with suppress(ImportError, OSError, RuntimeError, ValueError, AttributeError):
                return load(path)
    return {}


_LOADED: list[Any] = []  # they own the code


def load(path: Path) -> dict[str, int]:
    """Addresses of the kernels in a shared library ('.so') or an object.

    Raises:
        OSError: It cannot be read or loaded.
        ValueError: It is damaged.
        RuntimeError: It is none for this machine.
        AttributeError: It holds other kernels.
        ImportError: It is an object, and there is no loader for it.
    """
    code = store.unsealed(path)
    return _of_library(path) if path.suffix == ".so" else _of_object(code)


def _of_library(path: Path) -> dict[str, int]:
    library = ctypes.CDLL(str(path))
    _LOADED.append(library)
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
