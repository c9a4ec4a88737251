"""What only the tracing of a function shows: the layer and the forward operation behind each node.

Names do not tell: TensorFlow numbers repeated scopes ('dense_1' may be the second call of 'dense'),
and the nodes of a gradient have the scope of the forward operation, not its name. So while a
function is traced, and only then, the scopes that Keras opens and the gradients that a tape asks
for are noted.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

import stepwhy.record.watchers.layer_lines as layers
from stepwhy.record.core.process import losses

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_KERAS = "keras.src.backend.tensorflow.core"
_BACKPROP = "tensorflow.python.eager.backprop"
_OPS = "tensorflow.python.framework.ops"
_LINES_OF_LAYERS = "lines of the Keras layers of a traced function"
_LINES_OF_GRADIENTS = "lines of the gradients of a traced TensorFlow function"
# Limits memory; a graph of more operations takes minutes to trace.
_MOST_NOTES = 200_000


class GraphNotes:
    """Notes about one graph.

    Attributes:
        scopes: Line at which the layer that opened a scope was declared, by scope.
        gradients: The number of operations at which the gradient of a forward operation begins,
            and the name of that operation, '' if it is unknown; ascending.
        again: Number of gradients of forward operations that have had one before.
        again_from: The number of operations at which the first of these begins.
    """

    def __init__(self) -> None:
        self.scopes: dict[str, str] = {}
        self.gradients: list[tuple[int, str]] = []
        self.again = self.again_from = 0
        self._derived: set[str] = set()

    def add_gradient(self, number: int, forward: str) -> None:
        """The gradient of a forward operation begins at a number of operations."""
        self.gradients.append((number, forward))
        if forward and forward in self._derived:
            self.again += 1
            self.again_from = self.again_from or number
        self._derived.add(forward)


_notes: weakref.WeakKeyDictionary[Any, GraphNotes] = weakref.WeakKeyDictionary()
_lock = Lock()
_patches: list[tuple[Any, str, Any]] = []
_depth = 0


def notes_of(graph: Any) -> GraphNotes:
    """The notes about a graph."""
    return _notes.get(graph) or GraphNotes()


@contextmanager
def noting() -> Iterator[None]:
    """Take notes until a function has been traced; never raises."""
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _depth  # noqa: PLW0603 - the process has one
    with _lock:
        _depth += 1
        if _depth == 1:
            losses.attempt(
                _LINES_OF_LAYERS, lambda: _patch(_KERAS, "name_scope", "__enter__", _noted_enter)
            )
            losses.attempt(
                _LINES_OF_GRADIENTS, lambda: _patch(_BACKPROP, "", "_MockOp", _noted_gradient)
            )


def _end() -> None:
    global _depth  # noqa: PLW0603
    with _lock:
        _depth -= 1
        if _depth == 0:
            while _patches:
                setattr(*_patches.pop())


def _patch(module: str, owner: str, name: str, wrap: Any) -> None:
    """Replace an attribute of a module or of a class in it, if the module is loaded.

    Raises:
        AttributeError: This version of the framework has no such attribute.
    """
    if module not in sys.modules:
        return
    holder: Any = sys.modules[module]
    holder = getattr(holder, owner) if owner else holder
    original = getattr(holder, name)
    setattr(holder, name, wrap(original))
    _patches.append((holder, name, original))


def _current_graph() -> Any:
    return sys.modules[_OPS].get_default_graph()


def _noted_enter(original: Any) -> Any:
    """Wrap the method that opens a scope of Keras."""

    def enter(self: Any) -> Any:
        result = original(self)
        losses.attempt(_LINES_OF_LAYERS, lambda: _note_scope(self.caller))
        return result

    return enter


def _note_scope(layer: Any) -> None:
    # A model runs layers of which each has a line of its own.
    if layer is None or hasattr(layer, "fit"):
        return
    line = layers.declared_at(layer)
    if line:
        graph = _current_graph()
        notes = _notes.setdefault(graph, GraphNotes())
        if len(notes.scopes) < _MOST_NOTES:
            notes.scopes.setdefault(graph.get_name_scope(), line)


def _noted_gradient(original: Any) -> Any:
    """Wrap the class that stands for a forward operation while its gradient is computed."""

    class Noted(original):  # type: ignore[misc]
        def __init__(self, attrs: Any, inputs: Any, outputs: Any, kind: Any, skipped: Any) -> None:
            super().__init__(attrs, inputs, outputs, kind, skipped)
            losses.attempt(_LINES_OF_GRADIENTS, lambda: _note_gradient(inputs, outputs, kind))

    return Noted


def _note_gradient(inputs: Any, outputs: Any, kind: str) -> None:
    graph = _current_graph()
    notes = _notes.setdefault(graph, GraphNotes())
    if len(notes.gradients) < _MOST_NOTES:
        notes.add_gradient(graph.version, _forward(inputs, outputs, kind))


def _forward(inputs: Any, outputs: Any, kind: str) -> str:
    """Name of a forward operation, '' if the tape has kept nothing of it.

    Args:
        inputs: Its inputs; None, or None in place of those that the gradient does not need.
        outputs: Its outputs, likewise.
        kind: Its type.
    """
    for output in outputs or ():
        if output is not None:
            return str(output.op.name)
    for value in inputs or ():
        readers = () if value is None else value.consumers()
        names = [reader.name for reader in readers if reader.type == kind]
        if len(names) == 1:
            return str(names[0])
    return ""
