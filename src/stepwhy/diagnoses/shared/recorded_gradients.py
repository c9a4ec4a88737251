"""Backward passes that autograd records (`create_graph=True`), and what later uses their graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepwhy.columns.groups import distinct, numbered
from stepwhy.columns.nesting import outermost
from stepwhy.diagnoses.shared.backward_nodes import is_node, is_operation, node_calls
from stepwhy.diagnoses.shared.measure import idle, time_of
from stepwhy.patterns import regex
from stepwhy.trace import NULL, Phase

if TYPE_CHECKING:
    import re

    from numpy.typing import NDArray

    from stepwhy.passes.facts import Facts

    Rows = NDArray[np.signedinteger[Any]]

# 'MulBackward0' is made by 'aten::mul', and 'SoftmaxBackwardDataBackward0' by
# 'aten::_softmax_backward_data'.
_NODE = regex(r"(?:autograd::engine::evaluate_function: )?(?P<made_by>\w+?)Backward\d*")
_OPERATION = regex(r"(?:\w+::)?(?P<made_by>\w+)")
_MOST_NAMES = 1 << 20  # more than a program has operations


class RecordedGradients(msgspec.Struct, frozen=True):
    """Nodes whose operations are recorded for a further backward pass.

    Args:
        nodes: The nodes, of all steps; (nodes,).
        of_steps: Share of the steps that have any, 0..1.
        made: How many nodes their operations make, per step.
        used: How many of these a later backward pass runs, per step.
    """

    nodes: Rows
    of_steps: float
    made: float
    used: float

    def waited_for(self, facts: Facts) -> float:
        """Share of the time of these nodes in which devices wait for the host, 0..1; 1 on a CPU."""
        if not facts.has_accelerator:
            return 1.0
        host, sets = time_of(facts, self.nodes), facts.partition.sets
        waiting = host & (sets["dispatch"] | sets["python"]) & idle(facts)
        return waiting.total_ns / max(host.total_ns, 1)


def recorded_gradients(facts: Facts) -> RecordedGradients | None:
    """The recorded backward passes of the trace; None if there are none."""
    calls = node_calls(facts)
    if calls is None or not calls.builds_graph.any():
        return None
    nodes = distinct(calls.nodes[calls.builds_graph])
    steps = facts.steps
    at = np.searchsorted(steps.starts, facts.trace.slices.start_ns[nodes], side="right") - 1
    of_steps = len(distinct(at[at >= 0])) / max(len(steps.starts), 1)
    made, used = (count / max(len(steps.starts), 1) for count in _made_and_used(facts))
    return RecordedGradients(outermost(facts.nesting, nodes), of_steps, made, used)


def _made_and_used(facts: Facts) -> tuple[int, int]:
    """Number of nodes that operations inside backward passes have made, and of those that ran."""
    slices, node = facts.trace.slices, is_node(facts)
    has_number = is_operation(facts) & (slices.sequence != NULL)
    made = np.flatnonzero(has_number & ~node & (facts.phases == Phase.BACKWARD))
    # Where an operation makes no node, it shows the number of the next one that does.
    others = np.flatnonzero(has_number & ~node & (facts.phases != Phase.BACKWARD))
    made = made[~np.isin(_numbers(facts, made), _numbers(facts, others))]
    later = np.flatnonzero(has_number & node)
    keys: dict[str, int] = {}
    known = _makers(facts, made, _OPERATION, keys)
    used = np.isin(distinct(_makers(facts, later, _NODE, keys)), known)
    return len(distinct(slices.sequence[made])), int(np.count_nonzero(used))


def _numbers(facts: Facts, rows: Rows) -> NDArray[np.int64]:
    """Sequence numbers, distinct between threads; (rows,)."""
    slices = facts.trace.slices
    found: NDArray[np.int64] = (
        slices.sequence[rows].astype(np.int64) * len(facts.trace.tracks) + slices.track[rows]
    )
    return found


def _makers(
    facts: Facts, rows: Rows, pattern: re.Pattern[str], keys: dict[str, int]
) -> NDArray[np.int64]:
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
    found: NDArray[np.int64] = slices.sequence[rows].astype(np.int64) * _MOST_NAMES + of_name[place]
    return found


def _made_by(name: str, pattern: re.Pattern[str]) -> str:
    """The name of an operation, or of the one that has made a node, in one spelling."""
    match = pattern.fullmatch(name)
    return "" if match is None else match["made_by"].replace("_", "").lower()


__all__ = ["RecordedGradients", "recorded_gradients"]
