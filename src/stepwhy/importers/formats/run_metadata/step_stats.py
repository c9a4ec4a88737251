"""A RunMetadata or StepStats, read a piece at a time: what is large in it are lists.

A message is the concatenation of its fields, so that some of its fields are a message, too. Only
where fields lie is found out here; what is in them is parsed by `google.protobuf`.

Source: "Encoding" in the Protocol Buffers documentation; `config.proto`, `step_stats.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.importers.shared.tensorflow.messages import parse_message
from stepwhy.inputs.source import let_go
from stepwhy.inputs.wire import Nested, close_torn, fields

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator

    from stepwhy.inputs.wire import Field

    Data = bytes | mmap.mmap
    Cut = tuple[int, int]

# Messages of which a part is worth keeping, by field number: the devices of step statistics, the
# graphs. An entry or node that is torn itself is not.
_STEP_STATS: Nested = {1: {}}
_RUN_METADATA: Nested = {1: _STEP_STATS, 3: {}, 4: {1: {}}}
_STATS, _GRAPH, _FUNCTION = 1, 3, 4
_INNER = 1  # devices of statistics, graphs of a function, the name of a device
# A piece ends with the field that reaches so many bytes.
_PIECE = 1 << 19
_LARGEST_NUMBER = (1 << 29) - 1


class DamagedError(Exception):
    """A part of the message is none."""


class Device(NamedTuple):
    """The statistics of one device.

    Args:
        name: Its name.
        pieces: `DeviceStepStats` messages that together hold its entries.
    """

    name: bytes
    pieces: Iterable[Any]


class Whole:
    """The messages of a file that is parsed at once.

    Args:
        name: 'StepStats' or 'RunMetadata'.
        data: The file.

    Raises:
        DamagedError: Nothing of it can be read.
    """

    def __init__(self, name: str, data: bytes) -> None:
        is_stats = name == "StepStats"
        message = parse_message(name, data)
        self.is_torn = message is None
        if message is None:
            nested = _STEP_STATS if is_stats else _RUN_METADATA
            message = parse_message(name, close_torn(data, nested))
        if message is None:
            raise DamagedError(name)
        self._stats = message if is_stats else message.step_stats
        self.graphs: list[Any] = [] if is_stats else _partition_graphs(message)

    def devices(self) -> Iterator[Device]:
        """The devices of the step statistics."""
        return (Device(device.device, [device]) for device in self._stats.dev_stats)


def _partition_graphs(metadata: Any) -> list[Any]:
    inside_functions = (g for f in metadata.function_graphs for g in f.partition_graphs)
    return [*metadata.partition_graphs, *inside_functions]


class _Span(NamedTuple):
    """Where a message lies; one that is torn ends with the file."""

    start: int
    end: int
    is_torn: bool


class Pieces:
    """The messages of a file, as pieces of them.

    Args:
        name: 'StepStats' or 'RunMetadata'.
        data: The file.

    Attributes:
        is_torn: Whether the file ends before its message does.
        graphs: `GraphDef` messages that together hold the nodes of all partition graphs; empty
            where there is no graph.

    Raises:
        DamagedError: Here or later: a part of it is no message.
    """

    def __init__(self, name: str, data: Data) -> None:
        self._data = data
        self.is_torn = any(field.end > len(data) for field in fields(data))
        top = [_Span(0, len(data), self.is_torn)]
        is_stats = name == "StepStats"
        self._stats = top if is_stats else self._inside(top, _STATS)
        graphs = [] if is_stats else self._inside(top, _GRAPH)
        graphs += [] if is_stats else self._inside(self._inside(top, _FUNCTION), _INNER)
        self.graphs = _Parsed(data, "GraphDef", [c for g in graphs for c in self._cuts(g)[0]])
        if graphs and not self.graphs:
            self.graphs = _Parsed(data, "GraphDef", [(0, 0)])  # without a node, it is one still

    def devices(self) -> Iterator[Device]:
        """The devices of the step statistics."""
        for span in self._inside(self._stats, _INNER):
            cuts, last = self._cuts(span)
            name = b"" if last is None else self._data[last.start : last.end]
            yield Device(name, _Parsed(self._data, "DeviceStepStats", cuts))

    def _inside(self, spans: Iterable[_Span], number: int) -> list[_Span]:
        """The messages in a field of messages."""
        return [
            _Span(field.start, min(field.end, span.end), field.end > span.end)
            for span in spans
            for field in self._fields(span)
            if field.number == number and field.is_message
        ]

    def _cuts(self, span: _Span) -> tuple[list[Cut], Field | None]:
        """Where the pieces of a message lie, of whole fields each, and its last field 1.

        In the statistics of a device that is its name.
        """
        cuts, begin, end = [], span.start, span.start
        last = None
        for field in self._fields(span):
            if field.end > span.end:
                break
            end = field.end
            if field.number == _INNER and field.is_message:
                last = field
            if end - begin >= _PIECE:
                cuts.append((begin, end))
                let_go(self._data, begin, end)
                begin = end
        return ([*cuts, (begin, end)] if end > begin else cuts), last

    def _fields(self, span: _Span) -> Iterator[Field]:
        """The fields of a message; only the last one of a torn message may end behind it."""
        end = span.start
        for field in fields(self._data, span.start, span.end):
            end = field.end
            if field.number > _LARGEST_NUMBER or (end > span.end and not span.is_torn):
                raise DamagedError(field.number)
            yield field
        if end < span.end and not span.is_torn:
            raise DamagedError(end)


class _Parsed:
    """Parses the pieces of a message one by one, as often as it is iterated.

    Args:
        data: The file.
        name: Name of the message.
        cuts: Where its pieces lie.
    """

    def __init__(self, data: Data, name: str, cuts: list[Cut]) -> None:
        self._data, self._name, self._cuts = data, name, cuts

    def __len__(self) -> int:
        """Number of pieces."""
        return len(self._cuts)

    def __iter__(self) -> Iterator[Any]:
        """The messages.

        Raises:
            DamagedError: One of them is none.
        """
        for begin, end in self._cuts:
            message = parse_message(self._name, self._data[begin:end])
            if message is None:
                raise DamagedError(self._name)
            yield message
            let_go(self._data, begin, end)


__all__ = ["DamagedError", "Device", "Pieces", "Whole"]
