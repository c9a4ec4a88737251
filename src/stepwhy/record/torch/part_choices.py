"""Operations that read a part of a tensor: indices, slices, masks, losses with ignored targets.

Only choices are followed that do not depend on the values of the model: what is chosen by these,
such as the best of some candidates, cannot be left out before it is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.torch import late_numpy as np
from stepwhy.record.torch.part_masks import along, nothing, operand, spread, whole
from stepwhy.record.torch.part_plans import (
    CHOICE,
    DIAGONAL,
    IGNORED,
    PLACE,
    REDUCTION,
    ROWS,
    VIEW,
    Plan,
    axis_of,
    pointwise,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from stepwhy.record.torch.part_masks import Mask
    from stepwhy.record.torch.part_plans import Call, Rule


def _without(
    call: Call, tensor: Any, other: Any, *, is_kept: bool, filling: Any = 0
) -> Plan | None:
    """A tensor of which elements are left out by a mask, where it is zero or where it is not.

    Single elements count only in a loss: in a state they are those of dropout, in scores those of
    attention.
    """
    plan = pointwise(call)
    if plan is None or not other.dim():
        return plan
    is_row = other.shape[-1:] == (1,) != tensor.shape[-1:]
    if not is_row and not (call.is_reduced(tensor) and call.is_zero(filling)):
        return plan
    values = call.look(other)
    if values is None:
        return plan
    kept = (values != 0) == is_kept
    if kept.all() or not kept.any():  # a weight that is zero now may not be so later
        return plan
    place = next(n for n, one in enumerate(call.tensors) if one is tensor)
    shape, before = tuple(tensor.shape), plan.back

    def back(live: Mask) -> list[Mask]:
        found = before(live)
        found[place] = operand(live & kept.reshape((1,) * (live.ndim - kept.ndim) + kept.shape),
                               shape)  # fmt: skip
        return found

    return plan._replace(back=back, how=IGNORED)


def _product(call: Call) -> Plan | None:
    """A loss, or a state, that is multiplied by a mask."""
    if len(call.tensors) == 2:
        for tensor, other in (call.tensors, call.tensors[::-1]):
            if not call.is_reduced(other):
                plan = _without(call, tensor, other, is_kept=True)
                if plan is not None and plan.how:
                    return plan
    return pointwise(call)


def _masked_fill(call: Call) -> Plan | None:
    named = call.named
    return _without(call, named["self"], named["mask"], is_kept=False, filling=named["value"])


def _where(call: Call) -> Plan | None:
    tensor = call.named.get("self")
    if tensor is None or not hasattr(tensor, "dim"):
        return pointwise(call)
    condition, other = call.named["condition"], call.named["other"]
    return _without(call, tensor, condition, is_kept=True, filling=other)


def _nll_loss(call: Call) -> Plan | None:
    """The negative log-likelihood, whose targets may be ignored."""
    first, ignored = call.named["self"], call.named.get("ignore_index", -100)
    values = call.look(call.named["target"])
    if values is None:
        return None
    kept = values != ignored
    shape = tuple(first.shape)
    is_flat = first.dim() <= 2
    is_each = not call.named.get("reduction", 1)

    def back(live: Mask) -> list[Mask]:
        read = kept & live if is_each else kept
        return [np.expand_dims(read, -1 if is_flat else 1) if len(shape) > 1 else whole(shape)]

    return Plan([first], back, REDUCTION, "" if kept.all() else IGNORED, reduces=True)


def _place_in(call: Call) -> Plan | None:
    """`x[i]` and `x[start:end:step]` in one dimension."""
    first, named = call.tensors[0], call.named
    axis = axis_of(named.get("dim", 0), first.dim())
    size = first.shape[axis]
    if "index" in named:
        where = call.look(named["index"])
        if where is None:
            return None
        chosen: Any = slice(where % size, where % size + 1)
    else:
        ends = [call.look(named.get(name)) for name in ("start", "end")]
        if any(end is None and named.get(name) is not None for end, name in zip(
            ends, ("start", "end"), strict=True
        )):  # fmt: skip
            return None
        chosen = slice(ends[0], ends[1], named.get("step", 1))
    is_part = len(range(*chosen.indices(size))) < size
    is_single = "index" in named

    def back(live: Mask) -> list[Mask]:
        kept = np.expand_dims(live, axis) if is_single else live
        if not is_part:
            return [kept]
        full = nothing([*kept.shape[:axis], size, *kept.shape[axis + 1 :]])
        full[(slice(None),) * axis + (chosen,)] = kept
        return [full]

    return Plan([first], back, VIEW, PLACE if is_part else "")


def _read_rows(first: Any, axis: int, rows: Any, is_read: Callable[[Mask], Any]) -> Plan:
    """The rows that an index names, in one dimension, or in several next to each other.

    Args:
        first: The tensor.
        axis: The dimension.
        rows: The index: whole numbers.
        is_read: For each of them, whether a mask of the result reads it.
    """
    shape = [1] * first.dim()
    shape[axis] = first.shape[axis]

    def back(live: Mask) -> list[Mask]:
        found = nothing(shape)
        found[(slice(None),) * axis + (rows[is_read(live)],)] = True
        return [found]

    return Plan([first], back, CHOICE, ROWS)


def _index_select(call: Call) -> Plan | None:
    first, rows = call.named["self"], call.look(call.named["index"])
    if rows is None:
        return None
    axis = axis_of(call.named["dim"], first.dim())

    def is_read(live: Mask) -> Any:
        kept = along(live, [n for n in range(live.ndim) if n != axis]).reshape(-1)
        return np.broadcast_to(kept, rows.shape)

    return _read_rows(first, axis, rows, is_read)


def _embedding(call: Call) -> Plan | None:
    rows = call.look(call.named["indices"])
    if rows is None:
        return None
    return _read_rows(
        call.named["weight"], 0, rows, lambda live: np.broadcast_to(live.any(axis=-1), rows.shape)
    )


def _index(call: Call) -> Plan | None:
    """Indexing with arrays: of whole numbers, or of truth values."""
    first = call.named["self"]
    looked = [(None if one is None else call.look(one)) for one in call.named["indices"]]
    wanted = [one is not None for one in call.named["indices"]]
    if any(w and one is None for w, one in zip(wanted, looked, strict=True)):
        return None
    key: list[Any] = []
    for one in looked:
        if one is None:
            key.append(None)
        elif one.dtype == np.bool_:
            key += np.nonzero(one)
        else:
            key.append(one)
    axes = [axis for axis, one in enumerate(key) if one is not None]
    shape = [first.shape[n] if n in axes else 1 for n in range(first.dim())]
    is_plain = axes == list(range(axes[0], axes[-1] + 1))
    rows = np.broadcast_arrays(*[key[axis] for axis in axes])
    count = rows[0].ndim

    def back(live: Mask) -> list[Mask]:
        found = nothing(shape)
        chosen: Sequence[Any] = rows
        if is_plain:
            others = [n for n in range(live.ndim) if not axes[0] <= n < axes[0] + count]
            read = np.broadcast_to(live.any(axis=tuple(others)), rows[0].shape)
            chosen = [one[read] for one in rows]
        where: list[Any] = [0 if size == 1 else slice(None) for size in shape]
        for axis, one in zip(axes, chosen, strict=True):
            where[axis] = one
        found[tuple(where)] = True
        return [found]

    return Plan([first], back, CHOICE, ROWS)


def _gather(call: Call) -> Plan | None:
    first, index = call.named["self"], call.look(call.named["index"])
    if index is None or index.ndim != first.dim():
        return None
    axis = axis_of(call.named["dim"], first.dim())
    shape = tuple(first.shape)

    def back(live: Mask) -> list[Mask]:
        found = nothing(shape)
        places = list(np.nonzero(spread(live, index.shape)))
        places[axis] = index[tuple(places)]
        found[tuple(places)] = True
        return [found]

    return Plan([first], back, CHOICE, ROWS, reduces=axis == first.dim() - 1)


def _masked_select(call: Call) -> Plan | None:
    first, mask = call.named["self"], call.look(call.named["mask"])
    if mask is None or tuple(first.shape) != mask.shape:
        return None
    return Plan([first], lambda _: [mask != 0], CHOICE, ROWS, reduces=True)


def _diagonal(call: Call) -> Plan:
    first, offset = call.tensors[0], call.named.get("offset", 0)
    one, two = (axis_of(call.named.get(n, d), first.dim()) for n, d in (("dim1", 0), ("dim2", 1)))
    count = call.shape[-1] if call.shape else min(first.shape)
    full = tuple(first.shape)

    def back(live: Mask) -> list[Mask]:
        sizes = [size if axis in {one, two} else 1 for axis, size in enumerate(full)]
        others = [axis for axis in range(len(full)) if axis not in {one, two}]
        for axis, size in zip(others, live.shape[:-1] if live.ndim else (), strict=True):
            sizes[axis] = size
        found = nothing(sizes)
        moved = np.moveaxis(found, (one, two), (-2, -1))
        at = np.arange(count)
        moved[..., at + max(-offset, 0), at + max(offset, 0)] = live
        return [found]

    return Plan([first], back, VIEW, DIAGONAL)


CHOICES: dict[str, Rule] = {
    "mul": _product,
    "mul_": _product,
    "masked_fill": _masked_fill,
    "masked_fill_": _masked_fill,
    "where": _where,
    "nll_loss_forward": _nll_loss,
    "nll_loss2d_forward": _nll_loss,
    "select": _place_in,
    "slice": _place_in,
    "index": _index,
    "index_select": _index_select,
    "embedding": _embedding,
    "gather": _gather,
    "masked_select": _masked_select,
    "diagonal": _diagonal,
    "trace": _diagonal,
}
"""Rules by the name of the operation, without its namespace."""
