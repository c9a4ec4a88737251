"""The graph of a loss: which of its nodes lead to no parameter of an optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Node = Any

# Nodes; 30 ms in one step that is profiled anyway.
_MOST_NODES = 10_000
# Characters of a text of numbers, which one line of the log holds.
_MOST_TEXT = 20_000
# Types of nodes. Their other attributes may be those of the program, in functions of its own.
_COMPILED = "CompiledFunctionBackward"
_ACCUMULATES = "AccumulateGrad"
# Nodes with a matrix as an operand compute two products, one for each operand. Source: the
# formulas of torch/tools/autograd/derivatives.yaml.
_PRODUCTS = ("AddmmBackward", "MmBackward", "BmmBackward", "ConvolutionBackward", "LinearBackward")


class RefusedError(Exception):
    """The graph cannot be judged; the message says why."""


class Found:
    """What a walk has found: nodes by their sequence numbers, and parameters."""

    def __init__(self) -> None:
        self.unused: list[int] = []
        self.half: list[int] = []
        self.products = 0
        self.unowned: list[Any] = []

    @staticmethod
    def text(numbers: list[int]) -> str:
        """Ranges of numbers: '3-17 19'."""
        parts: list[list[int]] = []
        for number in sorted(set(numbers)):
            if parts and parts[-1][1] == number - 1:
                parts[-1][1] = number
            else:
                parts.append([number, number])
        text = " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
        if len(text) > _MOST_TEXT:
            raise RefusedError("too many separate nodes")
        return text


class Graph:
    """The nodes of a graph, consumers before what they lead to; it lives as long as the walk.

    Args:
        roots: The losses.
    """

    def __init__(self, roots: Iterable[Any]) -> None:
        first = [root.grad_fn for root in roots if root.grad_fn is not None]
        self._after: dict[Node, tuple[Node, ...]] = {}
        waiting = first
        while waiting:
            node = waiting.pop()
            if node in self._after:
                continue
            after = tuple(n for n, _ in node.next_functions if n is not None)
            self._after[node] = after
            waiting += after
            if len(self._after) > _MOST_NODES:
                raise RefusedError(f"the graph has more than {_MOST_NODES} nodes")
        self.size = len(self._after)
        if any(_kind(node).startswith(_COMPILED) for node in self._after):
            raise RefusedError("parts of the graph are compiled")
        check_plain(self.leaves())

    def leaves(self) -> list[Any]:
        """The tensors in which gradients accumulate."""
        return [leaf for node in self._after if (leaf := _leaf(node)) is not None]

    def judge(self, owned: set[int], spared: set[int]) -> Found:
        """The nodes that lead to no owned leaf.

        Args:
            owned: Ids of the parameters of optimizers; none if only other leaves are needed.
            spared: Ids of other leaves whose gradients may be used.
        """
        found, needed = Found(), set()
        for node in self._after:
            leaf = _leaf(node)
            if leaf is None:
                continue
            if id(leaf) in owned or id(leaf) in spared or not _is_plain(leaf):
                needed.add(node)
            else:
                found.unowned.append(leaf)
        if owned and not any(id(_leaf(node)) in owned for node in needed):
            raise RefusedError("no leaf of the graph is a parameter of an optimizer")
        self._spread(needed)
        self._sort(found, needed)
        return found

    def _spread(self, needed: set[Node]) -> None:
        """Add the nodes that lead to needed ones."""
        before: dict[Node, list[Node]] = {}
        for node, after in self._after.items():
            for target in after:
                before.setdefault(target, []).append(node)
        waiting = list(needed)
        while waiting:
            for node in before.get(waiting.pop(), ()):
                if node not in needed:
                    needed.add(node)
                    waiting.append(node)

    def _sort(self, found: Found, needed: set[Node]) -> None:
        for node, after in self._after.items():
            if _leaf(node) is not None:
                continue
            if node not in needed:
                found.unused.append(_number(node))
                found.products += _kind(node).startswith(_PRODUCTS)
            elif _kind(node).startswith(_PRODUCTS) and any(
                n not in needed and _is_matrix(n) for n in after
            ):
                found.half.append(_number(node))


def check_plain(tensors: Iterable[Any]) -> None:
    """Refuse subclasses of tensors, whose attributes may be code of the program.

    Raises:
        RefusedError: There is one.
    """
    import torch

    if any(type(one) not in (torch.Tensor, torch.nn.Parameter) for one in tensors):
        raise RefusedError("a loss, a leaf or a parameter is of a subclass of tensors")


def _kind(node: Node) -> str:
    return type(node).__name__


def _leaf(node: Node) -> Any:
    """The tensor in which gradients accumulate at a node; None at any other node."""
    return node.variable if _kind(node) == _ACCUMULATES else None


def _number(node: Node) -> int:
    """The sequence number of a node, which the profiler records as well."""
    number = getattr(node, "_sequence_nr", None)
    if number is None:
        raise RefusedError("this version of PyTorch does not show the numbers of nodes")
    return int(number())


def _is_plain(leaf: Any) -> bool:
    """Whether a leaf is a parameter whose gradient nothing else is known to read."""
    import torch

    hooks = (getattr(leaf, f"_{kind}_hooks", None) for kind in ("backward", "post_accumulate_grad"))
    return type(leaf) is torch.nn.Parameter and not any(hooks)


def _is_matrix(node: Node) -> bool:
    """Whether a node passes on the gradient of a matrix, not of a bias."""
    leaf = _leaf(node)
    return leaf is None or leaf.ndim > 1
