"""Compiles kernels that are not in the user's cache yet: `python -m stepwhy.native.build`."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from stepwhy.native import store
from stepwhy.native.catalogue import KERNELS

_VERIFY = "--verify"


def main(arguments: list[str]) -> int:
    """Compile what is missing, or try out what was compiled; the exit status."""
    if _VERIFY in arguments:
        return _verify(Path(arguments[-1]))
    is_there = store.object_file().exists()
    if "--claimed" not in arguments and (is_there or not store.claim()):
        return int(not is_there)
    try:
        if not is_there:
            publish()
    finally:
        store.release()
    return 0


def publish() -> Path:
    """Compile all kernels and put the object file where `kernel` looks for it.

    Raises:
        RuntimeError: The compiled file does not load.
    """
    code = store.sealed(compiled())
    part = store.temporary()
    try:
        part.write_bytes(code)
        # An object that does not fit ends the process that loads it: that must be another one.
        check = [sys.executable, "-m", "stepwhy.native.build", _VERIFY, str(part)]
        if subprocess.run(check, check=False).returncode:  # noqa: S603
            raise RuntimeError("the compiled kernels do not load")
        part.replace(store.object_file())
    finally:
        part.unlink(missing_ok=True)
    return store.object_file()


def compiled() -> bytes:
    """All kernels as one object file, for this machine's processor."""
    from llvmlite import binding  # noqa: PLC0415 - only here

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        jit=True,
    )
    whole = None
    for name in KERNELS:
        module = _module(name, binding)
        if whole is None:
            whole = module
        else:
            whole.link_in(module)
    object_code: bytes = machine.emit_object(whole)
    return object_code


def _module(name: str, binding: Any) -> Any:
    """The code of one kernel under a name of its own."""
    numba: Any = importlib.import_module("numba")
    entry = KERNELS[name]
    source = getattr(importlib.import_module(f"stepwhy.native.kernels.{entry.module}"), name)
    signature = numba.int64(*[numba.int64] * entry.arguments)
    made = numba.cfunc(signature, nopython=True, error_model="numpy")(source)
    text = made._library.get_llvm_str()  # noqa: SLF001 - there is no public way to the code
    return binding.parse_assembly(text.replace(made.native_name, f"stepwhy_{name}"))


def _verify(path: Path) -> int:
    from stepwhy.native.library import load  # noqa: PLC0415

    return int(not all(load(path).values()))


if __name__ == "__main__":
    with suppress(OSError, AttributeError):  # not on every system
        os.nice(10)
    sys.exit(main(sys.argv[1:]))
