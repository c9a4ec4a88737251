"""Numbers of the threads and streams that records lie on.

Recorded traces have up to some thousands. A file may have one per record, so that those beyond the
first `MOST_PLACES` share a number per device.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from stepwhy.importers.formats.kineto.codes import Codes, first_sights
from stepwhy.trace.builder import MOST_TRACKS

if TYPE_CHECKING:
    from collections.abc import Hashable

MOST_PLACES = MOST_TRACKS
"""Threads and streams with a number of their own; each takes Python about 25 microseconds."""


class Shared(NamedTuple):
    """Stands for all further threads, or for all further streams of one device.

    Args:
        role: 'thread' or 'stream'.
        device: Process and number of the device as the records name it; None for threads, and
            for all streams of devices that have no stream among the first places.
    """

    role: str
    device: Hashable = None


class Places(Codes):
    """Numbers threads `(pid, tid)` and streams `(pid, tid, device, stream)`.

    Args:
        known: Keys that are no threads or streams, numbered from 0.
    """

    def __init__(self, *known: Hashable) -> None:
        super().__init__({key: number for number, key in enumerate(known)})
        self._most = MOST_PLACES + len(known)
        self.shared: dict[int, Shared] = {}
        self._devices: set[Hashable] = set()
        self._beyond = array("q")

    def __missing__(self, key: Any) -> int:
        """The next number, or a shared one."""
        if len(self) - len(self.shared) < self._most:
            if len(key) > 2:
                self._devices.add((key[0], key[2]))
            return super().__missing__(key)
        self._beyond.append(hash(key))
        return self._number_shared(self._shared_by(key))

    def count_beyond(self) -> int:
        """How many threads and streams have no number of their own."""
        return len(first_sights(np.asarray(self._beyond)))

    def _shared_by(self, key: Any) -> Shared:
        if len(key) == 2:
            return Shared("thread")
        device = (key[0], key[2])
        return Shared("stream", device if device in self._devices else None)

    def _number_shared(self, shared: Shared) -> int:
        number = self.get(shared)
        if number is None:
            number = super().__missing__(shared)
            self.shared[number] = shared
        return number


__all__ = ["MOST_PLACES", "Places", "Shared"]
