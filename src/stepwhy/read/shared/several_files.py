"""Counters for files in which something follows the trace, or that were written into one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.units import format_bytes
from stepwhy.read.inputs.wire import fields

if TYPE_CHECKING:
    from collections.abc import Collection
    from mmap import mmap

    from stepwhy.trace import Health

_APART = "Save each as a file of its own, and give both."


def count_further(health: Health, size: int) -> None:
    """Count another trace that follows the one that was read.

    Args:
        health: The counters.
        size: Bytes that were not read.
    """
    health.count(
        "further-trace",
        "error",
        f"Another trace follows the first one in the same file: {format_bytes(size)} that were "
        f"not read. {_APART}",
        dropped=False,
    )


def count_text_after(health: Health, size: int) -> None:
    """Count what follows the end of a trace and is none.

    Args:
        health: The counters.
        size: Bytes that were not read.
    """
    health.count(
        "text-after-end",
        "warning",
        f"What follows the end of the trace was not read: {format_bytes(size)} that are no trace.",
        dropped=False,
    )


def count_joined(health: Health, count: int) -> None:
    """Count files that follow the first one in the same file and were read with it.

    Args:
        health: The counters.
        count: How many.
    """
    health.count(
        "joined-files",
        "warning",
        "Several files were written into this one, one after the other: they are shown together, "
        f"as if they were of one run. {_APART}",
        count=count,
        dropped=False,
    )


def messages_joined(data: bytes | mmap, singular: Collection[int]) -> int:
    """How many protobuf messages follow the first one of a file.

    Protobuf reads messages that follow each other as one. Libraries write fields in the order of
    their numbers, so that a smaller number, or another value of a single field, begins a message.

    Args:
        data: The file.
        singular: Numbers of fields that occur at most once in a message.
    """
    joined, last = 0, 0
    for field in fields(data):
        number = field.number
        joined += number < last or (number == last and number in singular)
        last = number
    return joined
