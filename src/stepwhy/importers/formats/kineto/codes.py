"""Numbers for things that repeat: what they are is decided at their first sight."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.memory import empty
from stepwhy.importers.shared.chrome_json import Codes
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray


def first_of(codes: NDArray[np.signedinteger[Any]], known: int) -> list[int]:
    """Where numbers that are not known stand for the first time."""
    new = np.flatnonzero(codes >= known)
    positions: list[int] = new[first_sights(codes[new])].tolist()
    return positions


def first_sights(values: NDArray[Any]) -> NDArray[np.int64]:
    """Where each value stands for the first time, by ascending value; (different values,).

    As the index of `np.unique`, whose first call imports NumPy's masked arrays (0.01 s).
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.ones(len(values), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return order[first]


def longer(table: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    """A table with null rows at its end."""
    if length <= len(table):
        return table
    columns = table.shape[1:]
    more: NDArray[np.int32] = empty(length * prod(columns), np.int32).reshape(length, *columns)
    more[: len(table)] = table
    more[len(table) :] = NULL
    return more


__all__ = ["Codes", "first_of", "first_sights", "longer"]
