"""Counters of a Chrome trace: sampled values by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.importers.chrome_json import Codes
from stepwhy.importers.nvtx import without_homes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.chrome_json import Batch
    from stepwhy.trace import TraceBuilder

FLAG: Final = ord("C")
"""Phase of a sample."""

_LARGEST = 1 << 62


class Counters:
    """Samples that are whole numbers; a record of several series is several samples."""

    def __init__(self) -> None:
        self._names = Codes()
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._kept = self._dropped = 0

    def take(self, batch: Batch[dict[str, Any]], rows: NDArray[np.int64]) -> None:
        """Take the samples of a batch.

        Args:
            batch: The batch.
            rows: Its records that hold samples.
        """
        found: list[tuple[int, int, int]] = []
        for row in rows.tolist():
            event = batch.events[row]
            samples = _samples(event.args) if batch.timed[row] else {}
            found += [(row, self._names[event.name, s], value) for s, value in samples.items()]
            self._kept += bool(samples)
            self._dropped += not samples
        if found:
            told = np.asarray(found, dtype=np.int64)
            times, names = batch.start_ns[told[:, 0]], told[:, 1].astype(np.int32)
            self._parts.append({"time_ns": times, "name": names, "value": told[:, 2].copy()})

    def add_to(self, builder: TraceBuilder) -> None:
        """Append what was taken, and count what was not."""
        strings = builder.intern_all([_name(*name) for name in self._names])
        shown = np.asarray(strings, dtype=np.int32)
        for part in self._parts:
            builder.rows_from("counters", {**part, "name": shown[part["name"]]})
        self._parts.clear()
        builder.health.events_kept += self._kept
        builder.health.count(
            "unreadable-counter",
            "info",
            "Samples without a time, or that are no whole numbers, were left out.",
            count=self._dropped,
            dropped=True,
        )


def _samples(args: dict[str, Any] | None) -> dict[str, int]:
    """The series of a record that are whole numbers; a rounded share would be a wrong one."""
    whole = {}
    for series, value in (args or {}).items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and abs(value) < _LARGEST and int(value) == value:
            whole[series] = int(value)
    return whole


def _name(counter: str, series: str) -> str:
    """'memory allocated' of a counter 'memory' with a series 'allocated'."""
    name = counter if series in {"", "value", counter} else f"{counter} {series}"
    return without_homes(name.strip())
