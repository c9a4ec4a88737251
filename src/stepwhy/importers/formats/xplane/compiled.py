"""When compiled kernels are worth loading, and having them compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy import native

if TYPE_CHECKING:
    from stepwhy.native import Kernel

LARGE = 1 << 22
"""Bytes of a file that takes longer to read without kernels."""

MANY = 1 << 17
"""Events of a plane in such a file."""


def for_file(size: int, *names: str) -> list[Kernel]:
    """Kernels for a file; empty for a small one, and until they are compiled.

    Args:
        size: Of the file, bytes.
        names: Of the kernels.
    """
    return native.find_kernels(*names) if size >= LARGE else []


def for_rows(rows: int, name: str) -> Kernel | None:
    """A kernel for so many events; None for few, and until it is compiled."""
    return native.kernel(name) if rows >= MANY else None


__all__ = ["LARGE", "MANY", "for_file", "for_rows"]
