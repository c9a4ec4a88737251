"""Integer codes for the threads and streams of a file.

Recorded traces have up to a few thousand of them. A damaged or generated file may have one per
record, so threads and streams beyond the first `MAX_TRACKS` share one code per device.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.base.columns.groups import first_rows
from stepwhy.read.formats.kineto.codes import Codes
from stepwhy.trace.builder import MOST_TRACKS

if TYPE_CHECKING:
    from collections.abc import Hashable

MAX_TRACKS = MOST_TRACKS
"""Threads and streams with their own code; each costs about 25 microseconds of Python."""


class SharedTrack(NamedTuple):
    """One track for all threads beyond the limit, or for all such streams of one device.

    Args:
        role: 'thread' or 'stream'.
        device: Process and device number as in the records; None for threads, and for the streams
            of all devices that have no stream within the limit.
    """

    role: str
    device: Hashable = None


class TrackCodes(Codes):
    """Codes of threads, keyed `(pid, tid)`, and streams, keyed `(pid, tid, device, stream)`.

    Args:
        reserved: Keys that are neither thread nor stream; they get the first codes.
    """

    def __init__(self, *reserved: Hashable) -> None:
        super().__init__({key: code for code, key in enumerate(reserved)})
        self._most = MAX_TRACKS + len(reserved)
        self.shared: dict[int, SharedTrack] = {}
        self._devices: set[Hashable] = set()
        self._beyond = array("q")

    def __missing__(self, key: Any) -> int:
        """Assign the next code, or a shared one beyond the limit."""
        if len(self) - len(self.shared) < self._most:
            if len(key) > 2:
                self._devices.add((key[0], key[2]))
            return super().__missing__(key)
        self._beyond.append(hash(key))
        shared = self._shared_track(key)
        code = self.get(shared)
        if code is None:
            code = super().__missing__(shared)
            self.shared[code] = shared
        return code

    def count_beyond(self) -> int:
        """Number of threads and streams that share a code."""
        return len(first_rows(np.asarray(self._beyond)))

    def _shared_track(self, key: Any) -> SharedTrack:
        if len(key) == 2:
            return SharedTrack("thread")
        device = (key[0], key[2])
        return SharedTrack("stream", device if device in self._devices else None)
