"""Masks of the parts of tensors that are read: which elements, as compactly as rows allow.

A mask has as many dimensions as its tensor. A dimension of size 1 says that all along it are alike,
so that a mask of the rows of `(batch, time, features)` has the shape `(batch, time, 1)`.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from stepwhy.record.torch import late_numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Shape = Sequence[int]

_MOST_ELEMENTS = 1 << 24


class TooLargeError(Exception):
    """A mask would take too much time and memory."""


def whole(shape: Shape) -> Mask:
    """The mask of a tensor that is read everywhere."""
    found: Mask = np.ones((1,) * len(shape), dtype=np.bool_)
    return found


def nothing(shape: Shape) -> Mask:
    """A mask of a shape that reads nothing yet.

    Raises:
        TooLargeError: It has too many elements.
    """
    if prod(shape) > _MOST_ELEMENTS:
        raise TooLargeError
    found: Mask = np.zeros(tuple(shape), dtype=np.bool_)
    return found


def spread(mask: Mask, shape: Shape) -> Mask:
    """A mask with all the elements of some shape, to which it can be broadcast."""
    if prod(shape) > _MOST_ELEMENTS:
        raise TooLargeError
    found: Mask = np.broadcast_to(mask, tuple(shape))
    return found


def operand(mask: Mask, shape: Shape) -> Mask:
    """What is read of an operand that was broadcast to the tensor of a mask.

    Args:
        mask: Of the result.
        shape: Of the operand.
    """
    missing = mask.ndim - len(shape)
    leading: Mask = np.asarray(mask.any(axis=tuple(range(missing))))
    return along(leading, [axis for axis, size in enumerate(shape) if size == 1])


def along(mask: Mask, axes: Sequence[int]) -> Mask:
    """The mask of all along some dimensions, where any along them is read."""
    found: Mask = np.asarray(mask.any(axis=tuple(axes), keepdims=True))
    return found


def reshaped(mask: Mask, new: Shape, old: Shape) -> Mask:
    """The mask of a tensor by the one of its view in another shape.

    Args:
        mask: Of the view.
        new: Shape of the view.
        old: Shape of the tensor, with as many elements.
    """
    if not prod(old):
        return whole(old)
    spread_to: list[int] = []
    result: list[int] = []
    for first, last, start, end in _groups(old, new):
        is_uniform = all(size == 1 for size in mask.shape[start:end])
        spread_to += mask.shape[start:end] if is_uniform else new[start:end]
        result += [1] * (last - first) if is_uniform else old[first:last]
    return spread(mask, spread_to).reshape(result)


def _groups(old: Shape, new: Shape) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of dimensions of two shapes with the same number of elements, `old` and `new`."""
    last = end = 0
    while last < len(old) or end < len(new):
        first, start = last, end
        a = b = 1
        if last < len(old):
            a, last = old[last], last + 1
        if end < len(new):
            b, end = new[end], end + 1
        while a != b:
            if a < b:
                a, last = a * old[last], last + 1
            else:
                b, end = b * new[end], end + 1
        yield first, last, start, end


def joined(lives: Sequence[Mask | None], shapes: Sequence[Sequence[int]], axis: int) -> Mask:
    """The mask of a tensor that was split in one dimension, by those of its parts."""
    known = [
        nothing([1] * len(shape)) if live is None else live
        for live, shape in zip(lives, shapes, strict=True)
    ]
    width = [max(sizes) for sizes in zip(*[one.shape for one in known], strict=True)]
    parts = []
    for live, shape in zip(known, shapes, strict=True):
        width[axis] = shape[axis]
        parts.append(spread(live, width))
    found: Mask = np.concatenate(parts, axis)
    return found


def unused_share(mask: Mask) -> float:
    """Share of the elements of a tensor that is not read, 0..1."""
    return 1.0 - float(mask.mean()) if mask.size else 0.0
