"""Copies of a whole tensor of which only a part is then changed, in eager programs of PyTorch.

What a copy is for shows in the shapes of the operations around it. Operations whose gradient is
computed do not count: a tensor that the backward pass needs must not be changed in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from stepwhy.analyse.facts import Facts
from stepwhy.analyse.program.operands import shapes_of, types_of
from stepwhy.base.columns.types import AnyRows
from stepwhy.base.patterns import regex
from stepwhy.diagnose.shared.slices import is_inside, launched_ops, named
from stepwhy.trace import NULL, Kind, Phase

MOST_CHANGED = 0.25
"""Share of the buffer; where more changes, the change itself is a good part of the work."""

_NEAR = 12  # operations between a copy and the change: views, indices, the new rows
# Source: names in aten/src/ATen/native/native_functions.yaml. They return a changed copy of their
# first argument. The last tensor among the arguments is what is written.
_OUT_OF_PLACE = regex(
    r"aten::(?:index_put|index_copy|index_add|scatter|scatter_add|slice_scatter|select_scatter)"
)
_COPY = regex(r"aten::(?:clone|roll)")
_INTO_ROWS = regex(r"aten::(?:index_put_|index_copy_|index_add_|scatter_|scatter_add_)")
_INTO_VIEW = regex(r"aten::(?:copy_|fill_|zero_|add_|sub_|mul_)")
_VIEW = regex(r"aten::(?:select|slice|narrow)")
_PASSES = regex(r"aten::(?:view|unsqueeze|squeeze|expand|to|detach)")
_CAT = "aten::cat"
_JOINS = regex(r"aten::(?:concat|concatenate|[vhd]stack|row_stack|column_stack)")  # call it
_BYTES = {
    "float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "complex64": 8, "complex128": 16,
    "int32": 4, "int64": 8, "bool": 1, "uint8": 1,
}  # fmt: skip

Shape = tuple[int, ...]


class Rewrite(NamedTuple):
    """A copy.

    Args:
        row: Slice of the operation that copies.
        copied: Number of elements of the buffer.
        changed: Number of those that are changed.
        operation: What changes them.
        width: Bytes of an element; 0 if the type is unknown.
    """

    row: int
    copied: int
    changed: int
    operation: str
    width: int


class _Op(NamedTuple):
    """An operation that the program launches.

    Args:
        row: Its slice.
        name: Its name.
        shapes: Of its arguments; () for a scalar, and for what is no tensor.
        parts: Of the tensors in its first argument, if that is a list.
        width: Bytes of an element of its first argument; 0 if the type is unknown.
    """

    row: int
    name: str
    shapes: tuple[Shape, ...]
    parts: tuple[Shape, ...]
    width: int


def of_pytorch(facts: Facts) -> list[Rewrite]:
    """The copies in the steady steps."""
    rows = launched_ops(facts)
    rows = rows[(facts.phases[rows] != Phase.BACKWARD) & ~facts.in_input[rows]]
    joins = rows[facts.trace.matches(facts.trace.slices.name[rows], _JOINS.fullmatch)]
    if len(joins):
        called = named(facts, _CAT)
        rows = np.union1d(np.setdiff1d(rows, joins), called[is_inside(facts, joins, called)])
    ops = _ops(facts, rows)
    grown: set[Shape] = set()
    found = []
    for place, op in enumerate(ops):
        changed = _changed(ops, place, grown)
        # The buffer that the operation copies; (0,) without one.
        copied = prod(_joined(op.parts) if op.name == _CAT else op.shapes[0] or (0,))
        if changed is not None and 0 < changed[0] <= MOST_CHANGED * copied:
            found.append(Rewrite(op.row, copied, *changed, op.width))
    differentiated = _differentiated(facts, [rewrite.row for rewrite in found])
    return [rewrite for rewrite in found if rewrite.row not in differentiated]


def _ops(facts: Facts, rows: AnyRows) -> list[_Op]:
    trace = facts.trace
    names, shapes = trace.slices.name[rows], shapes_of(trace)[rows]
    types = types_of(trace)[rows]
    known: dict[tuple[int, int, int], _Op] = {}
    found = []
    for row, *key in zip(*(c.tolist() for c in (rows, names, shapes, types)), strict=True):
        name, shape, kind = key
        if (name, shape, kind) not in known:
            known[name, shape, kind] = _op(trace.string(name), trace.string(shape),
                                           trace.string(kind))  # fmt: skip
        found.append(known[name, shape, kind]._replace(row=row))
    return found


def _op(name: str, shapes: str, types: str) -> _Op:
    each = shapes.split(",")
    parts = tuple(map(_sizes, each[0].split("+"))) if "+" in each[0] else ()
    width = _BYTES.get(types.partition(",")[0], 0)
    return _Op(NULL, name, tuple(() if "+" in s else _sizes(s) for s in each), parts, width)


def _sizes(shape: str) -> Shape:
    return tuple(int(size) for size in shape.split("x")) if shape else ()


def _joined(parts: Sequence[Shape]) -> Shape:
    """Shape of concatenated tensors; (0,) if their shapes do not show along which dimension."""
    ranks = {len(part) for part in parts}
    if len(ranks) != 1:
        return (0,)
    differing = [d for d, sizes in enumerate(zip(*parts, strict=True)) if len(set(sizes)) > 1]
    if len(differing) != 1:
        return (0,)
    place, first = differing[0], parts[0]
    return (*first[:place], sum(part[place] for part in parts), *first[place + 1 :])


def _changed(ops: Sequence[_Op], place: int, grown: set[Shape]) -> tuple[int, str] | None:
    """Elements that are changed in a copy, and by what; None if an operation makes no such copy.

    Args:
        ops: All operations, in order.
        place: Position of the operation.
        grown: Results of concatenations so far; that of this one is added.
    """
    op = ops[place]
    if _OUT_OF_PLACE.fullmatch(op.name):
        return prod(next((s for s in reversed(op.shapes[1:]) if s), (0,))), op.name
    if _COPY.fullmatch(op.name):
        return _written(ops[place + 1 : place + 1 + _NEAR], op.shapes[0])
    if op.name != _CAT or not op.parts:
        return None
    largest, whole = max(op.parts, key=prod), _joined(op.parts)
    keeps = largest in grown or _is_viewed(ops[place + 1 : place + 3], whole)
    keeps |= _is_viewed(ops[max(place - _NEAR, 0) : place], whole)
    grown.add(whole)
    return (prod(whole) - prod(largest), op.name) if keeps else None


def _is_viewed(ops: Sequence[_Op], shape: Shape) -> bool:
    """Whether one of some operations takes a part of a tensor of a shape."""
    return any(_VIEW.fullmatch(op.name) and op.shapes[0] == shape for op in ops)


def _written(ops: Sequence[_Op], shape: Shape) -> tuple[int, str] | None:
    """Elements that operations after a copy write into it, and by what; None for nothing."""
    changed, operation, in_view = 0, "", False
    for op in ops:
        if op.shapes[0] == shape and _COPY.fullmatch(op.name):
            break
        if op.shapes[0] == shape and _INTO_ROWS.fullmatch(op.name):
            changed += prod(next((s for s in reversed(op.shapes[1:]) if s), (0,)))
            operation = operation or op.name
        elif in_view and _INTO_VIEW.fullmatch(op.name):
            changed += prod(op.shapes[0])
            operation = operation or op.name
        if not _PASSES.fullmatch(op.name):
            in_view = bool(_VIEW.fullmatch(op.name)) and (op.shapes[0] == shape or in_view)
    return (changed, operation) if operation else None


def _differentiated(facts: Facts, rows: Sequence[int]) -> set[int]:
    """Those of some operations whose gradient is computed: a node of the graph is named for them.

    Source: `torch/csrc/autograd`: nodes are called 'CatBackward0', 'IndexPutBackward0'.
    """
    slices = facts.trace.slices
    back = facts.slices(Kind.OP, Kind.FRAMEWORK)
    back = back[facts.phases[back] == Phase.BACKWARD]
    nodes = set(zip(slices.sequence[back].tolist(), _nodes(facts, back), strict=True))
    own = zip(rows, slices.sequence[list(rows)].tolist(), _nodes(facts, rows), strict=True)
    return {row for row, number, name in own if number != NULL and (number, name) in nodes}


def _nodes(facts: Facts, rows: Sequence[int] | AnyRows) -> Iterator[str]:
    """Name of an operation or node in one spelling: 'indexput' for both."""
    for name in facts.trace.slices.name[list(rows)].tolist():
        text = facts.trace.string(name).rpartition(":")[2].strip()
        yield text.partition("Backward")[0].replace("_", "").lower()
