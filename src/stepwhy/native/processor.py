"""Which processor this is: code that was compiled for another one may not run on it."""

from __future__ import annotations

import os
from pathlib import Path

# What tells types of processors apart on x86 and on ARM; the rest is of one machine or of now.
_TELLING = (
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
    told = _told(described)
    if not told:
        return _asked()
    lines = [os.uname().machine, *(f"{key}:{told[key]}" for key in sorted(told))]
    return "\0".join(lines).encode()


def _told(described: Path) -> dict[str, str]:
    """What Linux says of the first processor, {} where it does not name its instruction sets."""
    try:
        with described.open("rb") as file:
            text = file.read(_ENOUGH).decode(errors="replace")
    except OSError:
        return {}
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    told = {key.strip(): value.strip() for key, _, value in pairs if key.strip() in _TELLING}
    return told if told.keys() & _FEATURES else {}


def _asked() -> bytes:
    """The same, from the compiler, which takes 40 ms to load."""
    from llvmlite import binding  # noqa: PLC0415 - slow, and not always there

    name, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    return f"{binding.get_process_triple()}\0{name}\0{features}".encode()


__all__ = ["processor"]
