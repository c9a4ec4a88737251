"""Slices that come some at a time, held as columns in one piece of memory each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.importers.shared.chrome_json import Growing
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
# Nulls that are held at a time.
_PIECE = 1 << 16


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
                _append_nulls(self._columns[name], name, before)
            if name in self._columns:
                self._columns[name].append(values)
        for name in self._columns.keys() - columns.keys():
            _append_nulls(self._columns[name], name, count)

    def put(self, name: str, rows: NDArray[np.int64], values: ArrayLike) -> None:
        """Change what some slices hold.

        Args:
            name: The column.
            rows: Which slices, in the order in which they were added.
            values: (rows,), or one value for all.
        """
        if name not in self._columns:
            self._columns[name] = Growing(_TYPES[name])
            _append_nulls(self._columns[name], name, len(self))
        self._columns[name].values()[rows] = values

    def distinct(self, name: str) -> set[int]:
        """The different values of a column."""
        if name not in self._columns:
            return {_NULLS[name]} if len(self) else set()
        return set(np.unique(self._columns[name].values()).tolist())

    def hand_over(self, builder: TraceBuilder) -> None:
        """Append all of them to a trace."""
        if len(self):
            builder.slices_from({name: column.values() for name, column in self._columns.items()})
        self._columns = {_ALWAYS: Growing(_TYPES[_ALWAYS])}


def _append_nulls(column: Growing, name: str, count: int) -> None:
    nulls = np.full(min(count, _PIECE), _NULLS[name], dtype=_TYPES[name])
    for first in range(0, count, _PIECE):
        column.append(nulls[: count - first])


__all__ = ["SliceColumns"]
