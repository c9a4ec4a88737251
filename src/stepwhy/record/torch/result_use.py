"""Which operations of a step compute something that the step, or a later one, needs.

Results are followed from one storage to the next. Needed is what is written into a tensor from
before the step, such as a parameter or a running mean, what the host reads, what a backward pass
begins with or leaves behind, and what those are computed from. All writes into a storage count
that is read at any time after them, so that some operations may be taken for needed by mistake.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.user_code import user_file
from stepwhy.record.torch.provenance import NEW, OUTSIDE

if TYPE_CHECKING:
    import weakref
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
    from types import FrameType
    from typing import Any

    from stepwhy.record.torch.provenance import Provenance, Storage

NEEDED, UNREAD, WEIGHTED_BY_ZERO = 0, 1, 2
"""Of the result of an operation; the last: all that comes of it is multiplied by zero."""

_OF_PYTORCH = ("aten::", "prims::", "prim::")
LIKE = (
    "aten::empty", "aten::zeros", "aten::ones", "aten::full", "aten::rand", "aten::new_",
)  # fmt: skip
"""Beginnings of the names of operations that read the shape of a tensor alone."""
_UNWRITTEN = ("aten::empty", "aten::new_empty")
# A tensor gets another storage.
_REPLACES = frozenset({"aten::set_", "aten::resize_", "aten::resize_as_"})
# Their schemas do not say that they write the running mean and variance, the arguments 3 and 4.
_BATCH_NORMS = frozenset(
    {"aten::native_batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"}
)
_STATISTICS = (3, 4)
_TRAINING = 5  # the argument that says whether they do
_INDEX = "aten::index"
# The result is zero if any of the arguments is, if the first is, or if all are.
_PRODUCTS = frozenset({"aten::mul", "aten::mm", "aten::bmm", "aten::mv", "aten::dot"})
_LINEAR = frozenset(
    {
        "aten::sum", "aten::mean", "aten::neg", "aten::div", "aten::clone", "aten::_to_copy",
        "aten::index", "aten::gather", "aten::flip", "aten::repeat", "aten::constant_pad_nd",
    }
)  # fmt: skip
_SUMS = frozenset({"aten::add", "aten::sub", "aten::cat", "aten::stack"})
# Source: `BackwardCFunction.apply` and `once_differentiable`.
_OF_FUNCTIONS = str(Path("torch", "autograd", "function.py"))
_OF_BACKWARD = ("_backward", "_backward_data")


class _Kind:
    """What is the same in all calls of an operation."""

    __slots__ = (
        "is_like", "is_linear", "is_needed", "is_product", "is_unwritten", "may_write", "name",
        "writes",
    )  # fmt: skip

    def __init__(self, func: Any) -> None:
        from torch import Tag

        self.name = name = func.name().partition(".")[0]
        arguments = func._schema.arguments
        self.writes = [
            (place, one.name)
            for place, one in enumerate(arguments)
            if one.alias_info is not None and one.alias_info.is_write
        ]
        self.may_write = bool(self.writes) or name in _BATCH_NORMS
        self.is_product = name in _PRODUCTS
        self.is_linear = name in _LINEAR or name.endswith(_OF_BACKWARD)
        # The host may read how large the result is.
        tells = {Tag.dynamic_output_shape, Tag.data_dependent_output}.intersection(func.tags)
        self.is_needed = (
            (bool(tells) and name != _INDEX)
            or name in _REPLACES
            or not name.startswith(_OF_PYTORCH)
        )
        self.is_like = name.startswith(LIKE)
        self.is_unwritten = name.startswith(_UNWRITTEN)


class _Op(NamedTuple):
    """One operation, by the numbers of storages.

    Args:
        of_engine: Whether a backward pass runs it by itself, not in a function of the program.
    """

    reads: tuple[int, ...]
    zeros: tuple[int, ...]
    writes: tuple[int, ...]
    is_needed: bool
    in_backward: bool
    of_engine: bool
    took_ns: int
    does_work: bool
    is_operation: bool = True


class Waiting(NamedTuple):
    """A storage that something may still read after the step."""

    holder: weakref.ref[Any]
    number: int


class Ended(NamedTuple):
    """What is known when the step has ended.

    Args:
        waiting: Storages that are still there, and whose values the step has not needed.
        share: Share of the time of the operations whose results it has not needed, 0..1.
    """

    waiting: list[Waiting]
    share: float


class ResultUse:
    """Follows the results of the operations of one step.

    Args:
        storages: The storages of the step.

    Attributes:
        is_known: Whether all that reads results was seen so far.
        is_paused: Whether the observer itself reads tensors now, which does not count.
    """

    def __init__(self, storages: Provenance) -> None:
        from torch import Tensor

        self.is_known = True
        self.is_paused = False
        self._storages = storages
        self._tensor = Tensor
        self._kinds: dict[Any, _Kind] = {}
        self._made: list[Storage] = []
        self._last = OUTSIDE
        self._zero: set[int] = set()
        self._unwritten: set[int] = set()
        self._ops: list[_Op] = []
        self._left_behind: set[int] = set()

    def note(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        read: Sequence[Storage],
        made: Sequence[Storage],
        *,
        in_backward: bool,
        took_ns: int,
    ) -> None:
        """Note an operation that has returned.

        Args:
            func: The operation.
            args: Its arguments.
            kwargs: Its keyword arguments.
            read: The storages of these.
            made: The storages of what it has returned.
            in_backward: Whether a backward pass runs it.
            took_ns: Time that it took, on the host.
        """
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _Kind(func)
        reads = () if kind.is_like else tuple([one.number for one in read])
        written = self._written(kind, args, kwargs) if kind.may_write else []
        is_zero = self._is_zero(kind, args, reads)
        fresh = [self._number(one) for one in made if one.number == NEW]
        zeros: tuple[int, ...] = ()
        if self._zero and not self._zero.isdisjoint(reads):
            zeros = tuple([number for number in reads if number in self._zero])
            reads = tuple([number for number in reads if number not in self._zero])
        if self._unwritten or kind.is_unwritten:
            self._check_written(kind, reads, written, fresh, is_view=bool(made) and not fresh)
        writes = (*[self._new_value(one) for one in written], *[one.number for one in made])
        if is_zero:
            self._zero.update(fresh)
        is_needed = (
            kind.is_needed
            or (bool(written) and any(one.is_outside for one in written))
            or bool(reads and not writes)
            or (kind.name == _INDEX and self._has_mask(args))
        )
        does_work = not kind.is_unwritten and bool(written or fresh or not made)
        of_engine = in_backward and not _in_own_backward()
        self._ops.append(
            _Op(reads, zeros, writes, is_needed, in_backward, of_engine, took_ns, does_work)
        )

    def read(self, tensor: Any) -> None:
        """Something reads a tensor without an operation."""
        if self.is_paused:
            return
        if not isinstance(tensor, self._tensor):
            self.is_known = False  # an edge of a graph, from which a backward pass begins
            return
        known = self._storages.known(tensor)
        number = OUTSIDE if known is None else known.number
        # An array has the same memory, and can be written.
        self._unwritten.discard(number)
        is_zero = number in self._zero
        reads, zeros = ((), (number,)) if is_zero else ((number,), ())
        self._ops.append(
            _Op(
                reads,
                zeros,
                (),
                is_needed=True,
                in_backward=False,
                of_engine=False,
                took_ns=0,
                does_work=False,
                is_operation=False,
            )
        )

    def end(self, also: Container[int] = ()) -> Ended:
        """The step has ended, and the next one has not changed anything yet.

        Args:
            also: Numbers of further storages to wait for, if they are still there.
        """
        alive = [Waiting(one.holder, one.number) for one in self._made if one.holder() is not None]
        # What backward passes have made and what is still there: gradients.
        made = {number for op in self._ops if op.in_backward for number in op.writes}
        self._left_behind = {one.number for one in alive if one.number in made}
        needed = self._needed(self._left_behind, zeros=False)
        unneeded = [op for op, is_so in zip(self._ops, needed, strict=True) if not is_so]
        numbers = {number for op in unneeded for number in op.writes}
        whole = sum(op.took_ns for op in self._ops)
        share = sum(op.took_ns for op in unneeded) / whole if whole else 0.0
        waiting = [one for one in alive if one.number in numbers or one.number in also]
        return Ended(waiting, share)

    def share_of(self, shares: Sequence[float]) -> float:
        """Share of the time of all operations that is in some share of each, 0..1."""
        times = [op.took_ns for op in self._ops if op.is_operation]
        spent = sum(took * share for took, share in zip(times, shares, strict=True))
        return spent / whole if (whole := sum(times)) else 0.0

    def judge(self, later: Iterable[int]) -> list[int]:
        """For each operation one of the constants above, after `end`.

        What a backward pass computes for nothing is left to those who know its leaves, unless it is
        multiplied by zero, or a function of the program computes it.

        Args:
            later: Numbers of the storages that later steps read, or may read.
        """
        roots = {*later, *self._left_behind}
        needed = self._needed(roots, zeros=False)
        with_zeros = self._needed(roots, zeros=True)
        return [
            _judgement(op, is_needed=is_needed, needs_zeros=needs_zeros)
            for op, is_needed, needs_zeros in zip(self._ops, needed, with_zeros, strict=True)
            if op.is_operation
        ]

    def _needed(self, roots: set[int], *, zeros: bool) -> list[bool]:
        """Whether each operation is needed.

        Args:
            roots: Storages that are read after the step.
            zeros: Whether what is known to be zero must be computed.
        """
        live, found = set(roots if zeros else roots - self._zero), []
        for op in reversed(self._ops):
            is_needed = op.is_needed or not live.isdisjoint(op.writes)
            found.append(is_needed)
            if is_needed:
                live.update(op.reads)
                live.update(op.zeros if zeros else ())
        return found[::-1]

    def _number(self, storage: Storage) -> int:
        """Give a storage that the operation has made a number."""
        self._last += 1
        storage.number = self._last
        self._made.append(storage)
        return self._last

    def _new_value(self, storage: Storage) -> int:
        """The number of a storage that was written; a new one if it was zero until then."""
        if storage.number in self._zero:
            self._last += 1
            storage.number = self._last
        return storage.number

    def _check_written(
        self,
        kind: _Kind,
        reads: Sequence[int],
        written: Sequence[Storage],
        fresh: Sequence[int],
        *,
        is_view: bool,
    ) -> None:
        """Notice values that no operation has written, so that something unseen has."""
        self._unwritten.difference_update(one.number for one in written)
        if not is_view and not self._unwritten.isdisjoint(reads):
            self.is_known = False
        if kind.is_unwritten:
            self._unwritten.update(fresh)

    def _is_zero(self, kind: _Kind, args: Sequence[Any], reads: Sequence[int]) -> bool:
        """Whether the result of an operation is zero, as a factor of it is."""
        if kind.is_product and any(a.__class__ in {int, float} and a == 0 for a in args):
            return True
        if not self._zero or not reads:
            return False
        if kind.is_product:
            return not self._zero.isdisjoint(reads)
        if kind.is_linear:
            return reads[0] in self._zero
        return kind.name in _SUMS and self._zero.issuperset(reads)

    def _written(
        self, kind: _Kind, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Storage]:
        """The storages that an operation writes into."""
        values = [
            args[place] if place < len(args) else kwargs.get(name) for place, name in kind.writes
        ]
        if kind.name in _BATCH_NORMS and args[_TRAINING]:
            values += [args[place] for place in _STATISTICS]
        return [self._storages.storage(tensor) for tensor in self._tensors(values)]

    def _has_mask(self, args: Sequence[Any]) -> bool:
        """Whether the values of an index say how large the result is."""
        indices = self._tensors(args[1:])
        return any(not t.is_floating_point() and t.element_size() == 1 for t in indices)

    def _tensors(self, values: Iterable[Any]) -> Iterator[Any]:
        """The tensors among values, and in lists of them."""
        for value in values:
            if isinstance(value, self._tensor):
                yield value
            elif isinstance(value, list | tuple):
                yield from self._tensors(value)


def _judgement(op: _Op, *, is_needed: bool, needs_zeros: bool) -> int:
    if is_needed or not op.does_work:
        return NEEDED
    if needs_zeros:
        return WEIGHTED_BY_ZERO
    return NEEDED if op.of_engine else UNREAD


def _in_own_backward() -> bool:
    """Whether the `backward` of an `autograd.Function` of the program runs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not user_file(frame.f_code.co_filename):
        frame = frame.f_back
    # A function of the program that calls `loss.backward()` is called by something else.
    caller = None if frame is None else frame.f_back
    return caller is not None and caller.f_code.co_filename.endswith(_OF_FUNCTIONS)


__all__ = ["LIKE", "NEEDED", "UNREAD", "WEIGHTED_BY_ZERO", "Ended", "ResultUse", "Waiting"]
