"""Backward passes that autograd records (`create_graph=True`), and what later uses their graph."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.base.columns.groups import distinct, numbered
from stepwhy.base.columns.nesting import outermost
from stepwhy.base.columns.types import AnyRows, Ints, Mask
from stepwhy.base.patterns import regex
from stepwhy.diagnose.not_needed.shared.backward_time import cost_per_step_ns, launched_within
from stepwhy.diagnose.shared.backward_nodes import callers, is_node, is_operation, node_calls
from stepwhy.diagnose.shared.measure import idle, steady, time_of
from stepwhy.trace import NULL, Phase

# 'MulBackward0' is made by 'aten::mul', and 'SoftmaxBackwardDataBackward0' by
# 'aten::_softmax_backward_data'.
_NODE = regex(r"(?:autograd::engine::evaluate_function: )?(?P<made_by>\w+?)Backward\d*")
_OPERATION = regex(r"(?:\w+::)?(?P<made_by>\w+)")
_OF_PRODUCT = regex(r"(?:Addmm|Mm|Bmm|Baddbmm|Convolution|Linear)Backward")
_ACCUMULATES, _CLONE = regex(r"AccumulateGrad"), "aten::clone"
_MOST_NAMES = 1 << 20  # more than a program has operations
_FEWEST_INNER = 2  # steps between the first and the last one; one may be an exception


class RecordedGradients(msgspec.Struct, frozen=True):
    """Nodes whose operations are recorded for a further backward pass.

    Args:
        nodes: The nodes, of all steps; (nodes,).
        of_steps: Share of the steps that have any, 0..1.
        made: How many nodes their operations make, per step.
        used: How many of these a later backward pass runs, per step.
        again: Slices of these nodes of later passes, and of what only leads to such gradients: a
            forward pass of which nothing else is differentiated, and its nodes; (slices,).
        copies: Slices of the operations that copy a gradient because it is recorded; (slices,).
    """

    nodes: AnyRows
    of_steps: float
    made: float
    used: float
    again: AnyRows
    copies: AnyRows

    def waited_for(self, facts: Facts) -> float:
        """Share of the time of these nodes in which devices wait for the host, 0..1; 1 on a CPU."""
        if not facts.has_accelerator:
            return 1.0
        host, sets = time_of(facts, self.nodes), facts.partition.sets
        waiting = host & (sets["dispatch"] | sets["python"]) & idle(facts)
        return waiting.total_ns / max(host.total_ns, 1)

    def cost_ns(self, facts: Facts) -> int:
        """Time of the mean step that the recorded passes and those through them take, ns."""
        return _cost_ns(facts, np.concatenate([self.nodes, self.again]))

    def copying_ns(self, facts: Facts) -> int:
        """Time of the mean step in which gradients are copied because they are recorded, ns."""
        return _cost_ns(facts, self.copies)


def _cost_ns(facts: Facts, rows: AnyRows) -> int:
    host = time_of(facts, rows)
    work = facts.in_steady(launched_within(facts, host))
    return cost_per_step_ns(facts, host & steady(facts), work, facts.steady_count)


def recorded_gradients(facts: Facts) -> RecordedGradients | None:
    """The recorded backward passes of the trace; None if there are none."""
    calls = node_calls(facts)
    if calls is None or not calls.builds_graph.any():
        return None
    nodes = distinct(calls.nodes[calls.builds_graph])
    steps = facts.steps
    at = np.searchsorted(steps.starts, facts.trace.slices.start_ns[nodes], side="right") - 1
    of_steps = _share_of_steps(distinct(at[at >= 0]), len(steps.starts))
    graph = _graph(facts, nodes)
    made, used = (len(distinct(rows)) / max(len(steps.starts), 1) for rows in graph[:2])
    again, copies = graph.again, _copies(facts, nodes)
    return RecordedGradients(outermost(facts.nesting, nodes), of_steps, made, used, again, copies)


def _share_of_steps(found: AnyRows, count: int) -> float:
    """Share of the steps that are among those found; the first and the last one may be cut.

    Args:
        found: Numbers of steps, from 0; (found,).
        count: Number of all steps.
    """
    inner = len(found[(found > 0) & (found < count - 1)]) / max(count - 2, 1)
    whole = len(found) / max(count, 1)
    return max(whole, inner) if count - 2 >= _FEWEST_INNER else whole


class _Graph(NamedTuple):
    """The graph of the gradients.

    Args:
        made: Sequence numbers of the operations that make its nodes.
        used: Those of the nodes that a later pass runs, with a number for what made them.
        again: Slices that exist only because of it; see `RecordedGradients`.
    """

    made: AnyRows
    used: AnyRows
    again: AnyRows


def _graph(facts: Facts, nodes: AnyRows) -> _Graph:
    """The graph of gradients that some nodes make.

    Args:
        facts: Facts of the run.
        nodes: Nodes whose operations are recorded; (nodes,).
    """
    slices, node = facts.trace.slices, is_node(facts)
    has_number = is_operation(facts) & (slices.sequence != NULL)
    made = np.flatnonzero(has_number & ~node & (facts.phases == Phase.BACKWARD))
    # Where an operation makes no node, it shows the number of the next one that does.
    others = np.flatnonzero(has_number & ~node & (facts.phases != Phase.BACKWARD))
    made = made[~np.isin(_numbers(facts, made), _numbers(facts, others))]
    later = np.flatnonzero(has_number & node)
    keys: dict[str, int] = {}
    known, own = _makers(facts, made, _OPERATION, keys), _makers(facts, later, _NODE, keys)
    is_used = np.isin(own, known)
    recorded = nodes[slices.sequence[nodes] != NULL]
    through = _makers(facts, recorded, _NODE, keys)
    forward = _makers(facts, others, _OPERATION, keys)
    is_again = is_used.copy()
    rest = ~np.isin(later, nodes) & ~_holds(facts, later, nodes)
    if _is_for_gradients(facts, recorded, ~np.isin(through, own[rest])):
        is_again |= rest & np.isin(own, through)
        others = others[np.isin(forward, through)]
    else:
        others = others[:0]
    again = np.concatenate([later[is_again], others])
    return _Graph(slices.sequence[made], own[is_used], again)


def _holds(facts: Facts, rows: AnyRows, nodes: AnyRows) -> Mask:
    """Whether a slice encloses or is one of some nodes: the engine's, around each; (rows,)."""
    slices = facts.trace.slices
    parents = facts.nesting.parent[nodes]
    same = slices.sequence[parents] == slices.sequence[nodes]
    found: Mask = np.isin(rows, parents[(parents != NULL) & same])
    return found


