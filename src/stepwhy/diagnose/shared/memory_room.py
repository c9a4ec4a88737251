"""How much memory of the device, or of the machine, the program leaves free."""

from __future__ import annotations

import msgspec

from stepwhy.analyse.answers.memory import memory_uses
from stepwhy.analyse.facts import Facts
from stepwhy.result import Evidence


class MemoryRoom(msgspec.Struct, frozen=True):
    """Memory that the program does not use at its peak.

    Args:
        name: The device, or the process.
        held_bytes: Memory that other work cannot use: the peak, or the reserved memory if that is
            larger.
        capacity_bytes: All memory of the device, or of the machine.
    """

    name: str
    held_bytes: int
    capacity_bytes: int

    @property
    def free_bytes(self) -> int:
        """What is left of the capacity."""
        return max(self.capacity_bytes - self.held_bytes, 0)

    @property
    def free(self) -> float:
        """Free part of the capacity; negative if more is used than the capacity says."""
        return 1 - self.held_bytes / self.capacity_bytes

    def evidence(self) -> tuple[Evidence, ...]:
        """The free memory and the capacity."""
        return (
            Evidence("memory that stays free", self.free_bytes, "bytes", self.name),
            Evidence("total memory", self.capacity_bytes, "bytes", self.name),
        )


def memory_room(facts: Facts) -> MemoryRoom | None:
    """The memory of the fullest device, or of the process if it computes on the CPU.

    None if used or total memory is not recorded. Other programs may use some of what is free.
    """
    kind = "device" if facts.has_accelerator else "host"
    uses = [use for use in facts.derived(memory_uses) if use.kind == kind]
    known = [use for use in uses if use.capacity_bytes and use.base_bytes is not None]
    rooms = [
        MemoryRoom(use.name, max(use.peak_bytes, use.reserved_bytes or 0), use.capacity_bytes or 1)
        for use in known
    ]
    return min(rooms, key=lambda room: room.free, default=None)
