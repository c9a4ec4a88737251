"""Reads a rotated log as one.

`<name>.jsonl` is the newest one; older ones are called `<name>-<number of their first line>.jsonl`.
Rotation keeps the first and the newest files, so lines may be missing in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepwhy.read.inputs.folders import RunFolder

# Bytes of all files of a log; `stepwhy run` keeps 128 MiB and the file that it is writing.
_MOST_BYTES = 160 << 20


class Gap(msgspec.Struct, frozen=True):
    """Lines that are missing in a log.

    Args:
        index: Index of the first existing line after the gap.
        first: Number of the first missing line in the whole log, from 0.
        last: Number of the last one.
    """

    index: int
    first: int
    last: int


class LogLines(msgspec.Struct, frozen=True):
    """The existing lines of a log.

    Args:
        lines: Its lines in order.
        gaps: Where lines are missing.
    """

    lines: list[bytes]
    gaps: tuple[Gap, ...] = ()


def read_log(folder: RunFolder, name: str) -> LogLines:
    """Read a log, which may still be written to; a missing log is empty.

    Args:
        folder: The folder of the process.
        name: Of the log, without `.jsonl`.
    """
    # Read the newest file first: if it is renamed meanwhile, it is read twice instead of missed.
    newest = folder.read(f"{name}.jsonl", _MOST_BYTES)
    left = _MOST_BYTES - len(newest)
    lines: list[bytes] = []
    gaps: list[Gap] = []
    number, data = 0, b""
    # The rotated files, as number of the first line and name, in order.
    files = folder.names(f"{name}-*.jsonl")
    numbered = ((file[len(name) + 1 : -len(".jsonl")], file) for file in files)
    full_files = sorted((int(number), file) for number, file in numbered if number.isdecimal())
    for first, file in full_files:
        data = folder.read(file, left)
        left -= len(data)
        if first > number:
            gaps.append(Gap(len(lines), number, first - 1))
        part = data.splitlines()
        lines += part
        number = first + len(part)
    if not (newest and data.startswith(newest)):
        lines += newest.splitlines()
    return LogLines(lines, tuple(gaps))
