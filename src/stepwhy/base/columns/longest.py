"""Longest paths in a large graph without circles, compiled where possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.base.columns import _longest_plain, compiled

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepwhy.base.columns.types import Ints


_KERNELS = "stepwhy.base.columns.kernels.longest"
# A node with its edges is as much work as this many rows of a table.
_ROWS_PER_NODE = 16


class Network(msgspec.Struct, frozen=True):
    """The edges of a graph without circles, sorted by target, and an order of its nodes.

    Args:
        nodes: Number of nodes.
        source, target: Nodes of each edge; (edges,).
        first_in: Position of each node's first edge; (nodes + 1,).
        order: Nodes, each after all its sources; (nodes,).
    """

    nodes: int
    source: Ints
    target: Ints
    first_in: Ints
    order: Ints


class Paths(msgspec.Struct, frozen=True):
    """Start of every node, and the edge that decided it, -1 for none; (nodes,) each."""

    start: Ints
    binding: Ints


def network(nodes: int, source: Ints, target: Ints) -> Network:
    """Order the nodes of a graph.

    Args:
        nodes: Number of nodes.
        source: Source of each edge; (edges,).
        target: Target of each edge, ascending; (edges,).

    Raises:
        ValueError: The graph has a circle.
    """
    by_source = np.argsort(source, kind="stable")
    # Position of the first edge of each node among edges that are sorted by that end.
    first_in, first_out = (
        np.append(0, np.cumsum(np.bincount(end, minlength=nodes))).astype(np.int64)
        for end in (target, source)
    )
    order, left = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    arguments = (first_in, source, nodes, first_out, target[by_source], order, left)
    done, written = _run("order_nodes", arguments)
    if done < nodes:
        raise ValueError(f"{nodes - done} of {nodes} nodes lie on a circle or behind one")
    return Network(nodes, source, target, first_in, written[5])


def longest_paths(
    net: Network,
    *,
    from_end: NDArray[np.bool_],
    lag: Ints,
    duration: Ints,
    delay: Ints,
    earliest: Ints,
) -> Paths:
    """Start of every node: the latest of what its edges allow, and its own delay.

    Args:
        net: The graph.
        from_end: Whether an edge begins at the end of its source, not at its start; (edges,).
        lag: Least time along each edge; (edges,).
        duration: Of each node; (nodes,).
        delay: Added to what the edges allow; (nodes,).
        earliest: Earliest start of each node; (nodes,).
    """
    start, binding = np.zeros(net.nodes, dtype=np.int64), np.zeros(net.nodes, dtype=np.int64)
    columns = (from_end, lag, duration, delay, earliest, start, binding)
    written = _run("longest", (net.order, net.first_in, net.source, *columns))[1]
    return Paths(written[-2], written[-1])


def critical_path(net: Network, binding: Ints, last: int) -> Ints:
    """The nodes that decided when a node begins, in order, that node included; (path,).

    Args:
        net: The graph.
        binding: As in `Paths`; (nodes,).
        last: The node.
    """
    path = np.zeros(net.nodes, dtype=np.int64)
    count, written = _run("walk_back", (last, binding, net.source, path))
    walked: Ints = written[3][:count][::-1].copy()
    return walked


def _run(name: str, arguments: tuple[NDArray[Any] | int, ...]) -> tuple[int, list[Any]]:
    """Run a loop, compiled if possible; its result, and its arguments with what it wrote."""
    largest = max(len(a) for a in arguments if isinstance(a, np.ndarray))
    if (kernels := compiled.for_rows(_ROWS_PER_NODE * largest, _KERNELS)) is not None:
        columns = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        return getattr(kernels, name)(*columns), columns
    lists = [a.tolist() if isinstance(a, np.ndarray) else a for a in arguments]
    loop: Callable[..., int] = getattr(_longest_plain, name)
    done = loop(*lists)
    return done, [np.asarray(a, dtype=np.int64) if isinstance(a, list) else a for a in lists]
