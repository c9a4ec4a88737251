"""What the names of kernels and other device work stand for."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from stepwhy.read.kernel_names.symbols import own_name, qualified_name
from stepwhy.read.kernel_names.table import (
    ACTIVITIES,
    INSTRUCTIONS,
    KERNELS,
    MOVING,
    OPERATIONS,
    RANGES,
    Family,
    Row,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


# Longer than any name without its arguments; the patterns take quadratic time at worst.
_LONGEST = 1_000


def _own(name: str) -> str:
    return own_name(name)[:_LONGEST].lower()


def _first(rows: Iterable[Row], lower: str) -> Row | None:
    for row in rows:
        if row.pattern.search(lower):
            return row
    return None


@lru_cache(maxsize=1 << 16)
def kernel_row(name: str) -> Row | None:
    """The row of a kernel, by its name, signature or mangled symbol; None for other kernels."""
    return _first(KERNELS, _own(name))


@lru_cache(maxsize=1 << 16)
def moving_row(name: str) -> Row | None:
    """`kernel_row` of a kernel that may communicate, copy or fill; None for other computation."""
    return _first(MOVING, _own(name))


@lru_cache(maxsize=1 << 16)
def activity_row(name: str) -> Row | None:
    """The row of anything that a device does; None for unknown work, which computes."""
    return _first(ACTIVITIES, _own(name))


@lru_cache(maxsize=1 << 14)
def instruction_row(name: str) -> Row | None:
    """The row of an HLO instruction, or of its category; None for computation and calls."""
    return _first(INSTRUCTIONS, name[:_LONGEST])


@lru_cache(maxsize=1 << 12)
def operation_row(op: str) -> Row | None:
    """The row of a TensorFlow operation by its type; None for others."""
    return _first(OPERATIONS, op[:_LONGEST].lower())


def is_exchange(range_name: str) -> bool:
    """Whether a range on a host thread is a collective."""
    return _first(RANGES, range_name) is not None


__all__ = [
    "Family",
    "Row",
    "activity_row",
    "instruction_row",
    "is_exchange",
    "kernel_row",
    "moving_row",
    "operation_row",
    "own_name",
    "qualified_name",
]
