"""Dumps of PyTorch's flight recorder, as pickle or JSON, one file per rank.

The file does not say which rank wrote it, but its name does: PyTorch appends the number to
`TORCH_NCCL_DEBUG_INFO_TEMP_FILE`, by default '/tmp/nccl_trace_rank_'.

Source: see `read.shared.recorder_dump`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepwhy.base.errors import EmptyInputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.recorder_dump import is_dump, read_dump
from stepwhy.trace import NULL, Meta, TraceBuilder

if TYPE_CHECKING:
    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Trace

FORMAT = "flight-recorder"

_RANK = regex(r"rank[-_.]?(\d{1,9})(?!\d)", re.IGNORECASE)
_LIMIT = (
    "a flight recorder lists the collectives that ranks have entered, not what takes the time of a "
    "step"
)


def recognise(source: Source) -> bool:
    """Whether the file is a pickle or an object with process groups and entries."""
    return is_dump(source.head)


def read(source: Source) -> Trace:
    """Read the collectives of one rank.

    Raises:
        CorruptInputError: Nothing of it can be read, or it is a pickle that would run code.
        EmptyInputError: It holds no collective.
    """
    builder = TraceBuilder()
    dump = read_dump(source.data, source.origin, builder)
    if not dump.count:
        raise EmptyInputError(
            f"{source.origin} holds no collective",
            "Dump it while a collective waits, with collectives included",
        )
    # The rank in the name of the file; NULL if it has none.
    found = _RANK.search(source.path.name) if source.path is not None else None
    rank = int(found[1]) if found else NULL
    return builder.finish(
        Meta(
            FORMAT,
            "pytorch",
            rank=rank,
            world_size=dump.world_size,
            signals=frozenset({"collective-calls", "open-collectives"}),
            limit=_LIMIT,
        )
    )
