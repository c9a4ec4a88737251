"""Which run of an operation made the tensor that another run read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from stepwhy.columns.chunks import chunks, put, take
from stepwhy.columns.order import stable_order
from stepwhy.trace import FlowKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from stepwhy.trace import TraceBuilder

    Ints = NDArray[np.signedinteger[Any]]


class Dataflow:
    """Joins every run of an operation with those that it read from.

    A node inside a loop runs more than once: a consumer read what was made last before it began.

    Args:
        slices: Slices of the runs; (runs,).
        nodes: Number of the node of each; (runs,).
        start_ns: When each began; (runs,).
        names: Numbers of the nodes' names.
    """

    def __init__(self, slices: Ints, nodes: Ints, start_ns: Ints, names: Mapping[str, int]) -> None:
        # Times as ranks, so that node and time are one number.
        self._ranks = len(start_ns) + 1
        self._rank = _ranks(start_ns)
        key = nodes.astype(np.int64)
        key *= self._ranks
        key += self._rank
        order = stable_order(key)  # of equal ones, the later slice is the last
        self._keys, self._slices = take(key, order), take(slices, order)
        self._producers = _producers(names, nodes)

    def emit(
        self, builder: TraceBuilder, slices: Ints, inputs: Ints, begins: Ints, counts: Ints
    ) -> None:
        """Append a flow for every pair of operations of which one read from the other.

        Args:
            builder: The trace to append to.
            slices: As of the constructor; (runs,).
            inputs: Names of the nodes that made what was read; (inputs,).
            begins: Where in them each run's begin; (runs,).
            counts: How many they are; (runs,).
        """
        for piece in chunks(len(slices)):
            count = counts[piece]
            reader = np.repeat(np.arange(piece.start, piece.stop), count)
            behind = np.cumsum(count)
            place = np.repeat(begins[piece] - behind + count, count) + np.arange(len(reader))
            _add(builder, self._sources(inputs[place], reader), slices[reader])

    def _sources(self, inputs: Ints, reader: Ints) -> Ints:
        """The run that made each input of a run, -1 where none is known; (inputs,)."""
        node = self._producers[inputs]
        first = node * np.int64(self._ranks)
        last = np.searchsorted(self._keys, first + self._rank[reader], side="right") - 1
        # Clocks of two devices may differ, so that no run begins before: the first one, then.
        place = np.maximum(last, np.searchsorted(self._keys, first))
        return np.where(node < 0, -1, self._slices[np.minimum(place, len(self._keys) - 1)])


def _ranks(times: Ints) -> NDArray[np.int32]:
    """How many different times are before each; (times,)."""
    order = stable_order(times)
    ordered = take(times, order)
    ranks = np.zeros(len(order), dtype=np.int32)
    np.cumsum(ordered[1:] != ordered[:-1], dtype=np.int32, out=ranks[1:])
    del ordered
    found = np.empty_like(ranks)
    put(found, order, ranks)
    return found


def _add(builder: TraceBuilder, source: Ints, target: Ints) -> None:
    """Append flows, each pair once, in the order of their readers and of what these read."""
    told = np.flatnonzero((source >= 0) & (source != target))
    pair = source[told].astype(np.int64) << 32 | target[told]
    once = told[np.sort(np.unique(pair, return_index=True)[1])]
    kind = np.full(len(once), int(FlowKind.DATA), dtype=np.int8)
    builder.rows_from(
        "flows",
        {
            "source": source[once].astype(np.int32),
            "target": target[once].astype(np.int32),
            "kind": kind,
        },
    )


def _producers(names: Mapping[str, int], nodes: Ints) -> Ints:
    """For every name the number of the node that stands for it where it ran, else -1; (names,)."""
    found = np.full(len(names), -1, dtype=np.int64)
    put(found, nodes, nodes)
    for name, number in _others(names, found):
        sent = names.get(_sent(name), -1)
        if sent >= 0 and found[sent] == sent:
            found[number] = sent
    return found


def _others(names: Mapping[str, int], found: Ints) -> Iterable[tuple[str, int]]:
    return ((name, number) for name, number in names.items() if found[number] < 0)


def _sent(tensor: str) -> str:
    """The node behind a receive that partitioning put in: 'x/_12' stands for 'x'.

    Source: `Timeline._show_compute` of `tensorflow/python/client/timeline.py`.
    """
    return tensor.rpartition("/_")[0]


__all__ = ["Dataflow"]
