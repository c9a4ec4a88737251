"""Lines of a TensorFlow graph that compute from the batch alone, or distances of all pairs.

What depends on no weights and no random numbers is the same for an example in each step that uses
it, and so can be kept. Squared differences of all pairs of vectors, which are then added up, are
what a product of matrices computes with less work.
"""

from __future__ import annotations

import contextlib
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.watchers.graph_lines import traced_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.watchers.graph_lines import LineOf

EVENT = "batch-line"
"""Kind of the event with such a line as its source."""
OF_PAIRS = "pair-line"
"""Kind of the event with a line that makes or reduces differences of all pairs."""
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
_SQUARES = frozenset({"Square", "Pow", "Mul"})
_ADDS_UP = frozenset({"Sum", "Mean"})
_PASSES_ON = frozenset({"Identity", *_SHAPES})
_LEAST_FEATURES = 8  # of a vector; with fewer, a product is hardly faster
_LEAST_RANK = 3  # of differences: both sides of a pair, and the features
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
        found = [(EVENT, line) for line in batch_lines(graph, line_in)]
        found += [(OF_PAIRS, line) for line in pair_lines(graph, line_in)]
        for kind, line in found:
            now = now_ns()
            log.event(kind, name=name, source=line, start_ns=now, end_ns=now)


def pair_lines(graph: Any, line_in: Callable[[Any], LineOf]) -> list[str]:
    """The lines that square differences of all pairs of vectors and add them up, in order.

    Differences that anything else reads are needed as they are.

    Args:
        graph: The graph, which may call others.
        line_in: As for `batch_lines`.
    """
    lines: dict[str, None] = {}
    for each in _called_by(graph, 0):
        line = line_in(each)
        number = {node.name: place for place, node in enumerate(each.get_operations())}
        for node in each.get_operations():
            chain = _distances(node)
            lines |= dict.fromkeys(line(number[one.name], one) for one in chain)
    return [line for line in lines if line]


def _called_by(graph: Any, depth: int) -> Iterator[Any]:
    """A graph, and those of the functions that it calls."""
    nodes = graph.get_operations()
    if len(nodes) > _MOST_NODES or depth > _DEEPEST:
        return
    yield graph
    for node in nodes:
        if node.type in _CALLS and not _is_gradient(node):
            called = traced_graph(getattr(graph, "_functions", {}).get(node.get_attr("f").name))
            if called is not None:
                yield from _called_by(called, depth + 1)


def _distances(node: Any) -> list[Any]:
    """A difference of all pairs, its square, and the sum over the features; [] for other nodes."""
    if node.type not in {"Sub", "SquaredDifference"} or _is_gradient(node) or not _pairs(node):
        return []
    squares = [node] if node.type == "SquaredDifference" else _readers(node)
    sums = [one for square in squares for one in _readers(square)]
    is_squared = squares == [node] or all(map(_is_square, squares))
    if not sums or not is_squared or any(one.type not in _ADDS_UP for one in sums):
        return []
    return [node, *squares, *sums]


def _is_square(node: Any) -> bool:
    """Whether a node squares what it reads; a product with anything else does not."""
    is_weighted = node.type == "Mul" and node.inputs[0].name != node.inputs[1].name
    return node.type in _SQUARES and not is_weighted


def _readers(node: Any) -> list[Any]:
    """The nodes that read what a node computes, but for gradients and shapes."""
    found = []
    for reader in node.outputs[0].consumers():
        if reader.type == "Identity":
            found += _readers(reader)
        elif reader.type not in _PASSES_ON and not _is_gradient(reader):
            found.append(reader)
    return list({reader.name: reader for reader in found}.values())


def _pairs(node: Any) -> bool:
    """Whether two arrays of vectors are each repeated for the other."""
    shapes = [each.shape.dims for each in (*node.inputs, *node.outputs)]
    if len(shapes) != len(("one", "other", "result")) or any(dims is None for dims in shapes):
        return False
    one, other, result = ([each.value for each in dims] for dims in shapes)
    features = (result or [0])[-1] or 0
    if len(result) < _LEAST_RANK or features < _LEAST_FEATURES:
        return False
    if [one[-1:], other[-1:]] != [[features]] * 2:
        return False
    one, other = ([1] * (len(result) - len(sizes)) + sizes for sizes in (one, other))
    places = range(len(result) - 1)
    repeated = [{p for p in places if sizes[p] == 1 != result[p]} for sizes in (one, other)]
    return bool(repeated[0] - repeated[1] and repeated[1] - repeated[0])


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
