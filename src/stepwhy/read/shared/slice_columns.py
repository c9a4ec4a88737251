"""Slices collected as growing columns, for importers that read in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import chunks
from stepwhy.base.columns.growing import Growing
from stepwhy.base.columns.narrow import constant
from stepwhy.trace import NULL
from stepwhy.trace.schema import columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from stepwhy.trace import TraceBuilder

_TYPES = {c.name: np.dtype(c.dtype) for c in columns_of("slices")}
# Value of a column that a chunk of slices lacks.
_NULLS = {c.name: 0 if c.null in {"", "0"} else NULL for c in columns_of("slices")}
_ALWAYS = "start_ns"


class SliceColumns:
    """Collects slices; a column that is null everywhere takes no memory."""

    def __init__(self) -> None:
        self._columns = {_ALWAYS: Growing(_TYPES[_ALWAYS])}

    def __len__(self) -> int:
        """Number of slices."""
        return len(self._columns[_ALWAYS])

    def add(self, columns: Mapping[str, ArrayLike]) -> None:
        """Append slices.

        Args:
            columns: Columns of the schema, 'start_ns' among them: (slices,), or one value for all.
        """
        before = len(self)
        count = len(np.asarray(columns[_ALWAYS]))
        for name, column in columns.items():
            values = np.broadcast_to(np.asarray(column), (count,))
            if name not in self._columns and (values != _NULLS[name]).any():
                self._columns[name] = Growing(_TYPES[name])
                _append_nulls(self._columns[name], name, before)
            if name in self._columns:
                self._columns[name].append(values)
        for name in self._columns.keys() - columns.keys():
            _append_nulls(self._columns[name], name, count)

    def put(self, name: str, rows: NDArray[np.int64], values: ArrayLike) -> None:
        """Change values of a column.

        Args:
            name: The column.
            rows: Numbers of the slices, in the order in which they were added; (rows,).
            values: New values; (rows,), or one value for all.
        """
        if name not in self._columns:
            self._columns[name] = Growing(_TYPES[name])
            _append_nulls(self._columns[name], name, len(self))
        self._columns[name].values()[rows] = values

    def column(self, name: str) -> NDArray[Any]:
        """The values of a column so far; (slices,)."""
        if name not in self._columns:
            return constant(_NULLS[name], len(self), _TYPES[name].str)
        return self._columns[name].values()

    def distinct(self, name: str) -> set[int]:
        """The different values of a column."""
        if name not in self._columns:
            return {_NULLS[name]} if len(self) else set()
        return set(np.unique(self._columns[name].values()).tolist())

    def add_to(self, builder: TraceBuilder) -> None:
        """Move all slices to a trace."""
        if len(self):
            builder.slices_from({name: column.values() for name, column in self._columns.items()})
        self._columns = {_ALWAYS: Growing(_TYPES[_ALWAYS])}


def _append_nulls(column: Growing, name: str, count: int) -> None:
    for chunk in chunks(count):
        column.append(np.full(chunk.stop - chunk.start, _NULLS[name], dtype=_TYPES[name]))
