"""Blanking what names the user in files that profilers wrote: home folders, folders of the name.

Profilers keep the paths of sources. Each place is overwritten by as many bytes, so that the file
keeps its structure whatever its format is, and a path still ends as it did.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_PATH_END = rb"(?=[/\"'\\\0-\x20:]|$)"
# A shorter name is likely to be a part of something else.
_SHORTEST_NAME = 4
_CHUNK_BYTES = 1 << 20
_LONGEST_PATH = 4096


def private_paths() -> re.Pattern[bytes]:
    """What is blanked: this user's home, other homes, and folders that are called as the user."""
    home = os.fsencode(os.environ.get("HOME", "").rstrip("/"))
    parts = [rb"/(?:home|Users)/[^/\"'\\\0-\x20:]+", rb"/root" + _PATH_END]
    if home.count(b"/") > 1:
        parts.insert(0, re.escape(home) + _PATH_END)
    names = {os.environ.get(variable, "") for variable in ("USER", "LOGNAME")} - {"root"}
    parts += [
        rb"(?<=[/_])" + re.escape(os.fsencode(name)) + rb"(?=/)"
        for name in names
        if len(name) >= _SHORTEST_NAME
    ]
    return re.compile(b"|".join(parts))


def blank(path: Path) -> None:
    """Blank the private parts of paths in a file, in place.

    Read and written in pieces, not mapped into memory: a mapped file on a disk that becomes full
    ends the process.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be read or written.
    """
    pattern = private_paths()
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        offset = 0
        # One byte is read twice: what stands before a name decides.
        while len(data := os.pread(handle, _CHUNK_BYTES + _LONGEST_PATH, offset)) > 1:
            for found in pattern.finditer(data):
                start, end = found.span()
                if start < _CHUNK_BYTES:
                    os.pwrite(handle, b"~" + b"/" * (end - start - 1), offset + start)
            offset += _CHUNK_BYTES - 1
    finally:
        os.close(handle)
