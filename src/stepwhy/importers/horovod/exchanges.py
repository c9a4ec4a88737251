"""The rows of a Horovod timeline: one per tensor, with its negotiations and exchanges."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from stepwhy.patterns import regex
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepwhy.importers.chrome_json import Event, Records
    from stepwhy.importers.chrome_span_lists import Span

NEGOTIATION = "NEGOTIATE_"
"""What the name of every negotiation begins with; the kind of exchange follows."""

_ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4, "int64": 8, "float64": 8,
}  # fmt: skip
_SHAPE = regex(r"\[(?:\d{1,12}(?:, ?\d{1,12})*)?\]")
LARGEST_BYTES = 1 << 62
"""No exchange is larger."""

# Each rank that is ready is a tick of no length, named by its number.
_RANK = regex(r"\d{1,7}")
# Activities: the exchange itself, copies for it, waits before it, and what prepares it.
EXCHANGE = regex(r"(?:NCCL|MPI|GLOO|CCL|DDL)_\w+")
COPY = regex(r"MEMCPY_\w+|COPY_\w+")
WAIT = regex(r"WAIT_\w+|QUEUE")
_OTHER_ACTIVITY = regex(r"(?:INIT|ALLOCATE)_\w+")
_ACTIVITIES = (EXCHANGE, COPY, WAIT, _OTHER_ACTIVITY)


class Piece(msgspec.Struct, frozen=True):
    """A range on a row.

    Args:
        name: The exchange, activity or negotiation.
        start_ns, end_ns: When.
        parent: The exchange that the activity is a part of; None for one itself.
        bytes: Size of the tensor; NULL where it is not known.
    """

    name: str
    start_ns: int
    end_ns: int
    parent: Piece | None = None
    bytes: int = NULL

    @property
    def size(self) -> int:
        """Bytes of the tensor that is exchanged, NULL where they are not known."""
        return self.parent.bytes if self.parent is not None else self.bytes


class Tick(NamedTuple):
    """A rank that has become ready."""

    rank: int
    time_ns: int


class TensorRow(msgspec.Struct):
    """Everything about one tensor, in the order of time."""

    number: int
    tensor: str
    negotiations: list[Piece] = msgspec.field(default_factory=list)
    exchanges: list[Piece] = msgspec.field(default_factory=list)
    activities: list[Piece] = msgspec.field(default_factory=list)
    ticks: list[Tick] = msgspec.field(default_factory=list)


def rows_of(records: Records[dict[str, Any]], spans: Sequence[Span]) -> list[TensorRow]:
    """The rows of a timeline, in the order in which they first appear.

    Args:
        records: The file's records.
        spans: Their ranges.
    """
    names = _tensor_names(records)
    rows: dict[Any, TensorRow] = {}
    for span in sorted(spans, key=lambda s: (s.start_ns, -s.dur_ns)):
        event = records.events[span.first]
        if event.pid not in rows:
            tensor = names.get(event.pid, f"tensor {event.pid}")
            rows[event.pid] = TensorRow(len(rows) + 1, tensor)
        _place(rows[event.pid], event, span, records.events[span.last].args)
    return list(rows.values())


def _tensor_names(records: Records[dict[str, Any]]) -> dict[Any, str]:
    named = [e for e in records.events if e.ph == "M" and e.name == "process_name" and e.args]
    names = {e.pid: (e.args or {}).get("name") for e in named}
    return {pid: name for pid, name in names.items() if isinstance(name, str) and name}


def _place(
    row: TensorRow, event: Event[dict[str, Any]], span: Span, closing: dict[str, Any] | None
) -> None:
    """Add a range to its row; ranges come outermost first."""
    if event.ph == "X" and _RANK.fullmatch(event.name):
        row.ticks.append(Tick(int(event.name), span.start_ns))
        return
    if event.name.startswith(NEGOTIATION):
        row.negotiations.append(Piece(event.name, span.start_ns, span.end_ns))
        return
    around = next((e for e in row.exchanges[-1:] if span.start_ns < e.end_ns), None)
    # The exchange around an activity has no end where the file stops inside of it.
    if around or any(pattern.fullmatch(event.name) for pattern in _ACTIVITIES):
        row.activities.append(Piece(event.name, span.start_ns, span.end_ns, around))
    else:
        size = _bytes_of(closing)
        row.exchanges.append(Piece(event.name, span.start_ns, span.end_ns, bytes=size))


def _bytes_of(closing: dict[str, Any] | None) -> int:
    """Size of a tensor from {'dtype': 'float32', 'shape': '[3, 4]'}; NULL where one is missing."""
    dtype, shape = (closing or {}).get("dtype"), (closing or {}).get("shape")
    item = _ITEM_BYTES.get(dtype) if isinstance(dtype, str) else None
    if item is None or not isinstance(shape, str) or not _SHAPE.fullmatch(shape):
        return NULL
    size = item * prod(int(n) for n in re.findall(r"\d+", shape))
    return size if size < LARGEST_BYTES else NULL
