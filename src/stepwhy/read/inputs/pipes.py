"""Read a pipe to its end, within the available memory and disk space.

Source: poll(2), fifo(7) and pipe(7): a non-blocking read of a pipe returns no bytes if there is no
writer, and fails with EAGAIN if a writer has not written yet.
"""

from __future__ import annotations

import math
import os
import select
from typing import TYPE_CHECKING, BinaryIO

from stepwhy.base import output
from stepwhy.base.errors import NotFoundError, TooLargeError
from stepwhy.base.units import format_bytes
from stepwhy.read.inputs.memory import ANY_SIZE, MAPPED_TIMES
from stepwhy.read.inputs.spool import Spool

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# By then, a program that was started to write to a named pipe has opened it. After that there is no
# limit: it may fetch the trace from a remote place.
_WRITER_WAIT_S = 60
# After this wait, a message is printed.
_UNNOTICED_WAIT_S = 3.0
# Limit for pipes that never end; traces have a hundredth of it.
_MOST_BYTES = 1 << 33
_CHUNK = 1 << 16  # bytes; default capacity of a pipe on Linux


def read_pipe(path: Path, wait_s: float = _WRITER_WAIT_S) -> BinaryIO:
    """Read a pipe until its writers close it.

    Prints a line on standard error if nothing arrives for a few seconds.

    Args:
        path: The pipe.
        wait_s: Longest wait for a program to open it for writing, in seconds.

    Returns:
        A file in memory or a temporary file, positioned at its start.

    Raises:
        NotFoundError: If no program opens it for writing.
        TooLargeError: If there is not enough memory or disk space, or it does not end.
        OSError: If it cannot be opened or read.
    """
    spool = Spool(path.name, MAPPED_TIMES)
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for chunk in _chunks(handle, path.name, wait_s):
            spool.add(chunk)
            _check_size(spool.size, path.name)
    except BaseException:
        spool.close()
        raise
    finally:
        os.close(handle)
    spool.file.seek(0)
    return spool.file


def _check_size(size: int, name: str) -> None:
    if size > _MOST_BYTES and os.environ.get(ANY_SIZE) != "1":
        raise TooLargeError(
            f"{name} is a pipe that delivers more than {format_bytes(_MOST_BYTES)}",
            f"Write the trace to a file and give that, or set {ANY_SIZE}=1 to read it to its end",
        )


def _chunks(handle: int, name: str, wait_s: float) -> Iterator[bytes]:
    """Chunks of bytes from a pipe, as they arrive."""
    wait = _Wait(handle, name)
    chunk = None
    # `poll` reports nothing before the pipe has a writer.
    if not wait.until_ready(wait_s) and (chunk := _read(handle)) == b"":
        raise NotFoundError(
            f"{name} is a pipe, and no program opened it for writing within {wait_s:g} s",
            "Start the program that writes the trace first, or give a trace file",
        )
    while chunk != b"":
        if chunk is None:
            wait.until_ready()
        else:
            yield chunk
        chunk = _read(handle)


class _Wait:
    """Waits for a pipe, and prints one message if it takes long."""

    def __init__(self, handle: int, name: str) -> None:
        self._poll = select.poll()
        self._poll.register(handle, select.POLLIN)
        self._name = name
        self._is_announced = False

    def until_ready(self, most_s: float = math.inf) -> bool:
        """Wait for an event on the pipe; returns False after `most_s` seconds without one."""
        first_s = math.inf if self._is_announced else _UNNOTICED_WAIT_S
        if first_s < most_s:
            if self._poll.poll(first_s * 1000):
                return True
            output.line(f"stepwhy: waiting for a program to write a trace to {self._name}")
            self._is_announced = True
            most_s -= first_s
        return bool(self._poll.poll(None if most_s == math.inf else most_s * 1000))


def _read(handle: int) -> bytes | None:
    """Some bytes; b'' if there is no writer, None if it has written nothing more yet."""
    try:
        return os.read(handle, _CHUNK)
    except BlockingIOError:
        return None
