"""Which part of the work of each operation is for what nothing reads, from what is read last."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from stepwhy.record.torch import late_numpy as np
from stepwhy.record.torch.part_masks import TooLargeError, joined, unused_share, whole
from stepwhy.record.torch.part_plans import PLACE, PRODUCT, REDUCTION, VIEW
from stepwhy.record.torch.part_values import NOWHERE, Choice, Unused

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import Any

    from stepwhy.record.torch.part_masks import Mask
    from stepwhy.record.torch.part_values import Op, Value

# Of what calls of one kind compute at one line: the rest of it may be needed there, as of a layer
# that is called again and again, of which only the last call is read in part.
_LEAST_UNUSED = 0.5
# Elements that are computed one by one take so much longer than those of a product of matrices.
_ONE_BY_ONE = 16
# Elements of all masks of a step.
_MOST_ELEMENTS = 1 << 27


def judged(
    ops: Sequence[Op], count: int, backward: Sequence[tuple[int, int]], later: Container[int]
) -> Unused:
    """What of the results of a step nothing reads.

    Args:
        ops: Operations of the forward pass, in order; all that is read of their values is noted.
        count: Operations of the step.
        backward: Places of operations of the backward pass, each with that of the operation whose
            graph node runs it.
        later: Numbers of the storages that later steps read, or may read.

    Raises:
        TooLargeError: The masks have too many elements.
    """
    shares, chosen_by = _shares(ops, later)
    kept = _mostly_unused(ops, shares)
    found, places = [0.0] * count, [-1] * count
    by_place = {op.place: op for op in ops}
    choices: dict[int, Choice] = {}
    spread_back = kept | _spread_back(ops, kept)
    both = [(one, one) for one in kept] + [one for one in backward if one[1] in spread_back]
    for place, forward in both:
        choice = chosen_by.get(forward, forward)
        choices.setdefault(choice, _choice(by_place[choice]))
        found[place], places[place] = spread_back[forward], list(choices).index(choice)
    return Unused(found, places, list(choices.values()), _read_in_part(ops))


def _shares(ops: Sequence[Op], later: Container[int]) -> tuple[dict[int, float], dict[int, int]]:
    """Share of each operation that nothing reads, and what chooses the rest, by place."""
    for op in ops:
        for one in op.outputs:
            one.forget()
    shares: dict[int, float] = {}
    chosen_by: dict[int, int] = {}
    left = _MOST_ELEMENTS
    for op in reversed(ops):
        share, used = _propagate(op, [_live(one, later) for one in op.outputs])
        left -= used
        if left < 0:
            raise TooLargeError
        if share > 0:
            chosen = _chosen_by(op)
            shares[op.place] = share
            chosen_by[op.place] = op.place if chosen == NOWHERE else chosen
    return shares, chosen_by


def _chosen_by(op: Op) -> int:
    """Place of the operation that chooses what is read of the results of another one."""
    return next((one.choice for one in op.outputs if one.choice != NOWHERE), NOWHERE)


def _mostly_unused(ops: Sequence[Op], shares: dict[int, float]) -> dict[int, float]:
    """The shares of large operations, of which most is unused in all calls of their group."""
    work: dict[Any, float] = {}
    lost: dict[Any, float] = {}
    for op in ops:
        work[op.group] = work.get(op.group, 0) + op.work
        lost[op.group] = lost.get(op.group, 0) + op.work * shares.get(op.place, 0.0)
    return {
        op.place: shares[op.place]
        for op in ops
        if op.group is not None
        and op.place in shares
        and lost[op.group] >= _LEAST_UNUSED * work[op.group]
    }


def _spread_back(ops: Sequence[Op], kept: Container[int]) -> dict[int, float]:
    """What backward passes of choices fill with zeros, if what they choose from is not needed.

    After a choice among rows of a table, the gradient has as many rows as before it.
    """
    makers = {id(one): op for op in ops for one in op.outputs}
    found = {}
    for op in ops:
        value = op.inputs[0] if op.inputs else None
        if op.plan is None or not op.plan.how or value is None or value.of_table:
            continue
        maker = makers.get(id(value))
        while maker is not None and maker.plan is not None and maker.plan.kind == VIEW:
            first = maker.inputs[0]
            maker = None if first is None else makers.get(id(first))
        if maker is not None and maker.place in kept and value.read is not None:
            found[op.place] = unused_share(value.read)
    return found


def _read_in_part(ops: Sequence[Op]) -> set[int]:
    """Numbers of the storages whose values are read in part."""
    return {
        one.storage.number
        for op in ops
        for one in op.outputs
        if one.read is not None and not one.is_whole and not one.read.all()
    }


def _live(value: Value, later: Container[int]) -> Mask | None:
    """What is read of a value; None if nothing is, or what reads it is not known."""
    if value.is_whole or value.storage.number in later:
        value.choice = NOWHERE
        return whole(value.shape)
    return value.read


def _propagate(op: Op, lives: Sequence[Mask | None]) -> tuple[float, int]:
    """Pass on what is read of the results to what an operation reads.

    Returns:
        Share of its work that nothing reads, 0..1, and the elements of all masks.
    """
    is_view = op.plan is None or op.plan.kind == VIEW
    if (op.axis < 0 and op.plan is None) or (is_view and all(one is None for one in lives)):
        return 0.0, 0
    try:
        live, masks = _masks(op, lives)
    except (TooLargeError, ValueError, IndexError):
        for value in op.inputs:
            if value is not None:
                value.add(whole(value.shape), NOWHERE)
        return 0.0, 0
    inherited = _chosen_by(op)
    used = 0
    for nth, (value, mask) in enumerate(zip(op.inputs, masks, strict=True)):
        chooses = op.plan is None or (op.plan.how and not nth)
        if value is not None:
            used += value.add(mask, op.place if chooses else inherited)
    return _share(op, live, masks), used


def _masks(op: Op, lives: Sequence[Mask | None]) -> tuple[Mask, Sequence[Mask]]:
    """What is read of the result of an operation, and of its inputs."""
    known = [one for one in lives if one is not None]
    if op.plan is None:
        shapes = [one.shape for one in op.outputs]
        is_unbound = len(shapes[0]) < len(op.inputs[0].shape)  # type: ignore[union-attr]
        if is_unbound:
            lives = [None if one is None else np.expand_dims(one, op.axis) for one in lives]
            shapes = [(*s[: op.axis], 1, *s[op.axis :]) for s in shapes]
        return whole(shapes[0]), [joined(lives, shapes, op.axis)]
    live = known[0] if known else whole(op.outputs[0].shape)
    for one in known[1:]:
        live = live | one if one.ndim == live.ndim else whole(op.outputs[0].shape)
    return live, op.plan.back(live)


def _share(op: Op, live: Mask, masks: Sequence[Mask]) -> float:
    """Share of the work of an operation that nothing reads, 0..1."""
    if op.plan is None or (op.plan.kind == VIEW and not _expands(op)):
        return 0.0
    if op.plan.kind == REDUCTION:
        return unused_share(masks[0])
    if op.plan.kind != PRODUCT:
        return unused_share(live)
    used = [1 - unused_share(mask) for mask in masks[:2]]
    elements = 1 - unused_share(live)
    return max(1 - prod(used), 1 - _ONE_BY_ONE * elements, 0.0)


def _expands(op: Op) -> bool:
    """Whether a view has more elements than its tensor, over which the backward pass sums."""
    first = op.inputs[0]
    return first is not None and prod(op.outputs[0].shape) > prod(first.shape)


def _choice(op: Op) -> Choice:
    plan, first = op.plan, op.inputs[0] if op.inputs else None
    how = plan.how if plan is not None else PLACE
    return Choice(op.line, how, first is not None and first.of_table)
