"""The files of a log that was rotated, put together again.

`<name>.jsonl` is the newest one; older ones are called `<name>-<number of their first line>.jsonl`.
The first and the newest stay, so that lines may be missing in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from stepwhy.inputs.folders import RunFolder

# Of all files of a log; `stepwhy run` keeps 128 MiB and what it is writing.
_MOST_BYTES = 160 << 20


class Gap(msgspec.Struct, frozen=True):
    """Lines that are missing in a log.

    Args:
        index: Of the line, among those that are there, before which they are missing.
        first: Number of the first missing line in the whole log, from 0.
        last: Number of the last one.
    """

    index: int
    first: int
    last: int


class LogLines(msgspec.Struct, frozen=True):
    """What is there of a log.

    Args:
        lines: Its lines in order.
        gaps: Where lines are missing.
    """

    lines: list[bytes]
    gaps: tuple[Gap, ...] = ()


def read_log(folder: RunFolder, name: str) -> LogLines:
    """Read a log, also one that is being written; one that is not there is empty.

    Args:
        folder: The folder of the process.
        name: Of the log, without `.jsonl`.
    """
    # The newest file goes first: were it renamed in between, it would be read twice, not missed.
    newest = folder.read(f"{name}.jsonl", _MOST_BYTES)
    left = _MOST_BYTES - len(newest)
    lines: list[bytes] = []
    gaps: list[Gap] = []
    number, data = 0, b""
    for first, file in _full_files(folder, name):
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


def _full_files(folder: RunFolder, name: str) -> list[tuple[int, str]]:
    """The files that were set aside: number of the first line, and name, in order."""
    files = folder.names(f"{name}-*.jsonl")
    numbered = ((file[len(name) + 1 : -len(".jsonl")], file) for file in files)
    return sorted((int(number), file) for number, file in numbered if number.isdecimal())


__all__ = ["Gap", "LogLines", "read_log"]
