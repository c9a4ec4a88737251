"""The model of this machine's processor, by which runs of different machines are distinguished."""

from __future__ import annotations

import platform
from pathlib import Path

# Enough for the lines of the first processor; those of all may take a megabyte.
_ENOUGH = 1 << 13  # bytes
_NAMES = ("model name", "Model", "cpu model", "cpu")  # x86, ARM boards, MIPS, POWER


def processor_model(described: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the processor; its architecture if the model is unknown.

    Args:
        described: File in which Linux describes the processors.

    Source: proc_cpuinfo(5).
    """
    try:
        with described.open("rb") as file:
            text = file.read(_ENOUGH).decode(errors="replace")
    except OSError:
        return platform.machine()
    pairs = (line.partition(":") for line in text.splitlines())
    fields = {key.strip(): " ".join(value.split()) for key, _, value in reversed(list(pairs))}
    return next(filter(None, map(fields.get, _NAMES)), "") or platform.machine()


__all__ = ["processor_model"]
