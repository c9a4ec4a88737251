"""Find layers of one step that run again and again, although no run needs another one.

A layer that makes the output of each time step is often called inside the loop over the steps, with
a few rows each time, where all rows together would be one product. Whether a run needs an earlier
one is followed through the storages of all operations between them.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NamedTuple

from stepwhy.record.core.user_code import user_line
from stepwhy.record.torch.provenance import STATE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.record.torch.provenance import Storage

    _Tensors = Sequence[tuple[Any, Storage]]

EVENT = "separate-products"

_PRODUCTS = frozenset({"aten::addmm", "aten::mm", "aten::bmm", "aten::linear"})
_READ_SCALAR = "aten::_local_scalar_dense"
_FEWEST = 16
_MOST_ROWS = 64  # of a run; with more, one product for all takes about as long
_MOST_LAYERS = 256


class Separate(NamedTuple):
    """A layer that runs separately for rows that could be together.

    Args:
        line: Line of the program that calls it.
        op: Name of its operation.
        runs: How often, in the step.
    """

    line: str
    op: str
    runs: int


class _Layer:
    """The runs of one weight at one line.

    Attributes:
        count: How many there were.
        bit: Which it is, in `Storage.products`.
        passes: Backward passes before its first run.
        is_needed: Whether a run needs an earlier one, or the program may have read one's result.
    """

    __slots__ = ("bit", "count", "is_needed", "line", "op", "passes")

    def __init__(self, line: str, op: str, number: int, passes: int) -> None:
        self.line, self.op, self.bit, self.passes = line, op, 1 << number, passes
        self.count = 0
        self.is_needed = False


class SeparateProducts:
    """The layers of one step, and which of them need their own earlier runs."""

    def __init__(self) -> None:
        self._layers: dict[tuple[str, int], _Layer] = {}
        self._others: set[str] = set()
        self._passes = 0
        self._in_backward = False

    def note(
        self, name: str, read: _Tensors, made: _Tensors, written: Sequence[Storage], *,
        in_backward: bool, records: bool,
    ) -> None:  # fmt: skip
        """Note an operation.

        Args:
            name: Its name.
            read: The tensors that it reads, with their storages.
            made: Those that it returns.
            written: The storages that it writes into.
            in_backward: Whether the backward pass runs it.
            records: Whether gradients are recorded.
        """
        self._passes += in_backward and not self._in_backward
        self._in_backward = in_backward
        if in_backward:
            return
        needs = 0
        for _, storage in read:
            if storage.is_outside and storage.origins != STATE and storage.products is None:
                # The program may have made it of what it has read, such as a next observation.
                storage.products = (1 << len(self._layers)) - 1
            needs |= storage.products or 0
        if name == _READ_SCALAR and needs:
            for layer in self._layers.values():
                layer.is_needed |= bool(layer.bit & needs)
        elif name in _PRODUCTS and records and made:
            needs |= self._run(name, read, made[0][0], needs)
        if needs:
            for storage in (*(storage for _, storage in made), *written):
                storage.products = (storage.products or 0) | needs

    def _run(self, name: str, read: _Tensors, result: Any, needs: int) -> int:
        """Note a run of a layer; returns its bit, 0 if it is none."""
        weights = (s for t, s in read if s.is_outside and s.origins == STATE and t.dim() > 1)
        weight = next(weights, None)
        rows = prod(result.shape[:-1])
        if rows > _MOST_ROWS or len(self._layers) >= _MOST_LAYERS:
            return 0
        line = user_line()
        if weight is None:
            self._others.add(line)
            return 0
        key = line, id(weight)
        if key not in self._layers:
            self._layers[key] = _Layer(line, name, len(self._layers), self._passes)
        layer = self._layers[key]
        layer.count += 1
        # Parts of a batch, each with a backward pass of its own, are so to save memory.
        layer.is_needed |= bool(needs & layer.bit) or layer.passes != self._passes
        return layer.bit

    @property
    def found(self) -> list[Separate]:
        """The layers whose runs do not need each other, at lines without any other product."""
        needed = {layer.line for layer in self._layers.values() if layer.is_needed} | self._others
        return [
            Separate(layer.line, layer.op, layer.count)
            for layer in self._layers.values()
            if layer.count >= _FEWEST and layer.line and layer.line not in needed
        ]
