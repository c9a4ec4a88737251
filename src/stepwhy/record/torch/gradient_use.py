"""What a step does with gradients that autograd records, so that they can be differentiated again.

A penalty only reduces them to a number, such as the mean of their norms. Whatever compares them
with data, takes them apart or computes with them needs them: forces, residuals of differential
equations, or the inner steps of meta-learning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.record.core.user_code import user_line
from stepwhy.record.torch.provenance import RECORDED, REDUCED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

EVENT = "gradient-use"
"""Kind of the event."""
PENALTY = "penalty"
"""They are only reduced to a number."""
NO_WEIGHT = "penalty without weight"
"""The number is multiplied by zero."""
OTHER = "other"

_TAKES_APART = frozenset(
    {
        "aten::select", "aten::slice", "aten::narrow", "aten::split", "aten::split_with_sizes",
        "aten::unbind", "aten::index", "aten::index_select", "aten::gather",
    }
)  # fmt: skip
_NUMBERS = frozenset({int, float})
_PRODUCT = "aten::mul"


class GradientUse:
    """What is done with recorded gradients outside of the backward pass that has made them.

    Attributes:
        kind: One of the constants above; '' while nothing reads any.
        line: Line of the program that reads them first.
    """

    def __init__(self) -> None:
        self.kind = ""
        self.line = ""

    def note(
        self, name: str, args: Sequence[Any], read: Sequence[Any], origins: Callable[[Any], int]
    ) -> None:
        """Note an operation outside of backward passes whose result will be differentiated.

        Args:
            name: Of the operation.
            args: Its arguments.
            read: The tensors among them.
            origins: Origins of a tensor.
        """
        known = [origins(tensor) for tensor in read]
        if any(each & RECORDED for each in known):
            others = [
                tensor
                for tensor, each in zip(read, known, strict=True)
                if each and not each & RECORDED
            ]
            is_other = name in _TAKES_APART or any(tensor.numel() > 1 for tensor in others)
            self.line = self.line or user_line()
            self.kind = OTHER if is_other or self.kind == OTHER else self.kind or PENALTY
        elif self.kind == PENALTY and _is_weighted_by_zero(name, args, known):
            self.kind = NO_WEIGHT


def _is_weighted_by_zero(name: str, args: Sequence[Any], origins: Sequence[int]) -> bool:
    has_zero = any(arg.__class__ in _NUMBERS and arg == 0 for arg in args)
    return has_zero and name == _PRODUCT and any(each & REDUCED for each in origins)
