"""How much memory a step needs, when, and what holds it."""

from __future__ import annotations

from typing import Literal

import msgspec


class MemoryHolder(msgspec.Struct, frozen=True):
    """An operation that held memory at the peak.

    Args:
        name: Operation or graph node that requested the memory.
        phase: Phase of the step in which it did; 'unknown' if not recorded.
        blocks: Number of blocks.
        bytes: Total size of the blocks.
    """

    name: str
    phase: str
    blocks: int
    bytes: int


class BatchRoom(msgspec.Struct, frozen=True):
    """How many times larger the batch could be until the memory is full.

    Args:
        low: Estimate if all memory that is allocated during a step grows with the batch.
        high: Estimate if gradients, which do not grow, are as large as `fixed_bytes`; None if that
            leaves nothing that grows.
        fixed_bytes: Memory held when a step begins: parameters, optimizer state and so on.
        growing_bytes: Memory allocated during the step, at its peak.
        usable_bytes: Memory that may be used in all.
    """

    low: float
    high: float | None
    fixed_bytes: int
    growing_bytes: int
    usable_bytes: int


class MemoryUse(msgspec.Struct, frozen=True):
    """Memory of one allocator, device or process over time; None for what is not recorded.

    Args:
        name: The allocator or device; 'process' for the resident memory of the process.
        kind: Memory of a 'device' or of the 'host'.
        over: Period of all times and levels: the 'step' with the highest peak, or the whole 'run'.
        span_ns: Length of the period.
        base_bytes: Level at its beginning; if None, all levels are relative to that level.
        peak_bytes: Highest level.
        peak_ns: Time of the first peak since the beginning of the period.
        peak_phase: Phase of the step at that time; 'unknown' if not recorded.
        peak_name: Operation or graph node whose request caused the peak; '' if not recorded.
        reserved_bytes: Largest memory that the allocator had reserved from the system.
        capacity_bytes: Total memory of the device or machine.
        swapped_bytes: Largest memory that was swapped out.
        growth_bytes: Growth of the level from the beginning of one step to that of the next.
        holders: Operations that held memory at the peak, of what was allocated in the period,
            largest first.
        others: Number of smaller holders that are left out.
        series: (time since the beginning, level): the highest level of each interval.
        room: How much larger the batch could be; None if unknown.
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
