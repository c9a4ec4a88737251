"""Collect the records of a Horovod timeline as columns."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepwhy.base.columns.growing import Growing
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json import Collector, Document, phases_of
from stepwhy.read.shared.chrome_spans import ON_THREAD, of_phase
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.chrome_json import Batch
    from stepwhy.trace import Health

Args = dict[str, Any]

_METADATA, _BEGIN = ord("M"), ord("B")
_INSTANTS = tuple(map(ord, "iI"))
_ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4, "int64": 8, "float64": 8,
}  # fmt: skip
_SHAPE = regex(r"\[(?:\d{1,12}(?:, ?\d{1,12})*)?\]")
LARGEST_BYTES: Final = 1 << 62
"""Upper limit of the size of an exchange."""


class Sizes:
    """Sizes of tensors, which only some records contain."""

    def __init__(self) -> None:
        self._records, self._bytes = Growing(np.int32), Growing(np.int64)

    def take(self, batch: Batch[Args], rows: NDArray[np.int64], before: int) -> None:
        """Add the sizes of a batch.

        Args:
            batch: The batch.
            rows: Its records of ranges.
            before: Number of records of ranges in earlier batches.
        """
        sizes = [
            (before + at, _bytes_of(batch.events[row].args))
            for at, row in enumerate(rows.tolist())
            if batch.events[row].args and batch.phase[row] != _BEGIN
        ]
        known = np.asarray([t for t in sizes if t[1] != NULL], dtype=np.int64).reshape(-1, 2)
        self._records.append(known[:, 0])
        self._bytes.append(known[:, 1])

    def of(self, records: NDArray[np.int32]) -> NDArray[np.int64]:
        """Sizes of some records, NULL where they contain none; (records,).

        Args:
            records: Indices of records of ranges.
        """
        known, size = self._records.values(), self._bytes.values()
        if not len(known):
            return np.full(len(records), NULL, dtype=np.int64)
        place = np.minimum(np.searchsorted(known, records), len(known) - 1)
        return np.where(known[place] == records, size[place], NULL)


class Found(msgspec.Struct):
    """Contents of a file.

    Args:
        ranges: Records of ranges.
        sizes: Sizes of tensors in these records.
        tensors: Tensor names by process id, as far as they are recorded.
        phases: Number of records per phase, by code point.
        cycles: Number of cycle markers.
    """

    ranges: Collector = msgspec.field(default_factory=Collector)
    sizes: Sizes = msgspec.field(default_factory=Sizes)
    tensors: dict[Any, str] = msgspec.field(default_factory=dict)
    phases: Counter[int] = msgspec.field(default_factory=Counter)
    cycles: int = 0

    def add(self, batch: Batch[Args]) -> None:
        """Add a batch."""
        rows = of_phase(batch, ON_THREAD)
        self.sizes.take(batch, rows, sum(self.phases[phase] for phase in ON_THREAD))
        self.ranges.add(batch, rows)
        self.phases.update(phases_of(batch))
        for i in of_phase(batch, (_METADATA,)).tolist():
            # A later name of a process replaces an earlier one.
            event = batch.events[i]
            if event.name == "process_name" and event.args:
                name = event.args.get("name")
                self.tensors.pop(event.pid, None)
                if isinstance(name, str) and name:
                    self.tensors[event.pid] = name
        instants = of_phase(batch, _INSTANTS).tolist()
        self.cycles += sum(batch.events[i].name == "CYCLE_START" for i in instants)

    def count_others(self, health: Health) -> None:
        """Count the records that are not ranges."""
        names = self.phases[_METADATA]
        used = names + self.cycles + sum(self.phases[phase] for phase in ON_THREAD)
        health.events_kept += names
        health.count(
            "cycle-marker",
            "info",
            "Markers of Horovod's polling cycles of a few milliseconds, which are not steps.",
            count=self.cycles,
            dropped=True,
        )
        health.count(
            "other-record",
            "info",
            "Records of kinds that do not belong to a Horovod timeline.",
            count=self.phases.total() - used,
            dropped=True,
        )


def collect(source: Source, health: Health) -> Found:
    """Read a file.

    Args:
        source: The file.
        health: Counts what cannot be read.

    Raises:
        CorruptInputError: It contains no complete record.
    """
    found = Found()
    for batch in Document(source, Args, health, may_be_unclosed=True):
        found.add(batch)
    return found


def _bytes_of(closing: Args | None) -> int:
    """Size of a tensor from {'dtype': 'float32', 'shape': '[3, 4]'}; NULL where one is missing."""
    dtype, shape = (closing or {}).get("dtype"), (closing or {}).get("shape")
    if not isinstance(dtype, str) or not isinstance(shape, str):
        return NULL
    return _size_of(dtype, shape)


@lru_cache(maxsize=1 << 14)
def _size_of(dtype: str, shape: str) -> int:
    item = _ITEM_BYTES.get(dtype)
    if item is None or not _SHAPE.fullmatch(shape):
        return NULL
    size = item * prod(int(n) for n in re.findall(r"\d+", shape))
    return size if size < LARGEST_BYTES else NULL
