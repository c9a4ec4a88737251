"""Identify the processor: compiled code may not run on another type."""

from __future__ import annotations

import os
from pathlib import Path

# Lines that identify the type of a processor, on x86 and on ARM.
_IDENTIFYING = (
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
)
_FEATURES = {"flags", "Features"}
# Enough for the lines of the first processor; those of all may take a megabyte.
_ENOUGH = 1 << 13  # bytes


def processor(described: Path = Path("/proc/cpuinfo")) -> bytes:
    """A fingerprint of this machine's type of processor and its instruction sets.

    Args:
        described: File in which Linux describes the processors.

    Raises:
        ImportError: There is no such file, and the compiler library is not installed.

    Source: proc_cpuinfo(5).
    """
    fields = _fields(described)
    if not fields:
        return _from_compiler()
    lines = [os.uname().machine, *(f"{key}:{fields[key]}" for key in sorted(fields))]
    return "\0".join(lines).encode()


def _fields(described: Path) -> dict[str, str]:
    """Fields of the first processor in Linux's list; {} if it does not name instruction sets."""
    try:
        with described.open("rb") as file:
            text = file.read(_ENOUGH).decode(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    fields = {key.strip(): value.strip() for key, _, value in pairs if key.strip() in _IDENTIFYING}
    return fields if fields.keys() & _FEATURES else {}


def _from_compiler() -> bytes:
    """The type according to the compiler library, which takes 40 ms to load."""
    from llvmlite import binding  # noqa: PLC0415 - slow, and not always installed

    name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return f"{binding.get_process_triple()}\0{name}\0{features}".encode()


__all__ = ["processor"]
