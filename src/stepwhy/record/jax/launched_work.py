"""Whether the device has finished what a JAX program launched."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# Most outputs of one call become ready together; the last ones are often losses and metrics, which
# the program does not donate to the next step.
_MOST_OUTPUTS = 4


class LaunchedWork:
    """The outputs of the last call, which stay the program's own: only weak references are kept."""

    def __init__(self) -> None:
        self._outputs: list[weakref.ref[Any]] = []

    def note(self, output: Any) -> None:
        """Remember the arrays that a call has returned.

        Args:
            output: A tree of arrays.
        """
        self._outputs = [weakref.ref(array) for array in _last_arrays(output)]

    def ahead(self) -> bool | None:
        """Whether the device still works on the last call; None if its arrays are gone."""
        arrays = [reference() for reference in self._outputs]
        known = [a for a in arrays if a is not None and not a.is_deleted()]
        if any(not a.is_ready() for a in known):
            return True
        return False if known else None

    def unfinished(self) -> bool:
        """Whether the device is known to work on the last call."""
        return self.ahead() is True


def _last_arrays(output: Any) -> list[Any]:
    """The last arrays of a tree, without a walk through all of a large model."""
    found: list[Any] = []
    pending = [output]
    while pending and len(found) < _MOST_OUTPUTS:
        node = pending.pop()
        if hasattr(node, "is_ready"):
            found.append(node)
        elif isinstance(node, (tuple, list)):
            pending += node
        elif isinstance(node, dict):
            pending += node.values()
        elif node is not None and not found:
            pending += _inside(node)
    return found


def _inside(node: Any) -> list[Any]:
    """The arrays of a node that is no plain container, such as a state of Flax."""
    from jax.tree_util import tree_leaves

    return [leaf for leaf in tree_leaves(node) if hasattr(leaf, "is_ready")]
