"""Find the nodes of a backward pass that lead to no parameter of an optimizer that uses it.

The graph of one loss is walked once, before its backward pass in the first kept step of a window,
3 µs per node. What was found is logged as events: the sequence numbers of the nodes, by which the
profiler's records show their time, and the parameters that no optimizer has, or whose gradients
are cleared before their optimizer uses them. Both only count if the program does not read these
gradients itself: until they are cleared, or in some later steps, as an update by hand may come once
in several.
"""

from __future__ import annotations

import contextlib
import weakref
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled
from stepwhy.record.core.user_code import user_line
from stepwhy.record.torch.dropped_gradients import DroppedGradients, Notes
from stepwhy.record.torch.function_modes import hidden_from_modes
from stepwhy.record.torch.gradient_graph import Graph, RefusedError, check_plain
from stepwhy.record.torch.gradient_reads import GradientReads
from stepwhy.record.torch.module_names import Named, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.torch.gradient_graph import Found

# Backward passes of the step, such as those of a generator and of its critic.
_MOST_PASSES = 8
# Backward passes of later steps until which the program may read gradients that are not cleared.
_LATER_PASSES = 16


class _Unread(NamedTuple):
    """A pass that reaches parameters which no optimizer has, if the program does not read those."""

    leaves: list[weakref.ref[Any]]
    notes: Notes


