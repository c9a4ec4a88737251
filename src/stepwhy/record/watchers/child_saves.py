"""What child processes save, in memory that they share with their parent.

A fork that writes a checkpoint leaves no process directory, as it sees no step. Its parent stalls
if it waits for the fork, and then looks up here whether that has saved.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

_SLOTS = 64
# Process id, nanoseconds, and the name of the longest call.
_SLOT = struct.Struct("=qq48s")


class Saved(NamedTuple):
    """What a child has saved.

    Args:
        name: Its last call, as reports name it.
        time_ns: Time of all its calls, ns.
    """

    name: str
    time_ns: int


class ChildSaves:
    """Saving calls by process id; of children with the same place, only the later one is known."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _SLOTS * _SLOT.size)
        self._parent = os.getpid()

    def note(self, name: str, time_ns: int) -> None:
        """This process has saved; it is noted if it is a fork.

        Args:
            name: What it called.
            time_ns: How long that took.
        """
        pid = os.getpid()
        if pid != self._parent:
            earlier = self._slot(pid)
            total_ns = time_ns + (earlier.time_ns if earlier else 0)
            _SLOT.pack_into(self._page, _place(pid), pid, total_ns, name.encode())

    def take(self, pid: int) -> Saved | None:
        """What a child has saved; None for nothing. Forgets it, as ids are used again."""
        saved = self._slot(pid)
        if saved is not None:
            _SLOT.pack_into(self._page, _place(pid), 0, 0, b"")
        return saved

    def _slot(self, pid: int) -> Saved | None:
        of, time_ns, name = _SLOT.unpack_from(self._page, _place(pid))
        return Saved(name.rstrip(b"\0").decode(errors="replace"), time_ns) if of == pid else None


def _place(pid: int) -> int:
    return pid % _SLOTS * _SLOT.size
