"""Which run of an operation made the tensor that another run read."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from stepwhy.trace import FlowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.trace import TraceBuilder


class Dataflow:
    """Collects the runs of all operations, then joins each with those that it read from.

    A node inside a loop runs more than once: a consumer read what was made last before it began.
    """

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._reads: list[tuple[int, int, Sequence[str]]] = []

    def add(self, row: int, node: str, start_ns: int, inputs: Sequence[str]) -> None:
        """Remember one run.

        Args:
            row: Its slice.
            node: Name of the operation's node.
            start_ns: When it began.
            inputs: Tensors that it read, as 'node' or 'node:1'.
        """
        self._runs[node].append((start_ns, row))
        if inputs:
            self._reads.append((row, start_ns, inputs))

    def emit(self, builder: TraceBuilder) -> None:
        """Append a flow for every pair of operations of which one read from the other."""
        for runs in self._runs.values():
            runs.sort()
        for row, start_ns, inputs in self._reads:
            for producer in dict.fromkeys(self._producer(name, start_ns) for name in inputs):
                if producer is not None and producer != row:
                    builder.add("flows", source=producer, target=row, kind=int(FlowKind.DATA))

    def _producer(self, tensor: str, start_ns: int) -> int | None:
        runs = self._runs.get(tensor.partition(":")[0]) or self._runs.get(_sent(tensor))
        if not runs:
            return None
        # Clocks of two devices may differ, so that no run begins before: the first one, then.
        before = bisect_right(runs, start_ns, key=lambda run: run[0])
        return runs[max(before - 1, 0)][1]


def _sent(tensor: str) -> str:
    """The node behind a receive that partitioning put in: 'x/_12' stands for 'x'.

    Source: `Timeline._show_compute` of `tensorflow/python/client/timeline.py`.
    """
    return tensor.rpartition("/_")[0]


__all__ = ["Dataflow"]
