"""Find the nodes of a backward pass that lead to no parameter of an optimizer that uses it.

The graph of one loss is walked once, before its backward pass in the first kept step of a window,
3 µs per node. What was found is logged as events: the sequence numbers of the nodes, by which the
profiler's records show their time, and the parameters that no optimizer has, or whose gradients
are cleared before their optimizer uses them.
"""

from __future__ import annotations

import contextlib
import weakref
from itertools import chain
from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.compiled_code import never_compiled
from stepwhy.capture.torch.dropped_gradients import DroppedGradients, Notes
from stepwhy.capture.torch.function_modes import untold
from stepwhy.capture.torch.module_names import named
from stepwhy.capture.user_code import user_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from stepwhy.capture.recorder import Recorder

    Node = Any

# Nodes; 30 ms in one step that is profiled anyway.
_MOST_NODES = 10_000
# Backward passes of the step, such as those of a generator and of its critic.
_MOST_PASSES = 8
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


class GradientWalk:
    """The walks of one process.

    Args:
        recorder: Writes the events.

    Attributes:
        is_due: Whether the next backward pass is walked.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.is_due = False
        self._left = self._checks = 0
        self._unowned: list[weakref.ref[Any]] = []
        self._undecided = DroppedGradients()
        self._dropped: list[weakref.ref[Any]] = []

    @never_compiled
    def know(self, optimizer: Any) -> None:
        """Remember an optimizer, without keeping it alive; never raises."""
        with contextlib.suppress(Exception):
            self._optimizers.add(optimizer)

    @never_compiled
    def stepped(self, optimizer: Any) -> None:
        """An optimizer has taken a step while passes are walked; never raises."""
        with contextlib.suppress(Exception):
            self._undecided.used(optimizer)

    def begin(self) -> None:
        """The step begins in which passes are walked."""
        self.is_due, self._left, self._checks = True, _MOST_PASSES, _MOST_PASSES
        self._unowned, self._dropped = [], []
        self._undecided.forget()

    def end(self) -> None:
        """The step has ended; passes of the next one show which gradients are gone by then."""
        self._left = 0
        self.is_due = self._may_settle

    @never_compiled
    def report(self) -> None:
        """Log which modules have parameters that no optimizer has, after the window; never raises.

        Finding the modules takes tens of milliseconds, so it waits until no step is recorded.
        """
        with contextlib.suppress(Exception), untold():
            leaves = {id(leaf): leaf for ref in self._unowned if (leaf := ref()) is not None}
            self._unowned = []
            for name, count, elements in named(list(leaves.values())):
                self._log("unowned-parameters", name, reason=str(count), count=elements)
            dropped = {id(leaf): leaf for ref in self._dropped if (leaf := ref()) is not None}
            self._dropped = []
            for name, count, elements in named(list(dropped.values())):
                self._log("dropped-parameters", name, reason=str(count), count=elements)

    @never_compiled
    def walk(self, *args: Any, **kwargs: Any) -> None:
        """Walk the graph that `torch.autograd.backward` is called with; never raises."""
        is_walked = self._left > 0
        self._left, self._checks = self._left - is_walked, self._checks - (not is_walked)
        try:
            with untold():
                self._settle()
                if is_walked:
                    self._walk(args, kwargs)
        except Exception as error:
            reason = str(error) if isinstance(error, RefusedError) else type(error).__name__
            with contextlib.suppress(Exception):
                self._log("gradient-walk", "", reason=reason)
        self.is_due = self._left > 0 or self._may_settle

    @property
    def _may_settle(self) -> bool:
        """Whether a further pass may show that gradients of an earlier one are gone."""
        return self._checks > 0 and bool(self._undecided)

    def _settle(self) -> None:
        """Log the passes whose gradients were cleared before anything used them."""
        for leaves, notes in self._undecided.settled():
            self._recorder.event(
                "gradient-walk", name=notes.unused, start_ns=notes.start_ns,
                end_ns=notes.start_ns, source=notes.line, count=notes.nodes,
            )  # fmt: skip
            self._dropped += leaves

    def _expect(self, graph: _Graph, owned: set[int], spared: set[int], known: _Found) -> None:
        """Note what would be unused if the gradients for one of several optimizers are dropped."""
        leaves = {id(leaf): leaf for leaf in graph.leaves()}
        now, line = now_ns(), user_line()
        for optimizer in list(self._optimizers):
            own = {id(p) for p in _parameters_of(optimizer)} & leaves.keys() & owned
            if not own or own == leaves.keys() & owned:
                continue
            found = graph.judge(owned - own, spared)
            # Not half of a product: a critic that passes a gradient on has to run.
            if found.products > known.products:
                reached, unused = [leaves[key] for key in own], found.text(found.unused)
                self._undecided.add(optimizer, reached, Notes(now, line, graph.size, unused))

    def _walk(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        roots = args[0] if args else kwargs.get("tensors", ())
        # With `inputs`, the engine runs only the nodes that lead to them.
        if kwargs.get("inputs") is not None or len(args) > _POSITION_OF_INPUTS:
            return
        parameters = list(self._parameters())
        if not parameters:
            raise RefusedError("no optimizer of torch.optim has parameters")
        roots = roots if isinstance(roots, (tuple, list)) else (roots,)
        _check_plain(chain(roots, parameters))
        graph = _Graph(roots)
        owned, spared = {id(p) for p in parameters}, _copied(parameters, graph.leaves())
        found = graph.judge(owned, spared)
        self._log("gradient-walk", found.text(found.unused), reason=found.text(found.half),
                  count=graph.size)  # fmt: skip
        self._unowned += [weakref.ref(leaf) for leaf in found.unowned]
        self._expect(graph, owned, spared, found)

    def _parameters(self) -> Iterator[Any]:
        for optimizer in list(self._optimizers):
            yield from _parameters_of(optimizer)

    def _log(self, kind: str, name: str, *, reason: str = "", count: int | None = None) -> None:
        now = now_ns()
        self._recorder.event(
            kind, name=name, reason=reason, start_ns=now, end_ns=now, source=user_line(),
            count=count,
        )  # fmt: skip


_POSITION_OF_INPUTS = 5


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in getattr(optimizer, "param_groups", ()):
        yield from group["params"]


class _Found:
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


class _Graph:
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
        _check_plain(self.leaves())

    def leaves(self) -> list[Any]:
        """The tensors in which gradients accumulate."""
        return [leaf for node in self._after if (leaf := _leaf(node)) is not None]

    def judge(self, owned: set[int], spared: set[int]) -> _Found:
        """The nodes that lead to no owned leaf.

        Args:
            owned: Ids of the parameters of optimizers.
            spared: Ids of other leaves whose gradients may be used.
        """
        found, needed = _Found(), set()
        for node in self._after:
            leaf = _leaf(node)
            if leaf is None:
                continue
            if id(leaf) in owned or id(leaf) in spared or not _is_plain(leaf):
                needed.add(node)
            else:
                found.unowned.append(leaf)
        if not any(id(_leaf(node)) in owned for node in needed):
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

    def _sort(self, found: _Found, needed: set[Node]) -> None:
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


def _check_plain(tensors: Iterable[Any]) -> None:
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


def _copied(parameters: Iterable[Any], leaves: list[Any]) -> set[int]:
    """Ids of leaves of which an optimizer may have a copy, such as one in FP32.

    It has a parameter that is not in the graph: of the same shape and another type, or all of them
    in a row.
    """
    own = {id(leaf) for leaf in leaves}
    others = [p for p in parameters if id(p) not in own]
    shapes = {(p.shape, p.dtype) for p in others}
    longest = max((p.numel() for p in others if p.ndim == 1), default=0)
    spared = set()
    for leaf in leaves:
        same = any(shape == leaf.shape and dtype != leaf.dtype for shape, dtype in shapes)
        in_a_row = leaf.ndim > 1 and longest >= leaf.numel()
        if same or in_a_row:
            spared.add(id(leaf))
    return spared


__all__ = ["GradientWalk"]
