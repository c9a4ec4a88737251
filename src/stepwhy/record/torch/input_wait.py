"""Time that a PyTorch loop spends waiting for batches."""

from __future__ import annotations

import threading

from stepwhy.record.core.compiled_code import never_compiled

_UNKNOWN = -1


class InputWait:
    """Time spent waiting for batches, by thread: the wait of a prefetching thread delays no step.

    Attributes:
        light: Whether the current step is only timed; nothing is added then.
    """

    def __init__(self) -> None:
        self.light = False
        self._seen = False
        self._waited: dict[int, int] = {}

    @never_compiled
    def add(self, duration_ns: int) -> None:
        """Add to the calling thread's wait."""
        self._seen = True
        thread = threading.get_ident()
        self._waited[thread] = self._waited.get(thread, 0) + duration_ns

    @never_compiled
    def take(self) -> int:
        """Read and reset the wait of the calling thread, in ns; -1 if no loader was seen."""
        if not self._seen:
            return _UNKNOWN
        return self._waited.pop(threading.get_ident(), 0)
