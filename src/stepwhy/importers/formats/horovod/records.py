"""What is kept of a Horovod timeline while its records go by."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepwhy.importers.shared.chrome_json import Collector, Document, Growing, phases_of
from stepwhy.importers.shared.chrome_spans import ON_THREAD, of_phase
from stepwhy.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.importers.shared.chrome_json import Batch
    from stepwhy.inputs.source import Source
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
"""No exchange is larger."""


class Sizes:
    """Sizes of tensors, which few records tell."""

    def __init__(self) -> None:
        self._records, self._bytes = Growing(np.int32), Growing(np.int64)

    def take(self, batch: Batch[Args], rows: NDArray[np.int64], before: int) -> None:
        """Take the sizes that records tell.

        Args:
            batch: The batch.
            rows: Its records of ranges.
            before: How many of these there were before.
        """
        told = [
            (before + at, _bytes_of(batch.events[row].args))
            for at, row in enumerate(rows.tolist())
            if batch.events[row].args and batch.phase[row] != _BEGIN
        ]
        known = np.asarray([t for t in told if t[1] != NULL], dtype=np.int64).reshape(-1, 2)
        self._records.append(known[:, 0])
        self._bytes.append(known[:, 1])

    def of(self, records: NDArray[np.int32]) -> NDArray[np.int64]:
        """Sizes that some records tell, NULL where they tell none; (records,).

        Args:
            records: Numbers of records of ranges.
        """
        told, size = self._records.values(), self._bytes.values()
        if not len(told):
            return np.full(len(records), NULL, dtype=np.int64)
        place = np.minimum(np.searchsorted(told, records), len(told) - 1)
        return np.where(told[place] == records, size[place], NULL)


class Found(msgspec.Struct):
    """What a file holds.

    Args:
        ranges: Records of ranges.
        sizes: What they tell of the tensors.
        tensors: Names of these by process id, as far as the file tells.
        phases: How many records there are of every phase, by its code point.
        cycles: How many cycles of Horovod's are marked.
    """

    ranges: Collector = msgspec.field(default_factory=Collector)
    sizes: Sizes = msgspec.field(default_factory=Sizes)
    tensors: dict[Any, str] = msgspec.field(default_factory=dict)
    phases: Counter[int] = msgspec.field(default_factory=Counter)
    cycles: int = 0

    def add(self, batch: Batch[Args]) -> None:
        """Take a batch."""
        rows = of_phase(batch, ON_THREAD)
        self.sizes.take(batch, rows, sum(self.phases[phase] for phase in ON_THREAD))
        self.ranges.add(batch, rows)
        self.phases.update(phases_of(batch))
        for i in of_phase(batch, (_METADATA,)).tolist():
            self._learn(batch.events[i])
        instants = of_phase(batch, _INSTANTS).tolist()
        self.cycles += sum(batch.events[i].name == "CYCLE_START" for i in instants)

    def _learn(self, event: Any) -> None:
        """Take the name of a tensor; the last one of a process counts, also if it is none."""
        if event.name == "process_name" and event.args:
            name = event.args.get("name")
            self.tensors.pop(event.pid, None)
            if isinstance(name, str) and name:
                self.tensors[event.pid] = name

    def count_others(self, health: Health) -> None:
        """Count records that are no ranges; what names a row is the name of its track."""
        names = self.phases[_METADATA]
        taken = names + self.cycles + sum(self.phases[phase] for phase in ON_THREAD)
        health.events_kept += names
        health.count(
            "cycle-marker",
            "info",
            "Horovod looks for tensors in cycles of a few milliseconds; they are no steps.",
            count=self.cycles,
            dropped=True,
        )
        health.count(
            "other-record",
            "info",
            "Records of kinds that a Horovod timeline does not have.",
            count=self.phases.total() - taken,
            dropped=True,
        )


def collect(source: Source, health: Health) -> Found:
    """Read a file.

    Args:
        source: The file.
        health: Counts what cannot be read.

    Raises:
        CorruptInputError: It holds not a single complete record.
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


__all__ = ["LARGEST_BYTES", "Found", "Sizes", "collect"]
