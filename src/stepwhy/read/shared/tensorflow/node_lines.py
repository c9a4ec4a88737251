"""Which line of the program causes each node of a graph that the runtime ran.

A node that computes gradients is of the line that made the forward operation, although the program
asks for all of them in one line. In the graphs of sessions and of loops, its name tells which one;
for those of a tape, what was noted while the function was traced.

The runtime also runs nodes that the program has not made: those of functions, which it puts in the
place of their calls, and those of its optimizers, which have names of their own.

Source: `gradients_util.py` (names of gradients), `inline_function_utils.cc`,
`lower_while_op.cc`, `constant_folding.cc`, `arithmetic_optimizer.cc` and
`generic_layout_optimizer.cc` (names of the runtime's own nodes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_GRADIENT = "_grad"
# Scopes in which the optimizers of graphs put what they add.
_OPTIMIZERS = regex(
    r"(?:ConstantFolding(?:Ctrl)?|ArithmeticOptimizer|LoopOptimizer|ScopedAllocatorOptimizer"
    r"|_arg|_retval)/?_?"
)
# Additions to a name, which are removed one after the other: 'Conv2D-0-TransposeNHWCToNCHW',
# 'add_recip', 'read/_2__cf__2'.
_ADDITION = regex(r"[-_/.][^-_/.]*$")
# Words before a name: 'AddOpsRewrite_Leaf_1_add'.
_PREFIX = regex(r"^[^_/]*_")
# Names are shorter; longer ones are of damaged files.
_MOST_PARTS = 64


class NodeLines:
    """Finds the lines of nodes.

    Args:
        lines: Line of each node that the program has made, by its name; functions included.
        followed: The node whose line that of another node is, e.g. the one it is bound to.
    """

    def __init__(self, lines: Mapping[str, str], followed: Mapping[str, str] | None = None) -> None:
        self._lines = lines
        self._followed = followed or {}
        self._known: dict[str, str] = {}

    def of(self, node: str) -> str:
        """Line of the program that causes a node, '' if unknown."""
        if not self._lines:
            return ""
        if node not in self._known:
            self._known[node] = ""  # also ends a circle
            self._known[node] = self._find(node)
        return self._known[node]

    def _find(self, node: str) -> str:
        """As `of`, for a node that is asked for the first time."""
        for forward in _forward_names(node):
            if forward in self._lines:
                return self.of(forward)
        if any(part.startswith("gradient") for part in node.split("/")) and node in self._followed:
            found = self.of(self._followed[node])
            if found:
                return found
        if node in self._lines:
            return self._lines[node]
        plain = _OPTIMIZERS.sub("", node)
        for name in (*_inner_names(plain), *_shorter_names(plain)):
            if name in self._lines:
                return self.of(name)
        return ""


def _forward_names(node: str) -> Iterator[str]:
    """Names that the forward operation of a gradient's node may have, the likeliest first."""
    parts = node.split("/")[:_MOST_PARTS]
    last = next((n for n in range(len(parts) - 1, -1, -1) if parts[n].endswith(_GRADIENT)), None)
    if last is not None:
        forward = "/".join([*parts[:last], parts[last].removesuffix(_GRADIENT)])
        yield from _inner_names(forward)


def _inner_names(node: str) -> Iterator[str]:
    """A name, and what it is without its outer scopes: those of calls that were inlined."""
    parts = node.split("/")[:_MOST_PARTS]
    for first in range(len(parts)):
        yield "/".join(parts[first:])


def _shorter_names(node: str) -> Iterator[str]:
    """A name without what optimizers add to its end, and to the beginning of its last part."""
    shorter = node
    for _ in range(_MOST_PARTS):
        shorter, count = _ADDITION.subn("", shorter)
        if not count:
            break
        yield from _inner_names(shorter)
    scope, slash, last = node.rpartition("/")
    for _ in range(_MOST_PARTS):
        last, count = _PREFIX.subn("", last)
        if not count:
            return
        yield from _inner_names(f"{scope}{slash}{last}")
