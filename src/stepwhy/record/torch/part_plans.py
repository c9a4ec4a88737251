"""How the part of its arguments is described that an operation reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.torch import late_numpy as np
from stepwhy.record.torch.part_masks import operand

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from stepwhy.record.torch.part_masks import Mask

    Back = Callable[[Mask], list[Mask]]
    Look = Callable[[Any], Any]
    Rule = Callable[["Call"], "Plan | None"]

IGNORED, ROWS, PLACE, DIAGONAL = "ignored", "rows", "place", "diagonal"
"""How a part is chosen: by the targets or a mask of a loss, by an index, by its place, or as a
diagonal."""
POINTWISE, VIEW, REDUCTION, PRODUCT, CHOICE = range(5)


class Call(NamedTuple):
    """A call of an operation.

    Args:
        named: Its arguments by name.
        tensors: The tensors among them.
        shape: Shape of the first tensor that it returns.
        look: Values of a tensor, as an array; None if they depend on those of the model, or are too
            many. Of a number, the number itself, or None.
        is_reduced: Whether a tensor is made of one number per row, such as a loss per token.
        is_zero: Whether a number, or all of a tensor, is zero.
    """

    named: Mapping[str, Any]
    tensors: Sequence[Any]
    shape: tuple[int, ...]
    look: Look
    is_reduced: Callable[[Any], bool]
    is_zero: Callable[[Any], bool]


class Plan(NamedTuple):
    """What an operation reads.

    Args:
        inputs: The arguments that it reads in part, if its result is.
        back: Makes of the mask of the result those of the inputs; keeps no tensor alive.
        kind: One of the constants above.
        how: How it chooses a part of its first input; '' if it does not.
        reduces: Whether it makes one number of each row.
    """

    inputs: Sequence[Any]
    back: Back
    kind: int
    how: str = ""
    reduces: bool = False


def axis_of(dim: int, ndim: int) -> int:
    """A dimension, counted from the first one."""
    return dim % max(ndim, 1)


def pointwise(call: Call) -> Plan | None:
    """An operation by elements, whose operands may be broadcast."""
    shapes = [tuple(one.shape) for one in call.tensors]
    if not shapes or np.broadcast_shapes(*shapes) != call.shape:
        return None
    return Plan(call.tensors, lambda live: [operand(live, shape) for shape in shapes], POINTWISE)


__all__ = [
    "CHOICE", "DIAGONAL", "IGNORED", "PLACE", "POINTWISE", "PRODUCT", "REDUCTION", "ROWS", "VIEW",
    "Call", "Plan", "axis_of", "pointwise",
]  # fmt: skip
