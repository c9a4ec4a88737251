"""What each op of a TensorFlow graph allocated and when it was freed, from step statistics.

An op's record lists the blocks that it asked for, and the moments at which they were freed, by
whichever op was the last to use them: sizes join the two.

Source: `AllocatorMemoryUsed` and `AllocationRecord` of step_stats.proto; `NodeExecStatsWrapper` in
step_stats_collector.cc; `TrackingAllocator` in tracking_allocator.cc.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.growing import NarrowColumn
from stepwhy.importers.shared.tensorflow.graphs import text
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from stepwhy.trace import TraceBuilder

    Ints = NDArray[np.signedinteger[Any]]

_NS_PER_US = 1000
# Times beyond this would leave int64 as ns; sizes beyond it are damaged.
_LARGEST = 1 << 52
# The columns that it fills.
_COLUMNS = ("time_ns", "pool", "host", "change", "block", "owner", "total")
# So many rows are taken before their columns are made as narrow as they allow.
_PIECE = 1 << 16


class Allocations:
    """Collects the allocations of ops; `finish` appends them.

    Args:
        builder: The trace to append to.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._columns = {name: NarrowColumn() for name in _COLUMNS}
        # What is not in them yet.
        self._new = [array("q") for _ in _COLUMNS]
        self._first_us = _LARGEST
        self.blocks = 0
        """How many blocks were allocated."""

    def add_node(self, node: Any) -> None:
        """Take what the `NodeExecStats` of one op says."""
        for used in node.memory:
            pool = text(used.allocator_name)
            is_host = "cpu" in pool.lower() or "host" in pool.lower()
            owner = text(node.node_name)
            self.add_blocks(used.allocation_records, pool, owner, is_host=is_host)
            end_ns = node.all_start_nanos + node.all_end_rel_nanos
            self.add_total(used.allocator_bytes_in_use, end_ns, pool, owner, is_host=is_host)

    def add_blocks(
        self, records: Iterable[Any], pool: str, owner: str, *, is_host: bool = False
    ) -> None:
        """Take blocks that one op took from one allocator, and their releases.

        Args:
            records: `AllocationRecord` messages of the op, in order.
            pool: The allocator.
            owner: The op's node.
            is_host: Whether it is memory of the host.
        """
        living: dict[int, list[int]] = defaultdict(list)
        for record in records:
            time_us, change = record.alloc_micros, record.alloc_bytes
            size, block = abs(change), NULL
            if not (0 < time_us < _LARGEST and 0 < size < _LARGEST):
                continue
            self._first_us = min(self._first_us, time_us)
            if change > 0:
                living[size].append(block := self.blocks)
                self.blocks += 1
            elif living[size]:
                block = living[size].pop()
            where = time_us * _NS_PER_US, pool, owner, is_host
            self._add(*where, change=change, block=block)

    def add_total(
        self, total: int, time_ns: int, pool: str, owner: str, *, is_host: bool = False
    ) -> None:
        """Take what an allocator has handed out; one that keeps no account says 0."""
        if 0 < total < _LARGEST and 0 < time_ns < _LARGEST * _NS_PER_US:
            self._add(time_ns, pool, owner, is_host, total=total)

    def _add(
        self,
        time_ns: int,
        pool: str,
        owner: str,
        is_host: bool,
        *,
        change: int = 0,
        block: int = NULL,
        total: int = NULL,
    ) -> None:
        intern = self._builder.intern
        row = (time_ns, intern(pool), is_host, change, block, intern(owner), total)
        for column, value in zip(self._new, row, strict=True):
            column.append(value)
        if len(self._new[0]) == _PIECE:
            self._settle()

    def _settle(self) -> None:
        """Put what is new into the columns."""
        for column, new in zip(self._columns.values(), self._new, strict=True):
            column.append(np.frombuffer(new, dtype=np.int64))
        self._new = [array("q") for _ in _COLUMNS]

    def finish(self, *, by_time: bool = False) -> None:
        """Append all of them.

        Args:
            by_time: Whether blocks get numbers that no other run of the process has given: runs do
                not share a start.
        """
        self._settle()
        # One after the other, so that no two of them are held twice.
        columns = {name: _held(name, self._columns.pop(name).values()) for name in _COLUMNS}
        if not len(columns["time_ns"]):
            return
        if by_time:
            first = (self._first_us << 10) if self._first_us < _LARGEST else 0
            block = columns["block"]
            columns["block"] = np.where(block == NULL, NULL, block.astype(np.int64) + first)
        self._builder.rows_from("allocations", columns)


def _held(name: str, values: Ints) -> Ints:
    """A column as the trace holds it: only what is not added up stays narrow."""
    return values.astype(np.int64) if name in {"time_ns", "change", "total"} else values


__all__ = ["Allocations"]
