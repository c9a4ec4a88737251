"""Which part of its arguments an operation reads, if only a part of its result is read.

Rows of a product are computed from rows of its first factor, an element of a sum from the elements
at its place, and an index reads the rows that it names. What has no rule here reads everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.torch import late_numpy as np
from stepwhy.record.torch.part_choices import CHOICES
from stepwhy.record.torch.part_masks import along, operand, reshaped, whole
from stepwhy.record.torch.part_plans import (
    POINTWISE,
    PRODUCT,
    REDUCTION,
    VIEW,
    Plan,
    axis_of,
    pointwise,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepwhy.record.torch.part_masks import Mask
    from stepwhy.record.torch.part_plans import Call, Rule


def _like_first(call: Call) -> Plan | None:
    """An operation by elements of its first argument alone."""
    first = call.tensors[0]
    return Plan([first], lambda live: [live], POINTWISE) if first.shape == call.shape else None


def _elements_of_loss(call: Call) -> Plan | None:
    """A loss by elements, unless it is reduced to a number."""
    return None if call.named.get("reduction", 1) else pointwise(call)


def _over(count: Callable[[Call], Sequence[int]]) -> Rule:
    """An operation on all along some dimensions, which it keeps."""

    def rule(call: Call) -> Plan:
        first = call.tensors[0]
        axes = [axis_of(dim, first.dim()) for dim in count(call)]
        return Plan([first], lambda live: [along(live, axes)], REDUCTION)

    return rule


def _reduction(call: Call) -> Plan | None:
    """A reduction of some dimensions."""
    first, dims = call.tensors[0], call.named.get("dim")
    if dims is None or dims == [] or not first.dim():
        return None
    axes = sorted(
        {axis_of(dim, first.dim()) for dim in ([dims] if isinstance(dims, int) else dims)}
    )
    keeps = bool(call.named.get("keepdim"))
    last = first.dim() - 1

    def back(live: Mask) -> list[Mask]:
        return [along(live, axes) if keeps else np.expand_dims(live, tuple(axes))]

    return Plan([first], back, REDUCTION, reduces=last in axes)


def _matmul(first: str, second: str) -> Rule:
    """A product of matrices, of which rows or columns are read."""

    def rule(call: Call) -> Plan:
        a, b = call.named[first], call.named[second]
        added = call.named.get("self") if first != "self" else None
        extra = [added] if added is not None else []
        extra_shapes = [tuple(one.shape) for one in extra]

        def back(live: Mask) -> list[Mask]:
            return [
                along(live, [live.ndim - 1]),
                along(live, [live.ndim - 2]),
                *[operand(live, shape) for shape in extra_shapes],
            ]

        return Plan([a, b, *extra], back, PRODUCT)

    return rule


def _distances(call: Call) -> Plan:
    """Distances of each row of a matrix from each row of another one."""

    def back(live: Mask) -> list[Mask]:
        columns = along(live, [live.ndim - 2])
        return [along(live, [live.ndim - 1]), columns.swapaxes(-1, -2)]

    return Plan([call.named["x1"], call.named["x2"]], back, PRODUCT)


def _linear(call: Call) -> Plan:
    first = call.named["input"]
    return Plan([first], lambda live: [along(live, [live.ndim - 1])], PRODUCT)


def _attention(call: Call) -> Plan:
    """Attention: one row of the result for each query."""
    query, key, value = (call.named[name] for name in ("query", "key", "value"))
    shapes = [tuple(one.shape) for one in (key, value)]
    is_same = all(shape[:-2] == tuple(query.shape[:-2]) for shape in shapes)

    def back(live: Mask) -> list[Mask]:
        heads = along(live, [live.ndim - 2, live.ndim - 1])
        rest = [heads if is_same else whole(shape) for shape in shapes]
        return [along(live, [live.ndim - 1]), *rest]

    return Plan([query, key, value], back, PRODUCT)


def _by_example(call: Call) -> Plan:
    """An operation on each example of a batch."""
    first = call.tensors[0]
    ndim = first.dim()

    def back(live: Mask) -> list[Mask]:
        rows = along(live, range(1, live.ndim))
        return [rows.reshape(len(rows), *[1] * (ndim - 1))]

    return Plan([first], back, REDUCTION)


def _convolution(call: Call) -> Plan:
    """As `_by_example`, but each element of the result is computed by itself."""
    return _by_example(call)._replace(kind=POINTWISE)


def _view(call: Call) -> Plan:
    first, shape = call.tensors[0], call.shape
    old = tuple(first.shape)
    return Plan([first], lambda live: [reshaped(live, shape, old)], VIEW,
                reduces=bool(old) and old[-1] == 1 and len(shape) < len(old))  # fmt: skip


def _permuted(order: Callable[[Call], Sequence[int]]) -> Rule:
    def rule(call: Call) -> Plan:
        first = call.tensors[0]
        inverse = np.argsort([axis_of(dim, first.dim()) for dim in order(call)])
        return Plan([first], lambda live: [live.transpose(inverse)], VIEW)

    return rule


def _swapped(call: Call) -> list[int]:
    ndim = call.tensors[0].dim()
    order = list(range(ndim))
    a, b = call.named.get("dim0", 0), call.named.get("dim1", ndim - 1)
    if ndim:
        order[a], order[b] = order[b], order[a]
    return order


def _expanded(call: Call) -> Plan:
    first = call.tensors[0]
    shape = tuple(first.shape)
    return Plan([first], lambda live: [operand(live, shape)], VIEW)


def _cat(call: Call) -> Plan:
    inputs = list(call.tensors)
    axis = axis_of(call.named.get("dim", 0), len(call.shape))
    bounds = np.cumsum([one.shape[axis] for one in inputs])[:-1]
    shapes = [tuple(one.shape) for one in inputs]

    def back(live: Mask) -> list[Mask]:
        if live.shape[axis] == 1:
            return [live for _ in shapes]
        found: list[Mask] = np.split(live, bounds, axis)
        return found

    return Plan(inputs, back, POINTWISE)


def _stack(call: Call) -> Plan:
    inputs = list(call.tensors)
    axis, count = axis_of(call.named.get("dim", 0), len(call.shape)), len(inputs)

    def back(live: Mask) -> list[Mask]:
        last = live.shape[axis] - 1
        return [live.take(min(n, last), axis) for n in range(count)]

    return Plan(inputs, back, POINTWISE)


def _last_dims(call: Call) -> Sequence[int]:
    shape = call.named["normalized_shape"]
    return range(-len(shape), 0)


_along_dim = _over(lambda call: [call.named["dim"]])
_along_last = _over(_last_dims)
RULES: dict[str, Rule] = {
    **CHOICES,
    "native_dropout": _like_first, "_to_copy": _like_first, "log_sigmoid_forward": _like_first,
    "mse_loss": _elements_of_loss, "smooth_l1_loss": _elements_of_loss,
    "huber_loss": _elements_of_loss, "binary_cross_entropy": _elements_of_loss,
    "binary_cross_entropy_with_logits": _elements_of_loss,
    "_softmax": _along_dim, "_log_softmax": _along_dim, "cumsum": _along_dim,
    "sort": _along_dim, "topk": _over(lambda call: [call.named.get("dim", -1)]),
    "native_layer_norm": _along_last, "_fused_rms_norm": _along_last,
    "mm": _matmul("self", "mat2"), "bmm": _matmul("self", "mat2"),
    "addmm": _matmul("mat1", "mat2"), "baddbmm": _matmul("batch1", "batch2"),
    "linear": _linear, "_cdist_forward": _distances, "_euclidean_dist": _distances,
    "t": _permuted(_swapped), "transpose": _permuted(_swapped),
    "permute": _permuted(lambda call: call.named["dims"]),
    "expand": _expanded,
    "cat": _cat, "stack": _stack,
    "convolution": _convolution, "mkldnn_convolution": _convolution,
    **dict.fromkeys(
        ("view", "_unsafe_view", "_reshape_alias", "squeeze", "unsqueeze", "detach", "alias"), _view
    ),
    **dict.fromkeys(
        ("sum", "mean", "amax", "amin", "argmax", "argmin", "max", "min", "var", "std", "prod",
         "any", "all", "logsumexp", "linalg_vector_norm", "norm"), _reduction
    ),
    **dict.fromkeys(
        ("max_pool2d_with_indices", "avg_pool2d",
         "_adaptive_avg_pool2d", "native_group_norm", "upsample_nearest2d", "upsample_bilinear2d"),
        _by_example,
    ),
}  # fmt: skip
"""Rules by the name of the operation, without its namespace."""
SPLITS = frozenset({"split", "split_with_sizes", "unbind"})
"""They return parts that together are all of their first argument."""


def rule_of(name: str, *, is_pointwise: bool) -> Rule | None:
    """The rule of an operation; None if it reads everything.

    Args:
        name: Without its namespace.
        is_pointwise: Whether PyTorch says that it works by elements.
    """
    if name.startswith("_scaled_dot_product"):
        return _attention
    return RULES.get(name) or (pointwise if is_pointwise else None)
