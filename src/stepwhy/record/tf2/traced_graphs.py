"""The graphs of traced functions, from which the lines of a window's nodes are read."""

from __future__ import annotations

import contextlib
import weakref
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_code import UserFiles, source_of, user_line
from stepwhy.record.tf2.dense_tables import log_dense_tables
from stepwhy.record.tf2.loop_products import products_of
from stepwhy.record.tf2.tracing_notes import notes_of
from stepwhy.record.watchers.batch_lines import log_batch_lines
from stepwhy.record.watchers.graph_lines import GraphLines, called_graphs
from stepwhy.record.watchers.layer_lines import metric_at, runs_models

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.watchers.graph_lines import Lines

# A program that traces a function in every step keeps none of them for long.
_MOST_GRAPHS = 256
_TAPE = "gradient_tape"
_LOOPS = frozenset({"While", "StatelessWhile"})
_MOST_LOOPS = 16
_MAP_FILE = "map_fn.py"
_TAPE_FILE = "backprop.py"
_SUMS = frozenset({"Add", "AddV2", "AddN"})
_CONSTANTS = frozenset({"Const", "Fill", "ZerosLike"})

_MOST_FOLLOWED = 64

_graphs: list[weakref.ref[Any]] = []
_followed: set[str] = set()
_callers: dict[str, str] = {}
_lines = GraphLines()


def note(function: Any) -> None:
    """Note the graph of a concrete function, weakly; never raises."""
    try:
        graph = function.graph
        _graphs.append(weakref.ref(graph))
        if graph.name in _callers or len(_callers) < _MOST_GRAPHS:
            _callers[graph.name] = user_line()
    except Exception:
        return
    del _graphs[:-_MOST_GRAPHS]


def log_loops(function: Any, recorder: Recorder) -> None:
    """Log the lines of the loops in the graph of a concrete function; never raises.

    Functions of data sets do not count, and loops of gradients are those of the forward pass. The
    reason is 'map' for a loop over independent rows. For products that could be computed after the
    loop it is 'after', with the share of their weights among those of the products at the line, and
    of all in the loop, 0..1.
    """
    with contextlib.suppress(Exception):
        name, files, now = str(function.graph.name), UserFiles(), now_ns()
        operations = () if name.startswith("Dataset") else function.graph.get_operations()
        loops = [each for each in operations if each.type in _LOOPS and _TAPE not in each.name]
        reasons = [(source_of(each, files), "map" * _maps(each)) for each in loops[:_MOST_LOOPS]]
        reasons += _products_after(function.graph, loops[:_MOST_LOOPS])
        for line, reason in dict(reasons).items():
            if line:
                recorder.event(
                    "graph-loop", name=name, source=line, reason=reason, start_ns=now, end_ns=now
                )


def _products_after(graph: Any, loops: Sequence[Any]) -> list[tuple[str, str]]:
    """Lines of products that could be computed after their loop, with the reason in the log."""
    reasons: list[tuple[str, str]] = []
    with contextlib.suppress(Exception):
        bodies = {each.name: each for each in called_graphs(graph)} if loops else {}
        for loop in loops:
            body = bodies.get(loop.get_attr("body").name)
            needed, others = products_of(body) if body is not None else ({}, {})
            if not others:
                continue
            line_of = _NodeLines(body).of
            of_lines: Counter[str] = Counter()
            all_lines: Counter[str] = Counter()
            for each, size in (needed | others).items():
                line = line_of(-1, each)
                all_lines[line] += size
                of_lines[line] += size if each in others else 0
            share = of_lines.total() / max(all_lines.total(), 1)
            reasons += [
                (line, f"after {size / all_lines[line]:.3f} {share:.3f}")
                for line, size in of_lines.items()
                if size
            ]
    return reasons


def _maps(loop: Any) -> bool:
    """Whether `tf.map_fn` made a loop, whose rounds do not need each other."""
    return any(frame.filename.endswith(_MAP_FILE) for frame in loop.traceback or ())


def log_first_batch_lines(function: Any, recorder: Recorder) -> None:
    """Log the lines of a function's first trace that compute from the batch alone; never raises."""
    graph = getattr(function, "graph", None)
    name = str(getattr(graph, "name", ""))
    if graph is None or name in _followed or len(_followed) >= _MOST_FOLLOWED:
        return
    _followed.add(name)  # to follow each retrace would make it slower
    log_batch_lines(graph, name, lambda each: _NodeLines(each).of, recorder)


def log_tables(function: Any, recorder: Recorder) -> None:
    """Log the tables with dense gradients of a function's first trace; never raises."""
    name = str(getattr(getattr(function, "graph", None), "name", ""))
    if (each := f"tables of {name}") in _followed or len(_followed) >= _MOST_FOLLOWED:
        return
    _followed.add(each)
    log_dense_tables(function, lambda graph: _NodeLines(graph).of, recorder)


