"""A dimension of the batches whose size differs from step to step, such as the sequence length."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepwhy.analyse.program.operands import shapes_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.analyse.facts import Facts

    Op = tuple[int, int]  # the strings of its name and of the shapes of its arguments

# Operations that are compared, from the start of each step: batches come first.
_MOST_OPERATIONS = 200


class VaryingSize(msgspec.Struct, frozen=True):
    """A dimension of an argument of the first operation for which only that one differs.

    Args:
        operation: The operation.
        dimension: Number of the dimension, from 0; the samples of a batch are usually the first.
        sizes: Its size in each traced step.
    """

    operation: str
    dimension: int
    sizes: tuple[int, ...]


def varying_size(facts: Facts) -> VaryingSize | None:
    """The dimension that differs between the traced steps; None if none does, or it is unknown.

    Args:
        facts: Facts of a rank.
    """
    steps = _operations(facts)
    if len(steps) < 2:
        return None
    for ops in zip(*steps, strict=False):
        if len({name for name, _ in ops}) > 1:
            return None  # from here on, the steps do different things
        if len({shapes for _, shapes in ops}) > 1:
            found = _only_difference([facts.trace.string(shapes) for _, shapes in ops])
            if found is not None:
                return VaryingSize(facts.trace.string(ops[0][0]), *found)
    return None


def _operations(facts: Facts) -> list[list[Op]]:
    """The first operations of each traced step whose shapes are known."""
    slices, shapes = facts.trace.slices, shapes_of(facts.trace)
    rows = np.flatnonzero(shapes != NULL)
    rows = rows[np.argsort(slices.start_ns[rows], kind="stable")]
    begins = slices.start_ns[rows]
    found = []
    for start, end in zip(
        facts.steps.starts[facts.steps.steady].tolist(),
        facts.steps.ends[facts.steps.steady].tolist(),
        strict=True,
    ):
        first, stop = np.searchsorted(begins, [start, end]).tolist()
        mine = rows[first : min(stop, first + _MOST_OPERATIONS)]
        found.append(list(zip(slices.name[mine].tolist(), shapes[mine].tolist(), strict=True)))
    return found


def _only_difference(calls: Sequence[str]) -> tuple[int, tuple[int, ...]] | None:
    """The dimension in which the first differing argument differs, and its sizes.

    Args:
        calls: The shapes of the arguments in each step, as in `operands.shapes`.
    """
    arguments = [call.split(",") for call in calls]
    if len({len(each) for each in arguments}) > 1:
        return None
    for shapes in zip(*arguments, strict=True):
        if len(set(shapes)) > 1:
            return _dimension(shapes)
    return None


def _dimension(shapes: Sequence[str]) -> tuple[int, tuple[int, ...]] | None:
    """The only dimension in which shapes differ, and its sizes; None if it is not one."""
    sizes = [shape.split("x") for shape in shapes]
    if len({len(each) for each in sizes}) > 1 or not all(map(str.isdecimal, chain(*sizes))):
        return None
    columns = [tuple(map(int, column)) for column in zip(*sizes, strict=True)]
    differing = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    return (differing[0], columns[differing[0]]) if len(differing) == 1 else None