class GradientWalk:
    """The walks of one process.

    Args:
        recorder: Writes the events.

    Attributes:
        is_due: Whether the next backward pass is walked.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # No `WeakSet`: Dynamo compiles what that calls while a compiled function collects garbage.
        self._optimizers: list[weakref.ref[Any]] = []
        self.is_due = False
        self._left = self._checks = 0
        self._unowned: list[weakref.ref[Any]] = []
        self._undecided = DroppedGradients()
        self._dropped: list[weakref.ref[Any]] = []
        self._reads = GradientReads()
        self._unread: list[_Unread] = []
        self._names: list[Named] = []
        self._later = 0

    @never_compiled
    def know(self, optimizer: Any) -> None:
        """Remember an optimizer, without keeping it alive; never raises."""
        with contextlib.suppress(Exception):
            others = [one for one in self._known() if one is not optimizer]
            self._optimizers = [weakref.ref(one) for one in (*others, optimizer)]

    def _known(self) -> list[Any]:
        """The remembered optimizers that are still there."""
        return [one for known in self._optimizers if (one := known()) is not None]

    @never_compiled
    def stepped(self, optimizer: Any) -> None:
        """An optimizer has taken a step while passes are walked; never raises."""
        with contextlib.suppress(Exception):
            self._undecided.used(optimizer)

    def begin(self) -> None:
        """The step begins in which passes are walked."""
        self.forget()
        self.is_due, self._left, self._checks = True, _MOST_PASSES, _MOST_PASSES

    def end(self) -> None:
        """The step has ended; passes of later ones show what has become of its gradients."""
        self._left = 0
        self.is_due = self._may_settle

    def forget(self) -> None:
        """Forget what was walked."""
        self.is_due, self._left, self._later = False, 0, 0
        self._unowned, self._dropped, self._unread, self._names = [], [], [], []
        self._undecided.forget()
        self._reads.end()

    def finish(self) -> None:
        """No further pass comes: log what is not decided yet; never raises."""
        with contextlib.suppress(Exception):
            self._left, self._later = 0, _LATER_PASSES
            self._settle_unread()
        self.forget()

    @never_compiled
    def report(self) -> None:
        """Log which modules have parameters that no optimizer has, after the window; never raises.

        Finding the modules takes tens of milliseconds, so it waits until no step is recorded. Those
        of whose gradients it is not known yet whether the program reads them are logged later.
        """
        with contextlib.suppress(Exception), hidden_from_modes():
            unread = chain.from_iterable(one.leaves for one in self._unread)
            self._names = _named([*self._unowned, *unread])
            self._unowned = []
            if not self._unread:
                self._log_names()
            for one in _named(self._dropped):
                self._log(
                    "dropped-parameters", one.name, reason=str(one.parameters), count=one.elements
                )
            self._dropped = []

    def _log_names(self) -> None:
        for one in self._names:
            self._log(
                "unowned-parameters", one.name, reason=str(one.parameters), count=one.elements
            )
            if one.line:
                self._log("unowned-call", one.name, source=one.line)
        self._names = []

    @never_compiled
    def walk(self, *args: Any, **kwargs: Any) -> None:
        """Walk the graph that `torch.autograd.backward` is called with; never raises."""
        is_walked = self._left > 0
        self._left, self._checks = self._left - is_walked, self._checks - (not is_walked)
        self._later += not is_walked
        try:
            with hidden_from_modes():
                self._settle()
                self._settle_unread()
                if is_walked:
                    self._walk(args, kwargs)
        except Exception as error:
            reason = str(error) if isinstance(error, RefusedError) else type(error).__name__
            with contextlib.suppress(Exception):
                self._log("gradient-walk", "", reason=reason)
        self.is_due = self._left > 0 or self._may_settle
        if not (self._unread or self._undecided) or not self.is_due:
            self._reads.end()

    @property
    def _may_settle(self) -> bool:
        """Whether a further pass may show what has become of the gradients of an earlier one."""
        return bool(self._unread) or (self._checks > 0 and bool(self._undecided))

    def _settle(self) -> None:
        """Log the passes whose gradients were cleared before anything used them."""
        self._undecided.read(self._reads.any_of)
        for leaves, notes in self._undecided.settled():
            self._log_notes(notes)
            self._dropped += leaves

    def _settle_unread(self) -> None:
        """Log the passes of which it is known whether the program reads their gradients.

        Raises:
            RefusedError: That can no longer be observed.
        """
        waiting, self._unread = self._unread, []
        reason = self._reads.obstacle(()) if waiting else ""
        if reason:
            self._names = []
            raise RefusedError(reason)
        for one in waiting:
            if self._reads.any_of(one.leaves):
                self._names = []  # some of them
                self._log_notes(one.notes.but_unused(""))
            elif self._later >= _LATER_PASSES:
                self._log_notes(one.notes)
                self._unowned += one.leaves
            else:
                self._unread.append(one)
        self._reads.forget()
        if not self._unread:
            self._log_names()

    def _drops(
        self, graph: Graph, owned: set[int], spared: set[int], known: Found
    ) -> Iterator[tuple[Any, list[Any], str, str]]:
        """What would be unused if the gradients for an optimizer are dropped.

        If it has all parameters of the graph, only the gradient of an input is needed then.

        Yields:
            The optimizer, its parameters in the graph, the nodes that lead only to these, and those
            of which one product does.
        """
        leaves = {id(leaf): leaf for leaf in graph.leaves()}
        for optimizer in self._known():
            own = {id(p) for p in _parameters_of(optimizer)} & leaves.keys() & owned
            if not own:
                continue
            is_whole = own == leaves.keys() & owned
            inputs = {key for key, leaf in leaves.items() if not _is_parameter(leaf)}
            if is_whole and (spared or not inputs or inputs & owned):
                continue
            found = graph.judge(owned - own, spared)
            # Not half of a product: a critic that passes a gradient on has to run.
            if found.half if is_whole else found.products > known.products:
                half = found.text(found.half) if is_whole else ""
                yield optimizer, [leaves[k] for k in own], found.text(found.unused), half

    def _watch(self, leaves: list[Any]) -> None:
        """Watch whether the program reads the gradients of some leaves.

        Raises:
            RefusedError: That cannot be observed.
        """
        if not leaves:
            return
        reason = self._reads.obstacle(leaves)
        if reason:
            raise RefusedError(reason)
        self._reads.watch(leaves)

    def _walk(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        roots = args[0] if args else kwargs.get("tensors", ())
        # With `inputs`, the engine runs only the nodes that lead to them.
        if kwargs.get("inputs") is not None or len(args) > _POSITION_OF_INPUTS:
            return
        parameters = [p for one in self._known() for p in _parameters_of(one)]
        if not parameters:
            raise RefusedError("no optimizer of torch.optim has parameters")
        roots = roots if isinstance(roots, (tuple, list)) else (roots,)
        check_plain(chain(roots, parameters))
        graph = Graph(roots)
        owned, spared = {id(p) for p in parameters}, _copied(parameters, graph.leaves())
        found = graph.judge(owned, spared)
        drops = list(self._drops(graph, owned, spared, found))
        self._watch([*found.unowned, *chain.from_iterable(own for _, own, *_ in drops)])
        notes = Notes(
            now_ns(), user_line(), graph.size, found.text(found.unused), found.text(found.half)
        )
        if found.unowned:
            self._unread.append(_Unread([weakref.ref(leaf) for leaf in found.unowned], notes))
        else:
            self._log_notes(notes)
        for optimizer, own, unused, half in drops:
            self._undecided.add(optimizer, own, notes._replace(unused=unused, half=half))

    def _log_notes(self, notes: Notes) -> None:
        self._recorder.event(
            "gradient-walk", name=notes.unused, reason=notes.half, start_ns=notes.start_ns,
            end_ns=notes.start_ns, source=notes.line, count=notes.nodes,
        )  # fmt: skip

    def _log_module(self, kind: str, one: Named) -> None:
        self._log(kind, one.name, reason=str(one.parameters), count=one.elements)

    def _log(
        self, kind: str, name: str, *, reason: str = "", count: int | None = None, source: str = ""
    ) -> None:
        now = now_ns()
        self._recorder.event(
            kind, name=name, reason=reason, start_ns=now, end_ns=now,
            source=source or user_line(), count=count,
        )  # fmt: skip


_POSITION_OF_INPUTS = 5


def _named(refs: list[weakref.ref[Any]]) -> list[Named]:
    """The modules that have some parameters."""
    leaves = {id(leaf): leaf for ref in refs if (leaf := ref()) is not None}
    return named(list(leaves.values()))


def _is_parameter(leaf: Any) -> bool:
    from torch.nn import Parameter

    return isinstance(leaf, Parameter)


def _parameters_of(optimizer: Any) -> Iterator[Any]:
    for group in getattr(optimizer, "param_groups", ()):
        yield from group["params"]


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
