"""Operations that nodes of PyTorch's autograd engine run with gradients enabled.

The backward pass disables gradients, unless the program asks for a graph of the gradients. So an
operation inside a node that has a sequence number belongs to layers that run again, or to a
backward pass that is itself recorded for another one.

Source: an operation gets a sequence number where gradients are enabled
(aten/src/ATen/core/dispatch/Dispatcher.h). A node is recorded with the number of the operation that
made it, and with the thread of that operation (torch/csrc/autograd/function.h).
"""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import numbered
from stepwhy.base.columns.nesting import nearest
from stepwhy.base.columns.types import AnyRows, Mask
from stepwhy.base.patterns import regex
from stepwhy.trace import NULL, Kind, Phase

_ENGINE = regex(r"autograd::engine::")


def is_operation(facts: Facts) -> Mask:
    """Mask of operations and nodes; compiled code and custom functions count; (slices,)."""
    trace = facts.trace
    numbered_code = trace.is_kind(Kind.FRAMEWORK, Kind.PYTHON) & (trace.slices.sequence != NULL)
    found: Mask = trace.is_kind(Kind.OP) | numbered_code
    return found


class NodeCalls(msgspec.Struct, frozen=True):
    """What some nodes call, not from another operation, by node and then in order of time.

    Only nodes that run at least one operation with gradients enabled are included.

    Args:
        rows: Operations, and nodes that run inside; (calls,).
        nodes: The node that calls each; (calls,).
        is_numbered: Whether it is an operation with gradients enabled; (calls,).
        builds_graph: Whether its node is recorded for a further backward pass: gradients are
            enabled in all of its operations; (calls,).
    """

    rows: AnyRows
    nodes: AnyRows
    is_numbered: Mask
    builds_graph: Mask


def is_node(facts: Facts) -> Mask:
    """Mask of the slices that evaluate a node of a backward pass; (slices,)."""
    found: Mask = is_operation(facts) & (facts.trace.slices.phase == Phase.BACKWARD)
    return found


def node_calls(facts: Facts) -> NodeCalls | None:
    """What nodes call in the whole trace; None if gradients are disabled in all nodes."""
    return facts.derived(_node_calls)


def _node_calls(facts: Facts) -> NodeCalls | None:
    slices, node = facts.trace.slices, is_node(facts)
    is_called = is_operation(facts)
    has_number = is_called & ~node & (slices.sequence != NULL)
    if not (has_number & (facts.phases == Phase.BACKWARD)).any():
        return None
    around = callers(facts)
    first = np.flatnonzero(has_number & node[around] & (around != NULL))
    is_known = np.zeros(len(node) + 1, dtype=bool)
    is_known[around[first]] = True
    known = np.flatnonzero(is_known)
    # Not the engine's own code around it: hooks, and sums of gradients.
    is_known[known] = ~facts.trace.matches(facts.trace.slices.name[known], _ENGINE.match)
    rows = np.flatnonzero(is_called & is_known[around] & (around != NULL))
    if not len(rows):
        return None
    rows = rows[np.argsort(around[rows], kind="stable")]
    nodes, is_numbered = around[rows], has_number[rows]
    return NodeCalls(rows, nodes, is_numbered, _holds_for_all(nodes, is_numbered))


def callers(facts: Facts) -> NDArray[np.int32]:
    """The operation or node that encloses each slice, NULL without one; (slices,)."""
    return facts.derived(_callers)


def _callers(facts: Facts) -> NDArray[np.int32]:
    around = np.append(nearest(facts.nesting, is_operation(facts)), np.int32(NULL))
    found: NDArray[np.int32] = around[facts.nesting.parent]
    return found


def _holds_for_all(groups: AnyRows, mask: Mask) -> Mask:
    """Whether a mask is set in all rows of the group of each row; (rows,)."""
    keys, place = numbered(groups)
    unset = np.bincount(place[~mask], minlength=len(keys))
    found: Mask = unset[place] == 0
    return found