def log_repeated_gradients(function: Any, recorder: Recorder) -> None:
    """Log that a function asks for gradients of the same operations again, and adds them up.

    As the event 'repeated-gradient', whose reason is the share of such gradients among all, 0..1.
    """
    with contextlib.suppress(Exception):
        graph = function.graph
        notes, operations = notes_of(graph), graph.get_operations()
        shapes = {tuple(each.shape) for each in graph.variables}
        if not notes.again or not _adds_gradients(operations, shapes):
            return
        recorder.event(
            "repeated-gradient",
            name=str(graph.name),
            source=source_of(operations[notes.again_from], UserFiles()),
            reason=f"{notes.again / len(notes.gradients):.3f}",
            start_ns=(now := now_ns()),
            end_ns=now,
        )


def _adds_gradients(operations: Sequence[Any], shapes: set[tuple[int, ...]]) -> bool:
    """Whether the program adds gradients of several calls, as those of its losses.

    Args:
        operations: The nodes of a graph.
        shapes: Shapes of its variables; derivatives by an input, as in a Laplacian, have others.
    """
    counts: dict[str, int] = {}  # of gradients in a sum
    for operation in operations:
        name = str(operation.name)
        if operation.type not in _SUMS or _TAPE in name or _is_of_tape(operation):
            continue
        shape = operation.outputs[0].shape
        if not shape.is_fully_defined() or tuple(shape) not in shapes:
            continue
        added = [_gradients_in(each.op, counts) for each in operation.inputs]
        if None not in added:
            counts[name] = sum(filter(None, added))
    return max(counts.values(), default=0) > 1


def _gradients_in(operation: Any, counts: Mapping[str, int]) -> int | None:
    """Number of gradients that are added in a value; None if it is something else."""
    name = str(operation.name)
    if _TAPE in name:
        return 1
    return 0 if operation.type in _CONSTANTS else counts.get(name)


def _is_of_tape(operation: Any) -> bool:
    """Whether a tape makes an operation, such as the sum of what several readers add to it."""
    return any(frame.filename.endswith(_TAPE_FILE) for frame in operation.traceback or ())


def callers() -> dict[str, str]:
    """The line that called each function when it was last traced, by the function's name."""
    return {name: line for name, line in _callers.items() if line}


def function_lines() -> dict[str, Lines]:
    """Names of nodes by their line, of each function that is still alive, latest first."""
    alive = [graph for ref in reversed(_graphs) if (graph := ref()) is not None]
    return _lines.of(alive, lambda graph: _NodeLines(graph).of)


class _NodeLines:
    """The lines of the nodes of one graph, asked in their order.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Any) -> None:
        self._files = UserFiles()
        notes = notes_of(graph)
        self._scopes = notes.scopes
        self._begins = [number for number, _ in notes.gradients]
        self._forward = [name for _, name in notes.gradients]
        # By node, and by the scope of a node.
        self._known: dict[str, str] = {}

    def of(self, number: int, operation: Any) -> str:
        """The line of a node: for one of a gradient, that of the forward operation.

        Args:
            number: Its number in the graph.
            operation: The node.
        """
        name = str(operation.name)
        line = self._of_gradient(number, operation, name) or self._of_stack(operation, name)
        self._known[name] = line
        self._known.setdefault(name.rpartition("/")[0], line)
        return line

    def _of_gradient(self, number: int, operation: Any, name: str) -> str:
        """Line of the forward operation of a gradient's node, '' for others, or if unknown."""
        if operation.type == "AddN" and operation.inputs:  # a sum of gradients
            summed = str(operation.inputs[0].op.name)
            return self._known.get(summed, "") if _TAPE in summed.split("/") else ""
        _, found, within = name.rpartition(f"{_TAPE}/")
        if not found:
            return ""
        place = bisect_right(self._begins, number) - 1
        forward = self._forward[place] if place >= 0 else ""
        return self._known.get(forward, "") if forward else self._of_scope(within)

    def _of_scope(self, name: str) -> str:
        """Line of the innermost node or scope that a name begins with, '' if unknown."""
        while name:
            name = name.rpartition("/")[0]
            if name and name in self._known:
                return self._known[name]
        return ""

    def _of_stack(self, operation: Any, name: str) -> str:
        for frame in reversed(operation.traceback or ()):
            file = frame.filename
            short = self._files.user_name(file)
            if short is not None:
                return f"{short}({frame.lineno}): {frame.name}"
            declared = self._of_layer(name) if self._scopes and runs_models(file) else ""
            declared = declared or metric_at(file, frame.lineno)
            if declared:
                return declared
        return ""

    def _of_layer(self, name: str) -> str:
        """Line of the innermost layer around a node, '' if unknown."""
        scope = name.rpartition("/")[0]
        while scope:
            if scope in self._scopes:
                return self._scopes[scope]
            scope = scope.rpartition("/")[0]
        return ""
