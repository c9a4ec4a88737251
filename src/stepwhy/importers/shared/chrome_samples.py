"""Counters of a Chrome trace: sampled values by name, as columns.

Source: the "Trace Event Format" document of the Chromium project: counter events ('C').
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.importers.shared.chrome_json import Codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepwhy.importers.shared.chrome_json import Batch
    from stepwhy.trace import TraceBuilder

    Args = dict[str, Any]

SAMPLE: Final = ord("C")
"""Phase of the records of counters."""


class Samples:
    """The samples of a file; a record of several series is several of them.

    Args:
        read: The samples of a record by series, from its arguments; empty where there are none.

    Attributes:
        kept: Records that hold samples.
        dropped: Records that hold none, or no time.
    """

    def __init__(self, read: Callable[[Args | None], dict[str, int]]) -> None:
        self._read = read
        self._names = Codes()
        self._parts: list[dict[str, NDArray[Any]]] = []
        self.kept = self.dropped = 0

    def take(self, batch: Batch[Args]) -> None:
        """Take the samples of a batch."""
        found: list[tuple[int, int, int]] = []
        for row in np.flatnonzero(batch.phase == SAMPLE).tolist():
            event = batch.events[row]
            samples = self._read(event.args) if batch.timed[row] else {}
            found += [(row, self._names[event.name, s], value) for s, value in samples.items()]
            self.kept += bool(samples)
            self.dropped += not samples
        if found:
            told = np.asarray(found, dtype=np.int64)
            times, names = batch.start_ns[told[:, 0]], told[:, 1].astype(np.int32)
            self._parts.append({"time_ns": times, "name": names, "value": told[:, 2].copy()})

    def add_to(self, builder: TraceBuilder, name: Callable[[str, str], str]) -> None:
        """Append what was taken.

        Args:
            builder: The trace to append to.
            name: What to call a series of a counter, from the counter's name and the series'.
        """
        strings = builder.intern_all([name(*names) for names in self._names])
        shown = np.asarray(strings, dtype=np.int32)
        for part in self._parts:
            builder.rows_from("counters", {**part, "name": shown[part["name"]]})
        self._parts.clear()


__all__ = ["SAMPLE", "Samples"]
