"""Which part of the result of each operation of a step is read.

Values are followed through the operations of the forward pass, in reverse: what of a result nothing
reads, nothing needs of what it is computed from. The backward pass mirrors this, since gradients
are zero where the loss reads nothing; its operations belong to those of the forward pass that have
made their graph node. A value counts as read in whole wherever that is not certain: by operations
without a rule, by the host, through other views of a storage that is written, or by later steps.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.record.core.user_code import user_line
from stepwhy.record.torch import late_numpy as np
from stepwhy.record.torch.part_judgement import judged
from stepwhy.record.torch.part_plans import CHOICE, PRODUCT, REDUCTION, VIEW, Call
from stepwhy.record.torch.part_rules import SPLITS, rule_of
from stepwhy.record.torch.part_values import Op, Value
from stepwhy.record.torch.provenance import STATE
from stepwhy.record.torch.result_use import LIKE

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from stepwhy.record.torch.part_plans import Plan, Rule
    from stepwhy.record.torch.part_values import Unused
    from stepwhy.record.torch.provenance import Provenance, Storage

    _Key = tuple[int, tuple[int, ...], tuple[int, ...]]
    _Tensors = Sequence[tuple[Any, Storage]]

# Elements of an operand or a result: calls on fewer take as long with a part of them.
_LEAST_WORK = 16_384
# Elements of an index or a mask.
_MOST_CHOSEN = 1 << 24


class _Kind:
    """What is the same in all calls of an operation."""

    __slots__ = ("arguments", "is_like", "name", "rule", "writes")

    def __init__(self, func: Any) -> None:
        from torch import Tag

        whole_name = func.name().partition(".")[0]
        space, _, self.name = whole_name.partition("::")
        arguments = func._schema.arguments
        written = [one.name for one in arguments if one.alias_info and one.alias_info.is_write]
        self.arguments = [one.name for one in arguments]
        self.writes = bool(written)
        self.is_like = whole_name.startswith(LIKE)
        self.rule: Rule | None = None
        # Of those that write, only what writes its first argument alone is followed.
        if space == "aten" and written in ([], ["self"]):
            self.rule = rule_of(self.name, is_pointwise=Tag.pointwise in func.tags)


class PartUse:
    """Follows which parts of results are read.

    Args:
        origins: The storages of the step.

    Attributes:
        is_known: Whether all operations were followed so far.
    """

    def __init__(self, origins: Provenance) -> None:
        import torch

        self.is_known = True
        self._origins = origins
        self._tensor = torch.Tensor
        core: Any = torch._C
        self._node: Any = getattr(core, "_current_autograd_node", lambda: None)
        self._next_node: Any = getattr(core._autograd, "_get_sequence_nr", lambda: 0)
        self._records: Any = torch.is_grad_enabled
        self._kinds: dict[Any, _Kind] = {}
        self._values: dict[Storage, dict[_Key, Value]] = {}
        self._ops: list[Op] = []
        self._count = 0
        self._nodes: dict[int, int] = {}
        self._backward: list[tuple[int, int]] = []

    def note(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        read: _Tensors,
        made: _Tensors,
        *,
        in_backward: bool,
    ) -> None:
        """Note an operation that has returned; never raises.

        Args:
            func: The operation.
            args: Its arguments.
            kwargs: Its keyword arguments.
            read: The tensors among these, with their storages.
            made: The tensors that it has returned, likewise.
            in_backward: Whether a backward pass runs it.
        """
        self._count += 1
        if not self.is_known:
            return
        try:
            if in_backward:
                self._note_backward(read)
            else:
                self._note_forward(func, args, kwargs, read, made)
        except Exception:
            self.is_known = False

    def read(self, tensor: Any) -> None:
        """Something reads a tensor without an operation."""
        known = self._origins.known(tensor) if isinstance(tensor, self._tensor) else None
        for value in self._values.get(known, {}).values() if known is not None else ():
            value.is_whole = True

    def unused(self, later: Container[int] = ()) -> Unused | None:
        """What of the results nothing reads; None if that is not known.

        Args:
            later: Numbers of the storages that later steps read, or may read.
        """
        if not self.is_known:
            return None
        for known in self._values.values():
            for value in known.values():
                value.forget()
        backward = [
            (place, self._nodes[node]) for place, node in self._backward if node in self._nodes
        ]
        try:
            return judged(self._ops, self._count, backward, later)
        except Exception:
            self.is_known = False
            return None

    def _note_backward(self, read: _Tensors) -> None:
        number = getattr(self._node(), "_sequence_nr", None)
        if number is not None:
            self._backward.append((self._count - 1, number()))
        if self._records():  # what is differentiated again, or a forward pass that is run again
            for tensor, storage in read:
                self._read_whole(tensor, storage)

    def _note_forward(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        read: _Tensors,
        made: _Tensors,
    ) -> None:
        self._nodes.setdefault(self._next_node() - 1, self._count - 1)
        kind = self._kinds.get(func)
        if kind is None:
            kind = self._kinds[func] = _Kind(func)
        if kind.is_like:
            read = ()
        named = dict(zip(kind.arguments, args, strict=False)) | dict(kwargs)
        if kind.name in SPLITS and made:
            self._add_split(read[0], made, named.get("dim", 0))
            return
        plan = None
        if kind.rule is not None and read and made:
            call = Call(
                named,
                [tensor for tensor, _ in read],
                tuple(made[0][0].shape),
                self._look,
                self._is_reduced,
                self._is_zero,
            )
            plan = _planned(kind.rule, call)
        self._add(kind.name, plan, read, made, writes=kind.writes)

    def _add(
        self, name: str, plan: Plan | None, read: _Tensors, made: _Tensors, *, writes: bool
    ) -> None:
        """Add an operation and what it makes, and note what it reads in whole."""
        known = {id(tensor): storage for tensor, storage in read}
        followed = [] if plan is None else plan.inputs
        inputs = [self._value(tensor, known.get(id(tensor))) for tensor in followed]
        partly = {id(tensor) for tensor in followed}
        for tensor, storage in read:
            if id(tensor) not in partly:
                self._read_whole(tensor, storage)
        for tensor, storage in read[: 1 if plan is not None else None] if writes else ():
            self._forget(tensor, storage)
        like = _Likeness(
            plan,
            inputs,
            of_table=self._is_of_table(plan, inputs, known, made),
            is_view=plan is not None and plan.kind == VIEW,
        )
        outputs = [
            one for tensor, storage in made if (one := self._new(tensor, storage, like)) is not None
        ]
        if outputs:
            self._ops.append(self._op(name, plan, inputs, outputs, read, made))

    def _op(  # noqa: PLR0917 - of `_add`
        self,
        name: str,
        plan: Plan | None,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value],
        read: _Tensors,
        made: _Tensors,
    ) -> Op:
        shapes = [tuple(tensor.shape) for tensor, _ in (*read, *made)]
        sizes = [prod(tensor.shape) for tensor, _ in made]
        if plan is not None and plan.kind != CHOICE:
            sizes.append(prod(plan.inputs[0].shape))
        work = max(sizes)
        chooses = plan is not None and bool(plan.how)
        line = user_line() if work >= _LEAST_WORK or chooses else ""
        group = None
        if work >= _LEAST_WORK:
            group = (line, name, tuple([shape[-1:] for shape in shapes]))
        kept = None if plan is None else plan._replace(inputs=())  # keeps no tensor alive
        return Op(self._count - 1, inputs, outputs, kept, -1, line, group, work)

    def _add_split(self, read: tuple[Any, Storage], made: _Tensors, dim: int) -> None:
        """Add an operation that takes a tensor apart."""
        value = self._value(*read)
        like = _Likeness(None, (), of_table=False, is_view=True)
        outputs = [self._new(tensor, storage, like) for tensor, storage in made]
        kept = [one for one in outputs if one is not None]
        if value is None:
            return
        if len(kept) < len(made):
            value.is_whole = True
        else:
            axis = dim % len(value.shape)
            self._ops.append(Op(self._count - 1, [value], kept, None, axis, user_line()))

    def _look(self, value: Any) -> Any:
        """Values of an argument, see `Call`."""
        if not isinstance(value, self._tensor):
            return None if value is None or self._origins.of_scalar(value) & STATE else value
        if value.numel() > _MOST_CHOSEN or self._origins.of(value) & STATE:
            return None
        plain = value.detach()
        return np.array((plain != 0 if plain.is_floating_point() else plain).cpu().numpy())

    def _is_reduced(self, tensor: Any) -> bool:
        value = self._value(tensor, self._origins.known(tensor))
        return value is not None and value.is_reduced

    def _is_zero(self, value: Any) -> bool:
        if not isinstance(value, self._tensor):
            return bool(value == 0)
        return value.numel() <= _MOST_CHOSEN and not value.detach().any().item()

    def _is_of_table(
        self,
        plan: Plan | None,
        inputs: Sequence[Value | None],
        known: Mapping[int, Storage],
        made: _Tensors,
    ) -> bool:
        """Whether the rows of what is made are made of those of a parameter."""
        if plan is None or plan.kind == CHOICE or not inputs or not made[0][0].dim():
            return False
        first, value = plan.inputs[0], inputs[0]
        if first.dim() <= 1 or first.shape[0] != made[0][0].shape[0]:
            return False
        if value is not None:
            return value.of_table
        storage = known.get(id(first))
        return storage is not None and storage.is_outside and bool(storage.origins & STATE)

    def _value(self, tensor: Any, storage: Storage | None) -> Value | None:
        """The value of a tensor; None if it is from before the step, or not followed."""
        known = self._values.get(storage) if storage is not None else None
        if known is None:
            return None
        found = known.get(_key(tensor))
        if found is None:  # a view of something that was written since
            for value in known.values():
                value.is_whole = True
        return found

    def _read_whole(self, tensor: Any, storage: Storage) -> None:
        value = self._value(tensor, storage)
        if value is not None:
            value.is_whole = True

    def _forget(self, tensor: Any, storage: Storage) -> None:
        """A tensor is written: what else shows its storage has other values from now on."""
        known = self._values.get(storage)
        if known is None:
            return
        is_all = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
        own = _key(tensor)
        for key, value in known.items():
            if not is_all or key != own:
                value.is_whole = True
        known.clear()

    def _new(self, tensor: Any, storage: Storage, like: _Likeness) -> Value | None:
        """The value of what was returned; None if it is not followed, or the same as before."""
        known = self._values.get(storage)
        if known is None:
            if storage.is_outside:
                return None
            known = self._values[storage] = {}
        key = _key(tensor)
        if key in known:
            return None
        if not like.is_view:
            for value in known.values():
                value.is_whole = True
        shape = tuple(tensor.shape)
        known[key] = value = Value(
            storage, shape, is_reduced=like.is_reduced(shape), of_table=like.of_table
        )
        return value


class _Likeness(NamedTuple):
    """What values have in common that one operation makes."""

    plan: Plan | None
    inputs: Sequence[Value | None]
    of_table: bool
    is_view: bool

    def is_reduced(self, shape: tuple[int, ...]) -> bool:
        """Whether a value of a shape has one number for each row."""
        if self.plan is None or self.plan.reduces:
            return self.plan is not None
        if self.plan.kind in {PRODUCT, REDUCTION}:
            return False
        known = [one for one in self.inputs if one is not None and one.is_reduced]
        return bool(known) and (
            self.plan.kind in {VIEW, CHOICE} or any(one.shape == shape for one in known)
        )


def _key(tensor: Any) -> _Key:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride()


def _planned(rule: Rule, call: Call) -> Plan | None:
    """The plan of a call; None for one that the rule does not expect."""
    try:
        return rule(call)
    except (LookupError, ValueError, TypeError, AttributeError, StopIteration):
        return None
