"""How much memory a step needs, when, and what holds it."""

from __future__ import annotations

from typing import Literal

import msgspec


class MemoryHolder(msgspec.Struct, frozen=True):
    """What held memory at the peak.

    Args:
        name: The operation or graph node that asked for it.
        phase: Phase of the step in which it did, 'unknown' where it cannot be told.
        blocks: How many blocks.
        bytes: Together.
    """

    name: str
    phase: str
    blocks: int
    bytes: int


class BatchRoom(msgspec.Struct, frozen=True):
    """How many times larger the batch could be until the memory is full.

    Args:
        low: If all that a step takes on top of what it begins with grows with the batch.
        high: If gradients, which do not grow, are as large as all that a step begins with; None
            where that leaves nothing that grows.
        fixed_bytes: What a step begins with: parameters, optimizer state and what else stays.
        growing_bytes: What it takes on top of that.
        usable_bytes: What may be used, of the memory that there is.
    """

    low: float
    high: float | None
    fixed_bytes: int
    growing_bytes: int
    usable_bytes: int


class MemoryUse(msgspec.Struct, frozen=True):
    """The memory of one allocator, device or process over time; None where it is not recorded.

    Args:
        name: The allocator or device; 'process' for the resident memory of the process.
        kind: 'device' memory, or that of the 'host'.
        over: Whether times and levels are those of one 'step', the one with the highest peak, or
            of the whole 'run'.
        span_ns: How long that is.
        base_bytes: What was held when it began. Where it is not known, all levels count from it.
        peak_bytes: The highest level.
        peak_ns: When it was reached first, from the beginning.
        peak_phase: Phase of the step at that time, 'unknown' where it cannot be told.
        peak_name: Operation or graph node whose request reached it, '' where it cannot be told.
        reserved_bytes: Most that the allocator had taken from the system.
        capacity_bytes: Memory that there is.
        swapped_bytes: Most of it that was swapped out.
        growth_bytes: By how much a step begins with more than the one before it.
        holders: What held the peak, of what was allocated since the beginning, largest first.
        others: How many smaller holders are left out.
        series: (time from the beginning, level), the highest of each stretch of time.
        room: How much larger the batch could be; None where it cannot be told.
    """

    name: str
    kind: Literal["device", "host"]
    over: Literal["step", "run"]
    span_ns: int
    base_bytes: int | None
    peak_bytes: int
    peak_ns: int
    peak_phase: str = "unknown"
    peak_name: str = ""
    reserved_bytes: int | None = None
    capacity_bytes: int | None = None
    swapped_bytes: int | None = None
    growth_bytes: int | None = None
    holders: tuple[MemoryHolder, ...] = ()
    others: int = 0
    series: tuple[tuple[int, int], ...] = ()
    room: BatchRoom | None = None
