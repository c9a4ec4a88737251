"""Lines of a TensorFlow graph that compute from the batch alone: no weights, no random numbers.

What they return for an example is the same in each step that uses it, and so can be kept.
"""

from __future__ import annotations

import contextlib
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.watchers.graph_lines import traced_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.watchers.graph_lines import LineOf

EVENT = "batch-line"
"""Kind of the event with such a line as its source."""
# Where the value of a node comes from, as bits; 0 for what is the same in each step.
_BATCH, _VARIES = 1, 2
_ITERATORS = ("IteratorGetNext", "QueueDequeue", "FIFOQueue")
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
# Of loops, branches and Python, it is not followed what they compute from.
_UNKNOWN = ("While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase", "Merge")
_HANDLES = ("VarHandleOp", "Iterator", "HashTable", "LookupTable", "AnonymousIterator", "Assert")
_SHAPES = frozenset({"Shape", "ShapeN", "Rank", "Size"})
# They choose, move or convert, which making a batch consists of, too.
_MOVES = (
    "Assert", "Cast", "Concat", "Const", "ExpandDims", "Fill", "Gather", "Identity", "IteratorGet",
    "NoOp", "OneHot", "Pack", "Pad", "Partitioned", "Placeholder", "Queue", "Reshape", "Reverse",
    "Slice", "Split", "Squeeze", "Stateful", "StopGradient", "StridedSlice", "Tile", "Transpose",
    "Unpack",
)  # fmt: skip
_GRADIENTS = frozenset({"gradient_tape", "gradients"})
_LEAST_WORK = 4096  # elements of a result; what computes only smaller ones takes microseconds
_MOST_NODES = 20_000
_DEEPEST = 8  # functions that call functions


def batch_lines(graph: Any, line_in: Callable[[Any], LineOf]) -> list[str]:
    """The lines all of whose nodes compute from the batch alone, in order.

    Args:
        graph: A graph that computes gradients; of another one, it is not known which of its inputs
            are the batch.
        line_in: Returns, for a graph, a function from a node's number and operation to its line.
    """
    nodes = graph.get_operations()
    if len(nodes) > _MOST_NODES or not any(map(_is_gradient, nodes)):
        return []
    walk = _Walk(line_in)
    walk.visit(graph, None)
    return walk.lines()


def log_batch_lines(graph: Any, name: str, line_in: Callable[[Any], LineOf], log: Recorder) -> None:
    """Log these lines; never raises.

    Args:
        graph: As for `batch_lines`.
        name: Of the events.
        line_in: As for `batch_lines`.
        log: Logs them.
    """
    with contextlib.suppress(Exception):
        for line in batch_lines(graph, line_in):
            now = now_ns()
            log.event(EVENT, name=name, source=line, start_ns=now, end_ns=now)


class _Walk:
    """Follows values through a graph and the functions that it calls.

    Args:
        line_in: As for `batch_lines`.
    """

    def __init__(self, line_in: Callable[[Any], LineOf]) -> None:
        self._line_in = line_in
        self._alone: list[tuple[LineOf, int, Any]] = []
        self._others: list[tuple[LineOf, int, Any]] = []
        self._depth = 0

    def lines(self) -> list[str]:
        """The lines, which takes a look at the stack of each node if there may be one."""
        found = dict.fromkeys(line(number, node) for line, number, node in self._alone)
        mixed = {line(number, node) for line, number, node in self._others} if found else set()
        return [line for line in found if line and line not in mixed]

    def visit(self, graph: Any, given: Sequence[int] | None) -> int:
        """Follow the values of one graph.

        Args:
            graph: The graph.
            given: Where its inputs come from; by default they are the batch.

        Returns:
            Where its outputs come from.
        """
        origins = self._inputs(graph, given)
        line = self._line_in(graph)
        for number, node in enumerate(graph.get_operations()):
            origin = origins.get(node.name)
            if origin is None:
                origin = origins[node.name] = self._origin(graph, node, origins)
            if _is_gradient(node) or node.type.startswith(_MOVES):
                continue
            if origin & _VARIES:
                self._others.append((line, number, node))
            elif origin == _BATCH and _may_be_large(node):
                self._alone.append((line, number, node))
        outputs = getattr(graph, "outputs", ())
        return reduce(or_, (origins.get(each.op.name, _VARIES) for each in outputs), 0)

    def _inputs(self, graph: Any, given: Sequence[int] | None) -> dict[str, int]:
        """Where the inputs of a function's graph come from, and what it captures."""
        inputs = [each.op.name for each in getattr(graph, "inputs", ())]
        if given is not None:
            return dict(zip(inputs, given, strict=False))
        captured = {
            inner.op.name: _VARIES if hasattr(outer, "op") and not hasattr(outer, "numpy") else 0
            for outer, inner in getattr(graph, "captures", ())
        }
        return dict.fromkeys(inputs, _BATCH) | captured

    def _origin(self, graph: Any, node: Any, origins: dict[str, int]) -> int:
        """Where the value of a node comes from."""
        kind = node.type
        read = [origins.get(each.op.name, _VARIES) for each in node.inputs]
        if kind in _CALLS:
            return self._called(graph, node, read)
        if kind.startswith(_ITERATORS) or kind.startswith("Placeholder"):
            return _BATCH
        if kind in _SHAPES or kind.startswith(_HANDLES):
            return 0
        # What reads a variable or draws random numbers has a state, but for stateless generators.
        if kind.startswith(_UNKNOWN) or "Random" in kind or node.op_def.is_stateful:
            return _VARIES
        return reduce(or_, read, 0)

    def _called(self, graph: Any, node: Any, read: list[int]) -> int:
        """Where the results of a call come from."""
        called = traced_graph(getattr(graph, "_functions", {}).get(node.get_attr("f").name))
        if called is None or self._depth >= _DEEPEST:
            return _VARIES
        self._depth += 1
        try:
            return self.visit(called, read)
        finally:
            self._depth -= 1


def _is_gradient(node: Any) -> bool:
    return not _GRADIENTS.isdisjoint(node.name.split("/"))


def _may_be_large(node: Any) -> bool:
    """Whether a result may have many elements, as far as its shape is known."""
    for result in node.outputs:
        dims = result.shape.dims
        if dims is None or any(each.value is None for each in dims):
            return True
        if result.shape.num_elements() >= _LEAST_WORK:
            return True
    return False
