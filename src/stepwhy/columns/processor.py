"""Which processor this is: code that was compiled for another one may not run on it."""

from __future__ import annotations

import os
from pathlib import Path

# Lines that identify the type of a processor, on x86 and on ARM.
_IDENTIFYING = (
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
)
_FEATURES = {"flags", "Features"}
# The first processor's lines; those of all may be a megabyte.
_ENOUGH = 1 << 13  # bytes


def processor(described: Path = Path("/proc/cpuinfo")) -> bytes:
    """The type of this machine's processor and its instruction sets, to compare with.

    Args:
        described: Where Linux describes the processors.

    Raises:
        ImportError: This system does not tell, and the compiler that could is not there.

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
    from llvmlite import binding  # noqa: PLC0415 - slow, and not always there

    name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return f"{binding.get_process_triple()}\0{name}\0{features}".encode()


__all__ = ["processor"]
