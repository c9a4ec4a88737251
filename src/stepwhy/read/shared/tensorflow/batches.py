"""How many examples a run of a graph gets, by the shapes of what enters it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.read.shared.tensorflow.ops import normalise_op
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepwhy.trace import TraceBuilder

# Operations that hand the next batch to the graph.
# Source: `IteratorGetNext` of tensorflow/core/kernels/data, `QueueDequeueMany` of data_flow_ops.cc.
_SOURCES = frozenset(
    {"IteratorGetNext", "QueueDequeueManyV2", "QueueDequeueMany", "QueueDequeueUpToV2"}
)


def common_rows(shapes: Iterable[Sequence[int]]) -> int:
    """The first dimension that all arrays share; NULL without one. Scalars do not count.

    Args:
        shapes: Shape of each array.
    """
    firsts = {shape[0] for shape in shapes if len(shape)}
    return firsts.pop() if len(firsts) == 1 and min(firsts) > 0 else NULL


def output_rows(op: str, node: Any) -> int:
    """Examples in what an operation hands to the graph; NULL for all other operations.

    Args:
        op: Its type.
        node: Its `NodeExecStats`.
    """
    if normalise_op(op) not in _SOURCES:
        return NULL
    described = (output.tensor_description for output in node.output)
    return common_rows([[d.size for d in each.shape.dim] for each in described])


def add_batch(builder: TraceBuilder, name: str, start_ns: int, rows: int) -> None:
    """Add the size of a batch to `events`, if it is known.

    Args:
        builder: Receives it.
        name: What hands the batch over.
        start_ns: When.
        rows: Number of examples; NULL if unknown.
    """
    if rows != NULL:
        builder.add(
            "events",
            kind=builder.intern("batch"),
            start_ns=start_ns,
            dur_ns=0,
            name=builder.intern(name),
            count=rows,
        )
