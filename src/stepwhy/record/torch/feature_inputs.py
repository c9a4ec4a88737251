"""Sequences of features that end with zeros in every row of a batch, and whether that is padding.

Zeros at the end may be data: silence, or the margin of a picture. They are padding where lengths
or a mask that the step reads say that all rows end there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

# Axes of the rows and of the columns: batch first, time first, and channels in between.
_LAYOUTS = ((0, 1, 2), (1, 0, 2), (0, 2, 1))
# Tensors of a step that are read for lengths and masks, those of one shape, and elements of each:
# a batch may be put together of hundreds of rows. 30 µs each.
_MOST_READ = 512
_MOST_ALIKE = 8
_MOST_ELEMENTS = 1 << 20
_FEWEST = 2  # rows, and columns


class Features(NamedTuple):
    """A layout of a tensor, in which it ends with columns of zeros.

    Args:
        rows: Rows of the batch.
        columns: Positions of each row.
        padded: How many of them, at the end, are zero in all rows.
        width: Features of each position.
    """

    rows: int
    columns: int
    padded: int
    width: int


def padded_features(tensor: Any) -> Iterator[Features]:
    """The layouts in which a tensor of three dimensions ends with columns of zeros."""
    is_set = tensor.detach() != 0
    for row, column, feature in _LAYOUTS:
        rows, columns, width = (tensor.shape[axis] for axis in (row, column, feature))
        if min(rows, columns) < _FEWEST:
            continue
        ends = is_set.movedim(column, 0).flatten(1).any(1).nonzero()
        if len(ends) and int(ends[-1]) + 1 < columns:
            yield Features(rows, columns, columns - int(ends[-1]) - 1, width)


class Ends:
    """Where sequences end, by the lengths and masks that a step reads."""

    def __init__(self) -> None:
        self._left = _MOST_READ
        self._seen: Counter[tuple[int, ...]] = Counter()
        self._lengths: set[tuple[int, int]] = set()
        self._masks: set[tuple[int, int, int]] = set()

    def note(self, tensor: Any) -> None:
        """Note a tensor, if it may be lengths or a mask.

        Args:
            tensor: One of one or two dimensions that depends on no parameter.
        """
        shape = tuple(tensor.shape)
        self._seen[shape] += 1
        if self._seen[shape] > _MOST_ALIKE or not self._left or min(shape) < _FEWEST:
            return
        if tensor.numel() > _MOST_ELEMENTS:
            return
        self._left -= 1
        if tensor.dim() == 1:
            if not (tensor.is_floating_point() or tensor.is_complex()):
                self._lengths.add((len(tensor), int(tensor.max())))
            return
        for table in (tensor.detach(), tensor.detach().t()):
            rows, columns = table.shape
            same: Sequence[bool] = (table == table[0, -1]).all(0).tolist()
            equal_at_end = next((i for i, one in enumerate(reversed(same)) if not one), len(same))
            self._masks.add((rows, columns, equal_at_end))

    def confirm(self, rows: int, columns: int, padded: int) -> bool:
        """Whether all rows end in front of so many columns."""
        return (rows, columns - padded) in self._lengths or (rows, columns, padded) in self._masks
