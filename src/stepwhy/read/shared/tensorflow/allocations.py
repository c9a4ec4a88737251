"""Memory that the ops of a TensorFlow graph allocated and freed, from step statistics.

The record of an op lists the blocks that it allocated, and the times at which they were freed, even
if a later op freed them. Allocations and releases are matched by size.

Source: `AllocatorMemoryUsed` and `AllocationRecord` of step_stats.proto; `NodeExecStatsWrapper` in
step_stats_collector.cc; `TrackingAllocator` in tracking_allocator.cc.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.base.columns.chunks import CHUNK
from stepwhy.base.columns.growing import BufferedColumn
from stepwhy.read.shared.tensorflow.graphs import text
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepwhy.base.columns.types import AnyInts
    from stepwhy.trace import TraceBuilder


_NS_PER_US = 1000
# Longer times would not fit into int64 as ns; larger sizes are damage.
_LARGEST = 1 << 52
# Columns of the table `allocations` that are filled.
_COLUMNS = ("time_ns", "pool", "host", "change", "block", "owner", "total")


class Allocations:
    """Collects the allocations of ops; `finish` adds them to the trace.

    Args:
        builder: The trace to append to.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._columns = {name: BufferedColumn() for name in _COLUMNS}
        self._count = 0
        self._first_us = _LARGEST
        self.blocks = 0
        """Number of blocks that were allocated."""

    def add_node(self, node: Any) -> None:
        """Add the allocations in the `NodeExecStats` of one op."""
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
        """Add the blocks that one op allocated from one allocator, and their releases.

        Args:
            records: `AllocationRecord` messages of the op, in order.
            pool: Name of the allocator.
            owner: Name of the op's node.
            is_host: Whether it allocates memory of the host.
        """
        live: dict[int, list[int]] = defaultdict(list)
        for record in records:
            time_us, change = record.alloc_micros, record.alloc_bytes
            size, block = abs(change), NULL
            if not (0 < time_us < _LARGEST and 0 < size < _LARGEST):
                continue
            self._first_us = min(self._first_us, time_us)
            if change > 0:
                live[size].append(block := self.blocks)
                self.blocks += 1
            elif live[size]:
                block = live[size].pop()
            where = time_us * _NS_PER_US, pool, owner, is_host
            self._add(*where, change=change, block=block)

    def add_total(
        self, total: int, time_ns: int, pool: str, owner: str, *, is_host: bool = False
    ) -> None:
        """Add the bytes in use of an allocator; 0 means that it does not count them."""
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
        for column, value in zip(self._columns.values(), row, strict=True):
            column.append(value)
        self._count += 1
        if self._count % CHUNK == 0:
            for column in self._columns.values():
                column.flush()

    def finish(self, *, by_time: bool = False) -> None:
        """Add all allocations to the trace.

        Args:
            by_time: Number blocks from the time of the first one, so that they differ from the
                blocks of other runs in the process.
        """
        # Column by column, so that only one is in memory twice.
        columns = {name: _typed(name, self._columns.pop(name).values()) for name in _COLUMNS}
        if not len(columns["time_ns"]):
            return
        if by_time:
            first = (self._first_us << 10) if self._first_us < _LARGEST else 0
            block = columns["block"]
            columns["block"] = np.where(block == NULL, NULL, block.astype(np.int64) + first)
        self._builder.rows_from("allocations", columns)


def _typed(name: str, values: AnyInts) -> AnyInts:
    """A column in the type of the trace: columns that are summed have 64 bits."""
    return values.astype(np.int64) if name in {"time_ns", "change", "total"} else values
