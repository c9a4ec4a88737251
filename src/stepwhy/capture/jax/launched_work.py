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
    """The outputs of the last step, which stay the program's own: only weak references are kept."""

    def __init__(self) -> None:
        self._outputs: list[weakref.ref[Any]] = []

    def note(self, output: Any) -> None:
        """Remember the arrays that a call has returned.

        Args:
            output: A tree of arrays.
        """
        from jax.tree_util import tree_leaves

        arrays = [leaf for leaf in tree_leaves(output) if hasattr(leaf, "is_ready")]
        self._outputs = [weakref.ref(array) for array in arrays[-_MOST_OUTPUTS:]]

    def unfinished(self) -> bool:
        """Whether any of the remembered arrays is still being computed."""
        arrays = [reference() for reference in self._outputs]
        return any(not (a is None or a.is_deleted() or a.is_ready()) for a in arrays)
