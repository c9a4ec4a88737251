"""Notice gradients of parameters that are cleared before an optimizer has used them.

A loss that reaches the parameters of another optimizer computes their gradients, too. If they are
gone at the next backward pass, that optimizer has taken no step since, and the program has not read
them itself, nothing has used them.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class Notes(NamedTuple):
    """What is to be logged of a pass if gradients turn out to be dropped.

    Args:
        start_ns: When it was walked.
        line: Line of the program that runs it.
        nodes: Number of nodes of its graph.
        unused: Sequence numbers of the nodes that nothing needs then.
        half: Sequence numbers of the nodes of which nothing needs one of two products then.
    """

    start_ns: int
    line: str
    nodes: int
    unused: str
    half: str = ""

    def but_unused(self, numbers: str) -> Notes:
        """The same pass, of which nothing needs other nodes."""
        return Notes(self.start_ns, self.line, self.nodes, numbers)


class _Pass(NamedTuple):
    """A pass, and the parameters of one optimizer that it reaches."""

    optimizer: weakref.ref[Any]
    leaves: list[weakref.ref[Any]]
    notes: Notes

    @property
    def is_cleared(self) -> bool:
        """Whether all of their gradients are gone."""
        known = [leaf() for leaf in self.leaves]
        return all(leaf is not None and leaf.grad is None for leaf in known)


class DroppedGradients:
    """Passes whose gradients may be dropped."""

    def __init__(self) -> None:
        self._waiting: list[_Pass] = []

    def __bool__(self) -> bool:
        """Whether there are any that are not decided yet."""
        return bool(self._waiting)

    def forget(self) -> None:
        """Forget all of them."""
        self._waiting = []

    def add(self, optimizer: Any, leaves: Iterable[Any], notes: Notes) -> None:
        """A pass begins.

        Args:
            optimizer: An optimizer.
            leaves: Its parameters that the pass reaches.
            notes: What is to be logged if their gradients are dropped.
        """
        known = [weakref.ref(leaf) for leaf in leaves]
        self._waiting.append(_Pass(weakref.ref(optimizer), known, notes))

    def used(self, optimizer: Any) -> None:
        """An optimizer has taken a step, so that it has used the gradients that were there."""
        self._waiting = [one for one in self._waiting if one.optimizer() is not optimizer]

    def read(self, is_read: Callable[[list[weakref.ref[Any]]], bool]) -> None:
        """Forget the passes of whose gradients the program itself has read any.

        Args:
            is_read: Whether it has read the gradient of one of some parameters.
        """
        self._waiting = [one for one in self._waiting if not is_read(one.leaves)]

    def settled(self) -> list[tuple[list[weakref.ref[Any]], Notes]]:
        """The passes whose gradients have been dropped since the last call; the rest waits on."""
        dropped = [one for one in self._waiting if one.is_cleared]
        self._waiting = [one for one in self._waiting if not one.is_cleared]
        return [(one.leaves, one.notes) for one in dropped]
