"""Find products in the loops of a graph that could be computed once, after the loop.

A recurrent layer needs its state from one round to the next. A layer that only computes the output
of each round from the state, such as scores of words, runs with a few rows each time, where all
rounds together would be one product. The gradient of its weights is added up in each round, too.
"""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

_COLLECTS = frozenset({"TensorListSetItem", "TensorListPushBack"})
_PASSES = frozenset({"Identity", "ReadVariableOp", "Cast", "Transpose"})
_PRODUCT = re.compile(r"MatMul|BatchMatMul(V\d)?|Einsum|Conv\dD")


def products_of(body: Any) -> tuple[dict[Any, int], dict[Any, int]]:
    """Products with weights that a later round of a loop needs, and those that none does.

    Args:
        body: Graph of a round, whose outputs are the inputs of the next one.

    Returns:
        For each of both, the elements of the weights by operation.
    """
    inputs = [each.op for each in body.inputs]
    ends = [(start, _passed(each.op)) for start, each in zip(inputs, body.outputs, strict=False)]
    collecting = [end for start, end in ends if _collects(end, start)]
    # A value that no round reads is only that of the last one, such as a variable of AutoGraph.
    states = [
        end
        for start, end in ends
        if end is not start and not _collects(end, start) and start.outputs[0].consumers()
    ]
    needed = _ancestors(states)
    outputs = _ancestors(end.inputs[-1].op for end in collecting) - needed
    weights = {each: _weight(each, set(inputs)) for each in needed | outputs}
    found = {each: size for each, size in weights.items() if size}
    return (
        {each: size for each, size in found.items() if each in needed},
        {each: size for each, size in found.items() if each in outputs},
    )


def _passed(operation: Any, by: frozenset[str] = frozenset({"Identity"})) -> Any:
    """The operation whose value is passed on by those of some types."""
    while operation.type in by and operation.inputs:
        operation = operation.inputs[0].op
    return operation


def _collects(end: Any, start: Any) -> bool:
    """Whether a round only adds a value to a list."""
    return end.type in _COLLECTS and _passed(end.inputs[0].op) is start


def _ancestors(operations: Iterable[Any]) -> set[Any]:
    """Operations, and all that they are computed from."""
    found: set[Any] = set()
    waiting = list(operations)
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found.add(operation)
            waiting.extend(each.op for each in operation.inputs)
    return found


def _weight(operation: Any, inputs: set[Any]) -> int:
    """Elements of the weights that an operation multiplies with; 0 if it does not."""
    if not _PRODUCT.fullmatch(operation.type):
        return 0
    weights = [each.shape for each in operation.inputs if _passed(each.op, _PASSES) in inputs]
    known = [shape.as_list() for shape in weights if shape.rank]
    return max((prod(size or 0 for size in sizes) for sizes in known), default=0)
