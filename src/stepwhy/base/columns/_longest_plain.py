"""Longest paths in a graph without circles, as plain loops over integers.

They run on lists, and compiled (`base.columns.kernels.longest`) on arrays.
"""


def order_nodes(first_in, source, count_out, first_out, target, order, left):
    """Order the nodes so that each comes after all its sources (Kahn's algorithm).

    Ordering by time does not do that: the edges of slices without a length would get lost.

    Args:
        first_in: Position of each node's first edge among the edges sorted by target; (nodes + 1,).
        source: Source of each of these edges; (edges,).
        count_out: Number of nodes.
        first_out: The same as `first_in`, sorted by source; (nodes + 1,).
        target: Target of each of those edges; (edges,).
        order: Written: the nodes in order; (nodes,).
        left: Scratch; (nodes,).

    Returns:
        Number of nodes that were ordered; fewer than all if there is a circle.
    """
    done = 0
    for node in range(count_out):
        left[node] = first_in[node + 1] - first_in[node]
        if left[node] == 0:
            order[done] = node
            done += 1
    at = 0
    while at < done:
        node = order[at]
        at += 1
        for edge in range(first_out[node], first_out[node + 1]):
            reached = target[edge]
            left[reached] -= 1
            if left[reached] == 0:
                order[done] = reached
                done += 1
    return done


def longest(order, first_in, source, from_end, lag, duration, delay, earliest, start, binding):
    """Start of every node: the latest of what its edges allow, and its own delay.

    Args:
        order: Nodes, each after all its sources; (nodes,).
        first_in: As in `order_nodes`; (nodes + 1,).
        source: Likewise; (edges,).
        from_end: Whether an edge begins at the end of its source, not at its start; (edges,).
        lag: Least time along each edge; (edges,).
        duration: Of each node; (nodes,).
        delay: Added to what the edges allow; (nodes,).
        earliest: Earliest start of each node; (nodes,).
        start: Written: start of each node; (nodes,).
        binding: Written: the edge that decided, -1 for none; (nodes,).
    """
    for at in range(len(order)):
        node = order[at]
        latest, decided = earliest[node], -1
        for edge in range(first_in[node], first_in[node + 1]):
            before = source[edge]
            reached = start[before] + lag[edge] + from_end[edge] * duration[before]
            if reached > latest:
                latest, decided = reached, edge
        start[node] = latest + delay[node]
        binding[node] = decided


def walk_back(node, binding, source, path):
    """Follow the edges that decided, from a node to one that no edge decided.

    Args:
        node: The last node.
        binding: The edge that decided each node, -1 for none; (nodes,).
        source: Source of each edge; (edges,).
        path: Written: the nodes, the last one first; (nodes,).

    Returns:
        Number of nodes on the path.
    """
    count = 0
    while node >= 0:
        path[count] = node
        count += 1
        edge = binding[node]
        node = source[edge] if edge >= 0 else -1
    return count
