"""Find the line of the program behind each node of TensorFlow's graphs.

TensorFlow keeps the stack at which a node was made, mapped back to the program's own lines where
AutoGraph rewrote them. It is read once, when a window is written.
"""

from __future__ import annotations

import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING

from stepwhy.record.core.user_code import UserFiles, source_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    # Source, then the names of its nodes by their scope, separated by spaces.
    Lines = dict[str, dict[str, str]]

# Reading a stack takes 15 us; graphs that are read later stay without lines.
_LONGEST_NS = 1_000_000_000
# Values that are known before a step; reading them takes no time.
_FREE = frozenset({"Const", "NoOp", "Placeholder"})


class GraphLines:
    """Reads the lines of graphs, for at most a second in total."""

    def __init__(self) -> None:
        self._left_ns = _LONGEST_NS
        self._known: weakref.WeakKeyDictionary[Any, Lines] = weakref.WeakKeyDictionary()

    def of(
        self, graphs: Iterable[Any], line_in: Callable[[Any], LineOf] | None = None
    ) -> dict[str, Lines]:
        """Names of the nodes of each graph by their line, by a name of the graph.

        Args:
            graphs: Graphs of functions; those that they call are read, too.
            line_in: Returns, for a graph, a function from a node's number and operation to its
                line; by default the innermost line in the operation's stack.
        """
        found: dict[str, Lines] = {}
        for graph in _with_called(graphs):
            if graph not in self._known and self._left_ns > 0:
                self._known[graph] = self._read(graph, (line_in or stack_lines)(graph))
            lines = self._known.get(graph)
            if lines and lines not in found.values():
                found[f"{len(found)} {getattr(graph, 'name', '')}"] = lines
        return found

    def _read(self, graph: Any, line_of: LineOf) -> Lines:
        """The lines of one graph, of its first nodes if the time is over."""
        found: dict[str, dict[str, list[str]]] = {}
        begun_ns = perf_counter_ns()
        for number, operation in enumerate(graph.get_operations()):
            line = "" if operation.type in _FREE else line_of(number, operation)
            if line:
                scope, _, name = operation.name.rpartition("/")
                found.setdefault(line, {}).setdefault(scope, []).append(name)
            if perf_counter_ns() - begun_ns > self._left_ns:
                break
        self._left_ns -= perf_counter_ns() - begun_ns
        return {
            line: {scope: " ".join(names) for scope, names in scopes.items()}
            for line, scopes in found.items()
        }


if TYPE_CHECKING:
    LineOf = Callable[[int, Any], str]


def stack_lines(_: Any) -> LineOf:
    """The function from a node to the innermost line of the program in its stack."""
    files = UserFiles()
    return lambda _, operation: source_of(operation, files)


def called_graphs(graph: Any) -> list[Any]:
    """The graphs of the functions that a graph calls, as they were traced."""
    found = []
    for function in list(getattr(graph, "_functions", {}).values()):
        called = traced_graph(function)
        if called is not None:
            found.append(called)
    return found


def traced_graph(function: Any) -> Any:
    """The graph of a function in a graph, as it was traced; None if it is not known."""
    # `graph` of a newer function that was not traced here makes a graph, without stacks.
    name = "_cached_graph" if hasattr(function, "_cached_graph") else "graph"
    return getattr(function, name, None)


def _with_called(graphs: Iterable[Any]) -> Iterator[Any]:
    for graph in graphs:
        yield graph
        yield from called_graphs(graph)
