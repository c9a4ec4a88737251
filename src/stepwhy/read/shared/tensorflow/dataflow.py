"""Flows between operations: which run of an operation produced the input of another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepwhy.base.columns.chunks import chunks, put, take
from stepwhy.base.columns.order import stable_order
from stepwhy.trace import FlowKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import AnyInts
    from stepwhy.trace import TraceBuilder


class Dataflow:
    """Finds the producers of the inputs of every run of an operation.

    A node inside a loop runs more than once: an input comes from the last run of its producer that
    started before the consumer.

    Args:
        slices: Slices of the runs; (runs,).
        nodes: Node of each run, as a number of `names`; (runs,).
        start_ns: Start of each run; (runs,).
        names: Number of each node name.
    """

    def __init__(
        self, slices: AnyInts, nodes: AnyInts, start_ns: AnyInts, names: Mapping[str, int]
    ) -> None:
        # Ranks instead of times, so that node and time fit into one sort key.
        self._ranks = len(start_ns) + 1
        self._rank = _ranks(start_ns)
        key = nodes.astype(np.int64)
        key *= self._ranks
        key += self._rank
        order = stable_order(key)
        self._keys, self._slices = take(key, order), take(slices, order)
        self._producers = _producers(names, nodes)

    def add_flows(
        self,
        builder: TraceBuilder,
        slices: AnyInts,
        inputs: AnyInts,
        first: AnyInts,
        counts: AnyInts,
    ) -> None:
        """Add a flow from every producer to its consumer.

        Args:
            builder: Receives the flows.
            slices: As in the constructor; (runs,).
            inputs: Nodes of all inputs; (inputs,).
            first: Position in `inputs` of the first input of each run; (runs,).
            counts: Number of inputs of each run; (runs,).
        """
        for chunk in chunks(len(slices)):
            count = counts[chunk]
            reader = np.repeat(np.arange(chunk.start, chunk.stop), count)
            behind = np.cumsum(count)
            place = np.repeat(first[chunk] - behind + count, count) + np.arange(len(reader))
            _add(builder, self._sources(inputs[place], reader), slices[reader])

    def _sources(self, inputs: AnyInts, reader: AnyInts) -> AnyInts:
        """Slice of the run that produced each input, -1 where it is unknown; (inputs,)."""
        node = self._producers[inputs]
        first = node * np.int64(self._ranks)
        last = np.searchsorted(self._keys, first + self._rank[reader], side="right") - 1
        # Without an earlier run, because the clocks of two devices differ, use the first run.
        place = np.maximum(last, np.searchsorted(self._keys, first))
        return np.where(node < 0, -1, self._slices[np.minimum(place, len(self._keys) - 1)])


def _ranks(times: AnyInts) -> NDArray[np.int32]:
    """Rank of each time among the different times; (times,)."""
    order = stable_order(times)
    ordered = take(times, order)
    ranks = np.zeros(len(order), dtype=np.int32)
    np.cumsum(ordered[1:] != ordered[:-1], dtype=np.int32, out=ranks[1:])
    del ordered
    result = np.empty_like(ranks)
    put(result, order, ranks)
    return result


def _add(builder: TraceBuilder, source: AnyInts, target: AnyInts) -> None:
    """Add flows; repeated pairs only once, in order of appearance."""
    valid = np.flatnonzero((source >= 0) & (source != target))
    pair = source[valid].astype(np.int64) << 32 | target[valid]
    once = valid[np.sort(np.unique(pair, return_index=True)[1])]
    kind = np.full(len(once), int(FlowKind.DATA), dtype=np.int8)
    builder.rows_from(
        "flows",
        {
            "source": source[once].astype(np.int32),
            "target": target[once].astype(np.int32),
            "kind": kind,
        },
    )


def _producers(names: Mapping[str, int], nodes: AnyInts) -> AnyInts:
    """The node that ran and produces the tensor of each name, -1 where none did; (names,)."""
    result = np.full(len(names), -1, dtype=np.int64)
    put(result, nodes, nodes)
    missing = [(name, number) for name, number in names.items() if result[number] < 0]
    for name, number in missing:
        # The sending node of a receive that graph partitioning inserted: 'x' for 'x/_12'.
        # Source: `Timeline._show_compute` of `tensorflow/python/client/timeline.py`.
        sending_node = name.rpartition("/_")[0]
        sender = names.get(sending_node, -1)
        if sender >= 0 and result[sender] == sender:
            result[number] = sender
    return result
