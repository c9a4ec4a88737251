"""The machine as the checks see it, replaceable in tests."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stepwhy.record.core.process.cores import visible_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _load_library(name: str) -> object:
    """Load a shared library; OSError when there is none."""
    import ctypes

    return ctypes.CDLL(name)


@dataclass(frozen=True, slots=True)
class Machine:
    """Files, environment and libraries as the checks see them.

    Args:
        root: Folder of `/proc`, `/sys` and `/dev`.
        environ: The environment variables that a command would inherit.
        cores: Number of cores that this process may run on.
        all_cores: Number of cores of the machine.
        file_system: Function like `os.statvfs`.
        load_library: Loads a shared library by name; OSError when there is none.
        is_accessible: Whether a path can be opened for reading and writing.
    """

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    cores: int = field(default_factory=visible_cores)
    all_cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    file_system: Callable[[Path], os.statvfs_result] = os.statvfs
    load_library: Callable[[str], object] = _load_library
    is_accessible: Callable[[Path], bool] = lambda path: os.access(path, os.R_OK | os.W_OK)

    def path(self, name: str) -> Path:
        """The path of a file of the system, such as 'proc/loadavg'."""
        return self.root / name

    def read(self, name: str) -> str | None:
        """Text of a system file; None if it cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def capabilities(self) -> int:
        """Effective Linux capabilities as a bit set; 0 if they cannot be read."""
        for line in (self.read("proc/self/status") or "").splitlines():
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
        return 0
