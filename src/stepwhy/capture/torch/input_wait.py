"""Time that a PyTorch loop spends waiting for batches."""

from __future__ import annotations

import threading

_UNKNOWN = -1


class InputWait:
    """Time spent waiting for batches, by thread; a prefetching thread's is nobody's wait.

    Attributes:
        light: Whether the step under way is only timed: then nobody adds to it.
    """

    def __init__(self) -> None:
        self.light = False
        self._seen = False
        self._waited: dict[int, int] = {}

    def add(self, duration_ns: int) -> None:
        """Add to the calling thread's wait."""
        self._seen = True
        thread = threading.get_ident()
        self._waited[thread] = self._waited.get(thread, 0) + duration_ns

    def take(self) -> int:
        """The calling thread's wait since the last call, in ns; -1 where no loader was seen."""
        if not self._seen:
            return _UNKNOWN
        return self._waited.pop(threading.get_ident(), 0)
