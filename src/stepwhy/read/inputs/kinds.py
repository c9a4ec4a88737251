"""Kinds of files at a path.

`pathlib` raises an error for some paths, such as a link to a name of 300 characters. These
functions return False instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def is_folder(path: Path) -> bool:
    """Whether a path leads to a folder, also through links."""
    return os.path.isdir(path)  # noqa: PTH112 - see the module's docstring


def is_file(path: Path) -> bool:
    """Whether a path leads to a regular file, also through links."""
    return os.path.isfile(path)  # noqa: PTH113


def is_there(path: Path) -> bool:
    """Whether a path leads to anything; False for a broken link."""
    return os.path.exists(path)  # noqa: PTH110
