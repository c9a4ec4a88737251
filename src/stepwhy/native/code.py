"""Makes machine code of the kernels: an object for `llvmlite`, or a shared library.

A library is loaded by the system in no time; an object needs the compiler's own loader, which takes
40 ms and 46 MB of every process. But a library takes a linker, which not every machine has.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from stepwhy import children
from stepwhy.native.catalogue import KERNELS

_LINKERS = ("cc", "gcc", "clang", "ld")


def linker() -> str | None:
    """A program that makes shared libraries; None where there is none.

    Only Linux is asked: elsewhere `cc` may be a placeholder that opens an installer.
    """
    if sys.platform != "linux":
        return None
    return next((path for name in _LINKERS if (path := children.find_program(name))), None)


def linked(program: str, code: bytes) -> bytes:
    """An object as a shared library that needs no other one.

    Raises:
        OSError: The linker cannot be run.
        subprocess.SubprocessError: It fails, or does not end.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "kernels.o"), Path(folder, "kernels.so")
        given.write_bytes(code)
        command = [program, "-shared", "-nostdlib", "-s", "-o", str(made), str(given)]
        children.run(command, check=True, capture_output=True, timeout=60, cwd=folder)
        return made.read_bytes()


def emitted(*, for_linker: bool) -> bytes:
    """All kernels as one object file, for this machine's processor."""
    from llvmlite import binding  # noqa: PLC0415 - only here

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    place = {"reloc": "pic", "codemodel": "small"} if for_linker else {"jit": True}
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        **place,
    )
    modules = [binding.parse_assembly(_assembly(name)) for name in KERNELS]
    for module in modules[1:]:
        modules[0].link_in(module)
    object_code: bytes = machine.emit_object(modules[0])
    return object_code


def _assembly(name: str) -> str:
    """The code of one kernel, behind an entry that takes and gives plain int64."""
    numba: Any = importlib.import_module("numba")
    known = KERNELS[name]
    source = getattr(importlib.import_module(f"stepwhy.native.kernels.{known.module}"), name)
    signature = numba.int64(*[numba.int64] * known.arguments)
    made = numba.cfunc(signature, nopython=True, error_model="numpy")(source)
    text: str = made._library.get_llvm_str()  # noqa: SLF001 - there is no public way to the code
    return _without(text, made.native_name) + _entry(name, made.native_name, known.arguments)


def _without(text: str, native_name: str) -> str:
    """The code without numba's own entry, which needs the interpreter to report exceptions.

    Kernels raise none.
    """
    shorter, count = re.subn(
        rf'^define [^\n]*@"?{re.escape(native_name)}"?\(.*?^}}$',
        "",
        text,
        flags=re.MULTILINE | re.DOTALL,
    )
    if count != 1:
        raise RuntimeError(f"numba's entry {native_name} is not where it is expected")
    return shorter


def _entry(name: str, native_name: str, arguments: int) -> str:
    """An entry that calls a kernel in numba's way: results and exceptions through pointers."""
    taken = ", ".join(f"i64 %a{i}" for i in range(arguments))
    callee = native_name.removeprefix("cfunc.")
    return f"""
define i64 @stepwhy_{name}({taken}) {{
  %result = alloca i64
  store i64 0, ptr %result
  %exception = alloca ptr
  store ptr null, ptr %exception
  %status = call i32 @{callee}(ptr %result, ptr %exception, {taken})
  %value = load i64, ptr %result
  ret i64 %value
}}
"""


__all__ = ["emitted", "linked", "linker"]
