"""Notice gradients of parameters that are cleared before an optimizer has used them.

A loss that reaches the parameters of another optimizer computes their gradients, too. If they are
gone at the next backward pass, and the parameters have not changed since, nothing has used them: a
change of a tensor in place counts its version up, as each step of an optimizer does.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


class _Leaf(NamedTuple):
    """A parameter, and its version when its gradient was computed."""

    tensor: weakref.ref[Any]
    version: int

    def is_dropped(self) -> bool | None:
        """Whether its gradient was cleared unused; None while it is still there."""
        leaf = self.tensor()
        if leaf is None or leaf._version != self.version:
            return False
        return True if leaf.grad is None else None


class Notes(NamedTuple):
    """What is to be logged of a pass if gradients turn out to be dropped.

    Args:
        start_ns: When it was walked.
        line: Line of the program that runs it.
        nodes: Number of nodes of its graph.
        unused: Sequence numbers of the nodes that nothing needs then.
    """

    start_ns: int
    line: str
    nodes: int
    unused: str


class DroppedGradients:
    """Passes whose gradients may be dropped."""

    def __init__(self) -> None:
        self._waiting: list[tuple[list[_Leaf], Notes]] = []

    def __bool__(self) -> bool:
        """Whether there are any that are not decided yet."""
        return bool(self._waiting)

    def forget(self) -> None:
        """Forget all of them."""
        self._waiting = []

    def add(self, leaves: Iterable[Any], notes: Notes) -> None:
        """A pass begins.

        Args:
            leaves: The parameters of one optimizer that it reaches.
            notes: What is to be logged if their gradients are dropped.
        """
        known = [_Leaf(weakref.ref(leaf), leaf._version) for leaf in leaves]
        self._waiting.append((known, notes))

    def settled(self) -> list[tuple[list[weakref.ref[Any]], Notes]]:
        """The passes whose gradients have been dropped since the last call; the rest waits on.

        A pass of which any gradient was used is forgotten.
        """
        found, waiting = [], []
        for leaves, notes in self._waiting:
            dropped = [leaf.is_dropped() for leaf in leaves]
            if all(dropped):
                found.append(([leaf.tensor for leaf in leaves], notes))
            elif False not in dropped:
                waiting.append((leaves, notes))
        self._waiting = waiting
        return found


__all__ = ["DroppedGradients", "Notes"]
