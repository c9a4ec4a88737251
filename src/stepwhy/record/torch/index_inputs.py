"""Positions of index inputs, and of features, that are padding in every row of a batch."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from stepwhy.record.core.compiled_code import never_compiled
from stepwhy.record.torch import cuda_graphs
from stepwhy.record.torch.feature_inputs import Ends, padded_features
from stepwhy.record.torch.function_modes import hidden_from_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    _Dims = tuple[int, int, int]

_MOST_INPUTS = 16
_MOST_ELEMENTS = 1 << 24
# In a single row, a few equal values at its end are no padding.
_FEWEST_IN_ONE_ROW = 8
# Of these the result has as many elements as columns times columns.
_ATTENTION = "scaled_dot_product"
_OF_SCORES = ("softmax", "bmm", _ATTENTION)
# A loop over the columns runs the same operation once for each.
_LEAST_LOOP = 16


class IndexInput:
    """An index input of the step: which of its columns are padding in all rows.

    Args:
        op: Operation that looks the indices up.
        line: Line of the program that calls it.
        rows: Rows of the batch.
        columns: Positions of each row.
        padded: How many of them, at one end, hold one value in all rows.
        at_start: Whether that is the start.
        width: Numbers looked up per index.

    Attributes:
        maker: What makes the indices, see `Makers`.
    """

    __slots__ = ("at_start", "columns", "line", "maker", "op", "padded", "rows", "width")

    def __init__(  # noqa: PLR0917 - one row of a table
        self, op: str, line: str, rows: int, columns: int, padded: int, at_start: bool, width: int
    ) -> None:
        self.op = op
        self.line = line
        self.rows = rows
        self.columns = columns
        self.padded = padded
        self.at_start = at_start
        self.width = width
        self.maker: Any = None

    def dims_in(self, shape: Sequence[int], name: str) -> int:
        """How many dimensions of a tensor are these columns: 0, 1 or 2.

        Args:
            shape: Shape of an operand or a result.
            name: Of the operation.
        """
        flat = self.rows * self.columns
        size = 1
        for length in shape:
            size *= length
        if not size or size % flat:
            return 0
        found = sum(length == self.columns for length in shape)
        if not found:
            return int(any(length % flat == 0 for length in shape))
        if self.width == self.columns and not any(part in name for part in _OF_SCORES):
            return 1  # one of the dimensions is that of the features
        return 2 if _ATTENTION in name else min(found, 2)

    def share(self, dims: int) -> float:
        """Share of the elements of a tensor with so many such dimensions that is padding."""
        return 1 - (1 - self.padded / self.columns) ** dims


class IndexInputs:
    """The index inputs of one step, and what of each operation depends on their columns."""

    def __init__(self) -> None:
        self._inputs: dict[tuple[int, int], IndexInput] = {}
        self._seen = 0
        self._any_padded = False
        self._cache: dict[Any, _Dims | None] = {}
        # Columns of padding in each later batch, by rows and columns.
        self._later: list[dict[tuple[int, int], int]] = []
        self._features: set[tuple[int, int]] = set()
        self._tensors: set[tuple[int, tuple[int, ...]]] = set()
        self._ends = Ends()

    def next_batch(self) -> None:
        """A later batch begins."""
        self._later.append({})

    def add_later(self, indices: Any) -> None:
        """Note an index input of a later batch, of which only the columns of padding count.

        Args:
            indices: A tensor of integers.
        """
        if not self._later or not 2 <= indices.dim() <= 3 or indices.numel() > _MOST_ELEMENTS:
            return
        batch = self._later[-1]
        for found in _by_axis("", "", indices, 0):
            key = found.rows, found.columns
            batch[key] = min(batch.get(key, found.padded), found.padded)

    def add_features(self, op: str, line: Callable[[], str], tensor: Any) -> None:
        """Note a tensor that depends on no parameter: features, or where they end.

        Args:
            op: Operation that reads it.
            line: Finds the line of the program that calls it.
            tensor: The tensor.
        """
        if tensor.dim() in {1, 2}:
            self._ends.note(tensor)
        key = id(tensor), tuple(tensor.shape)
        if (
            not _may_be_features(tensor)
            or key in self._tensors
            or len(self._tensors) >= _MOST_INPUTS
        ):
            return
        self._tensors.add(key)
        for rows, columns, padded, width in padded_features(tensor):
            place = rows, columns
            if place not in self._inputs:
                self._inputs[place] = IndexInput(op, line(), rows, columns, padded, False, width)
                self._features.add(place)
        self._any_padded = bool(self.padded)
        self._cache.clear()

    def confirm_features(self) -> None:
        """Leave out features whose zeros at the end may be data: nothing says that rows end."""
        for key in list(self._features):
            found = self._inputs[key]
            if not self._ends.confirm(*key, found.padded):
                found.padded = 0
                self._features.remove(key)

    def add_later_features(self, tensor: Any) -> None:
        """Note what a module is called with in a later batch, of which only the zeros count."""
        if not self._later or not _may_be_features(tensor):
            return
        batch, shape = self._later[-1], set(tensor.shape)
        left = {key for key in self._features - batch.keys() if shape.issuperset(key)}
        if not left:
            return
        padded = {(rows, columns): count for rows, columns, count, _ in padded_features(tensor)}
        batch.update({key: padded.get(key, 0) for key in left})

    def average(self) -> None:
        """Let the mean of all batches stand for the columns of padding: lengths differ."""
        for key, found in self._inputs.items():
            padded = [found.padded, *(batch[key] for batch in self._later if key in batch)]
            found.padded = round(sum(padded) / len(padded))

    def add(self, op: str, line: str, indices: Any, width: int, maker: Any = None) -> None:
        """Note an index input.

        Where several have the same shape, that with the fewest columns of padding counts: types of
        tokens may be equal in many more columns than the tokens are missing in.

        Args:
            op: Operation that looks the indices up.
            line: Line of the program that calls it.
            indices: A tensor of integers.
            width: Numbers looked up per index.
            maker: What makes the indices.
        """
        if self._seen >= _MOST_INPUTS or not 2 <= indices.dim() <= 3:
            return
        if not 0 < indices.numel() <= _MOST_ELEMENTS:
            return
        self._seen += 1
        for found in _by_axis(op, line, indices, width):
            found.maker = maker
            key = found.rows, found.columns
            known = self._inputs.get(key)
            if known is None or key in self._features or found.padded < known.padded:
                self._inputs[key] = found
                self._features.discard(key)
        self._any_padded = bool(self.padded)
        self._cache.clear()

    @property
    def all(self) -> list[IndexInput]:
        """All of them, those of one shape once."""
        return list(self._inputs.values())

    @property
    def padded(self) -> list[IndexInput]:
        """Those with padding in all rows."""
        return [found for found in self._inputs.values() if found.padded]

    def dims_in(self, shapes: tuple[tuple[int, ...], ...], name: str) -> _Dims | None:
        """The index input that the most elements of some tensors depend on, and how.

        Args:
            shapes: Shapes of operands and results.
            name: Of the operation.

        Returns:
            Its rows and columns, and how many dimensions are these columns; None for no input.
        """
        if not self._any_padded:
            return None
        key = name, shapes
        if key not in self._cache:
            self._cache[key] = self._most_dims(shapes, name)
        return self._cache[key]

    def _most_dims(self, shapes: Sequence[Sequence[int]], name: str) -> _Dims | None:
        best, most = None, 0.0
        for key, found in self._inputs.items():
            dims = max((found.dims_in(shape, name) for shape in shapes), default=0)
            if dims and found.share(dims) > most:
                best, most = (*key, dims), found.share(dims)
        return best

    def share(self, dims: _Dims) -> float:
        """Share of an operation that is padding.

        Args:
            dims: A result of `dims_in`.
        """
        return self._inputs[dims[0], dims[1]].share(dims[2])

    def loop_share(self, count: int, shape: Sequence[int]) -> float:
        """Share that is padding of operations that run once for each column, as in a loop.

        Args:
            count: How often the operation ran with the same shape of its result.
            shape: That shape.
        """
        shares = [
            found.share(1)
            for found in self.padded
            if found.columns >= _LEAST_LOOP
            and shape
            and shape[0] == found.rows > 1
            and _is_multiple(count, found.columns)
        ]
        return max(shares, default=0.0)


def count_padding(inputs: IndexInputs) -> Any:
    """Count the columns of padding that embeddings look up, or modules read, from now on.

    Returns:
        The hook, to be removed.
    """
    import torch
    from torch.nn.modules import module

    embedding = torch.nn.Embedding

    @never_compiled
    def before(called: Any, arguments: tuple[Any, ...]) -> None:
        is_plain = arguments and type(arguments[0]) is torch.Tensor
        if not is_plain or cuda_graphs.is_any_captured():
            return
        with contextlib.suppress(Exception), hidden_from_modes():
            if isinstance(called, embedding):
                inputs.add_later(arguments[0].detach())
            else:
                inputs.add_later_features(arguments[0])

    inputs.next_batch()
    return module.register_module_forward_pre_hook(before)


def _may_be_features(tensor: Any) -> bool:
    """Whether a tensor may be sequences of features; those of other layers have a gradient."""
    is_input = not tensor.requires_grad and tensor.is_floating_point()
    return is_input and tensor.dim() == 3 and 0 < tensor.numel() <= _MOST_ELEMENTS


def _is_multiple(count: int, columns: int) -> bool:
    """Whether operations are as many as some per column; the first or last may differ."""
    each = round(count / columns)
    return each > 0 and abs(count - each * columns) <= each


def _by_axis(op: str, line: str, indices: Any, width: int) -> Iterator[IndexInput]:
    """The input with the last dimension as columns, and if it has two, with the first as well."""
    last = indices.shape[-1]
    tables = [indices.reshape(-1, last)]
    if indices.dim() == 2:
        tables.append(indices.t())
    for table in tables:
        rows, columns = table.shape
        if columns > 1 and not _is_of_positions(table):
            padded, at_start = _padded(table)
            if padded < columns:
                yield IndexInput(op, line, rows, columns, padded, at_start, width)


def _is_of_positions(table: Any) -> bool:
    """Whether the indices only count the columns, and say nothing of what is in them."""
    if len(table) > 1:
        return bool((table == table[0]).all())
    return bool((table[0].diff() == 1).all())


def _padded(table: Any) -> tuple[int, bool]:
    """Columns at one end that hold one value in all rows, and whether that is the start.

    All columns, if the values never differ: these are no tokens.
    """
    runs = []
    for edge in (-1, 0):
        same = (table == table[0, edge]).all(0).tolist()
        inwards = same[::-1] if edge else same
        runs.append(next((i for i, one in enumerate(inwards) if not one), len(same)))
    padded, at_start = max((runs[0], False), (runs[1], True))
    fewest = _FEWEST_IN_ONE_ROW if len(table) == 1 else 2
    return (padded, at_start) if padded >= fewest else (0, False)
