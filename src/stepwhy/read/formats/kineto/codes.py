"""Helpers for integer codes: repeated values are numbered, and each new code is resolved once."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.groups import first_rows
from stepwhy.base.columns.memory import empty
from stepwhy.read.shared.chrome_json import Codes
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray


def first_new(codes: NDArray[np.signedinteger[Any]], known: int) -> list[int]:
    """Rows in which a code of at least `known` occurs for the first time."""
    new = np.flatnonzero(codes >= known)
    rows: list[int] = new[first_rows(codes[new])].tolist()
    return rows


def extended(table: NDArray[np.int32], length: int) -> NDArray[np.int32]:
    """A table padded with NULL rows up to a length."""
    if length <= len(table):
        return table
    columns = table.shape[1:]
    padded: NDArray[np.int32] = empty(length * prod(columns), np.int32).reshape(length, *columns)
    padded[: len(table)] = table
    padded[len(table) :] = NULL
    return padded


__all__ = ["Codes", "extended", "first_new"]
