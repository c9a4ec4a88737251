"""Slices that come some at a time, held as columns in one piece of memory each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.importers.chrome_json import Growing
from stepwhy.trace import NULL
from stepwhy.trace.schema import columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from stepwhy.trace import TraceBuilder

_TYPES = {c.name: np.dtype(c.dtype) for c in columns_of("slices")}
# Value of a column where slices do not have it.
_NULLS = {c.name: 0 if c.null in {"", "0"} else NULL for c in columns_of("slices")}
_ALWAYS = "start_ns"


class SliceColumns:
    """Collects slices; a column that holds nothing but nulls takes no memory."""

    def __init__(self) -> None:
        self._columns = {_ALWAYS: Growing(_TYPES[_ALWAYS])}

    def __len__(self) -> int:
        """Number of slices."""
        return len(self._columns[_ALWAYS])

    def add(self, columns: Mapping[str, ArrayLike]) -> None:
        """Take slices.

        Args:
            columns: Columns of the schema, 'start_ns' among them: (slices,), or one value for all.
        """
        before = len(self)
        count = len(np.asarray(columns[_ALWAYS]))
        for name, given in columns.items():
            values = np.broadcast_to(np.asarray(given), (count,))
            if name not in self._columns and (values != _NULLS[name]).any():
                self._columns[name] = Growing(_TYPES[name])
                self._columns[name].append(_nulls(name, before))
            if name in self._columns:
                self._columns[name].append(values)
        for name in self._columns.keys() - columns.keys():
            self._columns[name].append(_nulls(name, count))

    def hand_over(self, builder: TraceBuilder) -> None:
        """Append all of them to a trace."""
        if len(self):
            builder.slices_from({name: column.values() for name, column in self._columns.items()})
        self._columns = {_ALWAYS: Growing(_TYPES[_ALWAYS])}


def _nulls(name: str, count: int) -> NDArray[Any]:
    return np.full(count, _NULLS[name], dtype=_TYPES[name])


__all__ = ["SliceColumns"]