def _is_for_gradients(facts: Facts, nodes: AnyRows, only_here: Mask) -> bool:
    """Whether a forward pass is only there to be differentiated by recorded nodes.

    Then no other pass runs the node of its last product. Those of earlier ones may run as well,
    where the gradients depend on the activations.

    Args:
        facts: Facts of the run.
        nodes: The recorded nodes; (nodes,).
        only_here: Whether no other pass runs a node; (nodes,).
    """
    names = facts.trace.slices.name[nodes]
    return bool((only_here & facts.trace.matches(names, _OF_PRODUCT.search)).any())


def _copies(facts: Facts, nodes: AnyRows) -> AnyRows:
    """Copies of gradients that are added to none: other gradients are kept as they are."""
    slices = facts.trace.slices
    is_sum = np.zeros(len(slices) + 1, dtype=bool)
    is_sum[nodes[facts.trace.matches(slices.name[nodes], _ACCUMULATES.search)]] = True
    rows = np.flatnonzero(np.isin(slices.name, facts.trace.strings_where({_CLONE})))
    found: AnyRows = rows[is_sum[callers(facts)[rows]]]
    return found


def _numbers(facts: Facts, rows: AnyRows) -> Ints:
    """Sequence numbers, distinct between threads; (rows,)."""
    slices = facts.trace.slices
    found: Ints = (
        slices.sequence[rows].astype(np.int64) * len(facts.trace.tracks) + slices.track[rows]
    )
    return found


def _makers(facts: Facts, rows: AnyRows, pattern: re.Pattern[str], keys: dict[str, int]) -> Ints:
    """A number for the sequence number and for the operation that has made a node; (rows,).

    Threads count for themselves, so that operations of two threads may share a sequence number.

    Args:
        facts: Facts of the run.
        rows: Operations, or nodes; (rows,).
        pattern: What of a name says which operation it is, or was made by.
        keys: A number for each such operation; extended.
    """
    slices = facts.trace.slices
    names, place = numbered(slices.name[rows])
    texts = [_made_by(facts.trace.string(int(name)), pattern) for name in names.tolist()]
    of_name = np.array([keys.setdefault(text, len(keys)) for text in texts], dtype=np.int64)
    found: Ints = slices.sequence[rows].astype(np.int64) * _MOST_NAMES + of_name[place]
    return found


def _made_by(name: str, pattern: re.Pattern[str]) -> str:
    """The name of an operation, or of the one that has made a node, in one spelling."""
    match = pattern.fullmatch(name)
    return "" if match is None else match["made_by"].replace("_", "").lower()
