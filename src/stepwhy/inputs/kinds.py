"""What lies at a path, as far as the system says.

`pathlib` raises for some paths, such as a link that leads to a name of 300 characters. Here, such a
path is that of nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def is_folder(path: Path) -> bool:
    """Whether a path is that of a folder, or of a link to one."""
    return os.path.isdir(path)  # noqa: PTH112 - see the module's docstring


def is_file(path: Path) -> bool:
    """Whether a path is that of a regular file, or of a link to one."""
    return os.path.isfile(path)  # noqa: PTH113


def is_there(path: Path) -> bool:
    """Whether anything is at a path; a link that leads nowhere is nothing."""
    return os.path.exists(path)  # noqa: PTH110


__all__ = ["is_file", "is_folder", "is_there"]
