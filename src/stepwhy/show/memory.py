"""Descriptions of memory use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base import units
from stepwhy.base.text import one_line

if TYPE_CHECKING:
    from stepwhy.result import BatchRoom, MemoryUse, Result

# Share of the capacity; such a peak is shown even without a finding.
_NEARLY_FULL = 0.8
_ABOUT_MEMORY = frozenset({"memory-growth", "allocator-pressure", "page-faults", "memory-headroom"})
# With more room than this, memory does not limit the batch and the number is meaningless.
_MANY_TIMES = 10
# Share of the largest; smaller pools are not shown.
_SMALL_SHARE = 0.01


def matters(result: Result) -> bool:
    """Whether to show memory without --all: nearly full, a finding, or nothing else recorded."""
    if not result.breakdown.wall_ns:
        return bool(result.memory)
    found = {finding.id for finding in result.findings if finding.verdict == "found"}
    return bool(found & _ABOUT_MEMORY) or any(map(_is_nearly_full, result.memory))


def _is_nearly_full(use: MemoryUse) -> bool:
    return bool(use.capacity_bytes) and use.peak_bytes >= _NEARLY_FULL * (use.capacity_bytes or 0)


def shown_uses(result: Result) -> list[MemoryUse]:
    """Memory uses that are worth showing: all but those below 1 % of the largest."""
    largest = max((use.peak_bytes for use in result.memory), default=0)
    return [use for use in result.memory if use.peak_bytes >= _SMALL_SHARE * largest > 0]


def use_name(use: MemoryUse) -> str:
    """Name of the device, allocator or process."""
    if use.name == "process":
        return "the process"
    name = one_line(use.name)
    if name.startswith("nvml:"):
        return f"GPU {name.removeprefix('nvml:')} as reported by the driver"
    return f"{name}, memory of the host" if use.kind == "host" and name != "CPU" else name


def use_state(use: MemoryUse) -> str:
    """The peak, the capacity, and the level at the start of a step."""
    above = "" if use.base_bytes is not None else " above the start of the step"
    state = f"{units.format_bytes(use.peak_bytes)}{above} at the peak"
    if use.capacity_bytes:
        state += f", of {units.format_bytes(use.capacity_bytes)}"
    if use.over == "step" and use.base_bytes is not None:
        state += f"; each step starts with {units.format_bytes(use.base_bytes)}"
    if use.growth_bytes and use.growth_bytes > 0:
        state += f", and {units.format_bytes(use.growth_bytes)} more than the previous one"
    if use.swapped_bytes:
        state += f"; {units.format_bytes(use.swapped_bytes)} of it swapped out"
    return state


def peak_words(use: MemoryUse) -> str:
    """Time, phase and operation of the peak: '11.2 of 14.0 ms, backward, in aten::mul'."""
    at = f"{units.format_ns(use.peak_ns)} of {units.format_ns(use.span_ns)}"
    phase = "" if use.peak_phase == "unknown" else use.peak_phase
    where = f"in {one_line(use.peak_name)}" if use.peak_name else ""
    return ", ".join(filter(None, (at, phase, where)))


def room_sentence(room: BatchRoom) -> str:
    """Sentence on how much larger the batch could be, and under which assumption."""
    low, high = (_times(room.low), None if room.high is None else _times(room.high))
    times = low if high == low else f"{low} or more" if high is None else f"{low} to {high}"
    if room.low >= _MANY_TIMES:
        times = f"more than {_MANY_TIMES}"
    fixed, usable = units.format_bytes(room.fixed_bytes), units.format_bytes(room.usable_bytes)
    assumed = "" if room.high == room.low else ", apart from gradients,"
    return (
        f"A batch {times} times as large would fit into {usable}, if the memory at the start of "
        f"a step ({fixed}) stays the same and the rest{assumed} grows with the batch."
    )


def _times(factor: float) -> str:
    return f"{factor:.1f}" if factor < _MANY_TIMES else f"{factor:.0f}"
