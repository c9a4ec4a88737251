"""Types and shapes of what operations work on, if the profiler recorded them (`record_shapes`).

Source: `kineto_client_interface.cpp` and `collection.cpp` of PyTorch, which write 'Input type' and
'Input Dims' with an entry per argument: the C++ name of a tensor's type and its sizes, or 'Scalar',
'' and an empty list for what is no tensor.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from stepwhy.read.formats.kineto.arguments import KinetoArgs, args_of
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.formats.kineto.sweep import Records
    from stepwhy.read.shared.chrome_json import Event
    from stepwhy.trace import TraceBuilder

# Types of tensors that models compute with. Source: `scalarTypeToTypeMeta` and its C++ names.
_TYPES: Final = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128",
    "int": "int32", "long": "int64", "long int": "int64", "bool": "bool",
    "unsigned char": "uint8",
}  # fmt: skip
_WIDTHS: Final = {
    "float": 4, "double": 8, "c10::Half": 2, "c10::BFloat16": 2, "c10::complex<float>": 8,
    "c10::complex<double>": 16, "int": 4, "long": 8, "long int": 8, "bool": 1, "unsigned char": 1,
}  # fmt: skip
# Operations at the start of a file; they cover several steps of most programs, and decoding each
# record of a file of gigabytes would take longer than everything else.
_MOST: Final = 1 << 16
# If none of the first ones has types, the profiler did not record them.
_FIRST: Final = 256
_MOST_ARGUMENTS: Final = 16
_MOST_BYTES: Final = 1 << 50  # more is damage


class Operands:
    """Collects the rows of `operands`, one per operation."""

    def __init__(self) -> None:
        self._seen, self._recorded = 0, False
        self._rows: list[int] = []
        self._codes: list[int] = []
        self._known: dict[tuple[bytes, bytes], int] = {}

    def add(
        self, events: list[Event[KinetoArgs]] | Records, at: NDArray[Any], rows: NDArray[Any]
    ) -> None:
        """Add some operations, in the order of the file.

        Args:
            events: The records.
            at: Positions of the operations among the records; (operations,).
            rows: Their slices; (operations,).
        """
        for position, row in zip(at[: _MOST - self._seen].tolist(), rows.tolist(), strict=False):
            if self._seen >= _FIRST and not self._recorded:
                return
            self._seen += 1
            args = args_of(events[position])
            if args.types:
                self._recorded = True
                key = bytes(args.types), bytes(args.dims)
                self._rows.append(row)
                self._codes.append(self._known.setdefault(key, len(self._known)))

    def finish(self, builder: TraceBuilder) -> None:
        """Add the rows to a builder, in which the names of all slices are interned already."""
        if self._rows:
            texts = [(_types(types), _shapes(dims)) for types, dims in self._known]
            ids = np.array(
                [
                    [NULL if text is None else builder.intern(text) for text in pair]
                    for pair in texts
                ]
            )
            types, shapes = ids[self._codes].T
            rows = np.asarray(self._rows, dtype=np.int64)
            builder.rows_from("operands", {"slice": rows, "types": types, "shapes": shapes})


def tensor_bytes(event: Event[KinetoArgs]) -> int:
    """Bytes of the tensors among the arguments; NULL if their types or sizes are not recorded.

    Args:
        event: The record of an operation.
    """
    args = args_of(event)
    types, shapes = _list_of(bytes(args.types)), _list_of(bytes(args.dims))
    if not types or not shapes or len(types) != len(shapes):
        return NULL
    widths = [_WIDTHS.get(str(name), 0) for name in types]
    if not all(widths) or not all(map(_is_shape, shapes)):
        return NULL
    total = sum(width * prod(sizes) for width, sizes in zip(widths, shapes, strict=True))
    return total if total < _MOST_BYTES else NULL


def _is_shape(sizes: Any) -> bool:
    return isinstance(sizes, list) and all(type(size) is int and size >= 0 for size in sizes)


def _types(text: bytes) -> str | None:
    """'float32,,int64' for the list of types in JSON; None if it is damaged."""
    names = _list_of(text)
    return None if names is None else ",".join(_TYPES.get(str(name), "") for name in names)


def _shapes(text: bytes) -> str | None:
    """'8x3,,8' for the list of sizes in JSON, '8x3+2x3,' with a list; None if it is damaged."""
    shapes = _list_of(text)
    return None if shapes is None else ",".join(map(_shape, shapes))


def _shape(sizes: Any) -> str:
    """Shape of a tensor, or of those in a list of several; '' for other arguments."""
    if not isinstance(sizes, list):
        return ""
    if 1 < len(sizes) <= _MOST_ARGUMENTS and all(isinstance(part, list) for part in sizes):
        shapes = [_shape(part) for part in sizes]
        return "+".join(shapes) if all(shapes) and "+" not in "".join(shapes) else ""
    return "x".join(map(str, sizes)) if all(type(size) is int for size in sizes) else ""


def _list_of(text: bytes) -> list[Any] | None:
    try:
        return msgspec.json.decode(text, type=list[Any])[:_MOST_ARGUMENTS]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
