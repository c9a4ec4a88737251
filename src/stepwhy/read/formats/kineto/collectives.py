"""What the records of collectives say about them.

Source: `output_json.cpp` of libkineto, which copies the arguments of `record_param_comms` to the
kernels that it launched; `ParamCommsUtils.hpp` of PyTorch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from stepwhy.read.formats.kineto.arguments import KinetoArgs, args_of, column
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepwhy.read.shared.chrome_json import Event
    from stepwhy.trace import TraceBuilder

# Bytes of an element, by PyTorch's names of types.
_BYTES: Final = {
    "Bool": 1, "Byte": 1, "Char": 1, "Short": 2, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4,
    "Long": 8, "Double": 8, "ComplexHalf": 4, "ComplexFloat": 8, "ComplexDouble": 16,
    "Float8_e4m3fn": 1, "Float8_e5m2": 1, "Float8_e4m3fnuz": 1, "Float8_e5m2fnuz": 1,
}  # fmt: skip
_MOST_ELEMENTS: Final = 1 << 48  # more is damage


def add_collectives(
    builder: TraceBuilder, events: list[Event[KinetoArgs]], slices: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Add those collectives whose group is recorded.

    Args:
        builder: Receives them.
        events: Records of collectives on devices.
        slices: Their slices; (events,).

    Returns:
        The bytes of each, by the larger of what a rank sends and receives; NULL if unknown.
    """
    args = list(map(args_of, events))
    ranks = column(args, "ranks")
    rows = np.flatnonzero(ranks > 0)
    if not len(rows):
        return np.full(len(events), NULL)
    texts = ("operation", "group", "members", "description")
    builder.rows_from(
        "collectives",
        {"slice": slices[rows], "ranks": ranks[rows]}
        | {name: [_text(builder, getattr(args[i], name)) for i in rows.tolist()] for name in texts},
    )
    elements = np.maximum(column(args, "received"), column(args, "sent"))
    width = np.asarray([_BYTES.get(str(each.dtype), 0) for each in args])
    known = (elements > 0) & (elements < _MOST_ELEMENTS) & (width > 0)
    return np.where(known, elements * width, NULL)


def _text(builder: TraceBuilder, value: Any) -> int:
    return builder.intern(value) if isinstance(value, str) and value else NULL
