"""Counters of a Chrome trace: sampled values by name, as columns.

Source: the "Trace Event Format" document of the Chromium project: counter events ('C').
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.read.shared.chrome_json import Codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepwhy.read.shared.chrome_json import Batch
    from stepwhy.trace import TraceBuilder

    Args = dict[str, Any]

SAMPLE: Final = ord("C")
"""Phase of the records of counters."""


class Samples:
    """Collects the samples of a file; a record has one sample for each of its series.

    Args:
        read: Returns the samples of a record by series, from its arguments.

    Attributes:
        kept: Number of records with samples.
        dropped: Number of records without samples, or without a time.
    """

    def __init__(self, read: Callable[[Args | None], dict[str, int]]) -> None:
        self._read = read
        self._names = Codes()
        self._parts: list[dict[str, NDArray[Any]]] = []
        self.kept = self.dropped = 0

    def add(self, batch: Batch[Args]) -> None:
        """Add the samples of a batch."""
        found: list[tuple[int, int, int]] = []
        for row in np.flatnonzero(batch.phase == SAMPLE).tolist():
            event = batch.events[row]
            samples = self._read(event.args) if batch.timed[row] else {}
            found += [(row, self._names[event.name, s], value) for s, value in samples.items()]
            self.kept += bool(samples)
            self.dropped += not samples
        if found:
            row, name, value = np.asarray(found, dtype=np.int64).T
            part = {"time_ns": batch.start_ns[row], "name": name.astype(np.int32)}
            self._parts.append({**part, "value": value.copy()})

    def add_to(self, builder: TraceBuilder, name: Callable[[str, str], str]) -> None:
        """Add the samples to a trace.

        Args:
            builder: Receives the samples.
            name: Returns the name of a series, from the names of the counter and the series.
        """
        strings = builder.intern_all([name(*names) for names in self._names])
        shown = np.asarray(strings, dtype=np.int32)
        for part in self._parts:
            builder.rows_from("counters", {**part, "name": shown[part["name"]]})
        self._parts.clear()
