"""CUDA graphs that hold an optimizer's step: to replay one is to step, to capture one is not.

While a graph is captured, the program's Python runs and the device executes nothing. Later the
graph is replayed without that Python, so no optimizer is seen to step. Graphs without an optimizer,
such as those of layers or of compiled functions, are parts of steps that Python ends.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import never_compiled

if TYPE_CHECKING:
    from typing import Any

CAPTURED = "CUDA graphs are in use"
"""Why no values of a step are read: reading from the device would end a capture with an error."""

# The graph that each thread captures, by the id of the thread.
_open: dict[int, Any] = {}
_were_captured = False


def is_any_captured() -> bool:
    """Whether a thread of this process captures a graph just now."""
    return bool(_open)


def were_captured() -> bool:
    """Whether this process has captured a graph, which it may replay."""
    return _were_captured


class CudaGraphs:
    """What steps when a graph is replayed.

    Attributes:
        clocks: The graph, and the optimizer whose step it holds, by the graph's id.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over: CUDA does not survive a fork, and neither do its graphs."""
        _open.clear()
        self.clocks: dict[int, tuple[weakref.ref[Any], weakref.ref[Any]]] = {}

    @never_compiled
    def begins(self, graph: Any) -> None:
        """A capture is about to begin in this thread; never raises."""
        global _were_captured  # noqa: PLW0603 - the process has one answer
        _were_captured = True
        _open[threading.get_ident()] = graph
        self.clocks.pop(id(graph), None)

    @never_compiled
    def ends(self, graph: Any) -> None:
        """The capture of a graph has ended, or did not begin; never raises."""
        for thread, captured in list(_open.items()):
            if captured is graph:
                _open.pop(thread, None)

    def captures(self, clock: Any, *, stands_in: bool = False) -> bool:
        """Whether a step was captured, not executed; replaying the graph then executes it.

        Args:
            clock: The optimizer that has stepped in this thread, or what stands for one.
            stands_in: Whether it only stands for one, which an optimizer in the graph replaces.
        """
        graph = _open.get(threading.get_ident())
        if graph is None:
            return False
        key, clocks = id(graph), self.clocks
        if stands_in and key in clocks:
            return True

        @never_compiled
        def forget(_: object) -> None:
            clocks.pop(key, None)

        clocks[key] = weakref.ref(graph, forget), weakref.ref(clock)
        return True

    def clock_of(self, graph: Any) -> Any:
        """The optimizer whose step a graph holds; None if it holds none, or is gone."""
        found = self.clocks.get(id(graph))
        return None if found is None else found[1]()
