"""Read a RunMetadata or StepStats message in chunks, because its lists can be large.

A protobuf message is the concatenation of its fields, so any run of whole fields is a valid message
too. This module only finds the offsets of fields; `google.protobuf` parses their contents.

Source: "Encoding" in the Protocol Buffers documentation; `config.proto`, `step_stats.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from stepwhy.read.inputs.source import let_go
from stepwhy.read.inputs.wire import Nested, close_torn, fields
from stepwhy.read.shared.tensorflow.messages import parse_message

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterable, Iterator

    from stepwhy.read.inputs.wire import Field

    Data = bytes | mmap.mmap
    Cut = tuple[int, int]

# Field numbers of messages that are kept when they are truncated: devices of step statistics, and
# graphs. A truncated entry or node is dropped.
_STEP_STATS: Nested = {1: {}}
_RUN_METADATA: Nested = {1: _STEP_STATS, 3: {}, 4: {1: {}}}
_STATS, _GRAPH, _FUNCTION = 1, 3, 4
_INNER = 1  # devices of statistics, graphs of a function, the name of a device
# Minimum size of a chunk, bytes; it ends with the field that reaches this size.
_CHUNK = 1 << 19
_LARGEST_NUMBER = (1 << 29) - 1


class DamagedError(Exception):
    """A field is not a valid message."""


class Device(NamedTuple):
    """The statistics of one device.

    Args:
        name: Name of the device.
        chunks: `DeviceStepStats` messages that together contain its entries.
    """

    name: bytes
    chunks: Iterable[Any]


class Whole:
    """The messages of a file, parsed at once.

    Args:
        name: 'StepStats' or 'RunMetadata'.
        data: The file.

    Raises:
        DamagedError: The file cannot be parsed.
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
    """Byte range of a message; a truncated one ends with the file."""

    start: int
    end: int
    is_torn: bool


class Chunks:
    """The messages of a file, parsed in chunks.

    Args:
        name: 'StepStats' or 'RunMetadata'.
        data: The file.

    Attributes:
        is_torn: Whether the file ends before its message does.
        graphs: `GraphDef` messages that together contain the nodes of all partition graphs; empty
            if there is no graph.

    Raises:
        DamagedError: A field is not a valid message; also raised while iterating.
    """

    def __init__(self, name: str, data: Data) -> None:
        self._data = data
        self.is_torn = any(field.end > len(data) for field in fields(data))
        top = [_Span(0, len(data), self.is_torn)]
        is_stats = name == "StepStats"
        self._stats = top if is_stats else self._nested_messages(top, _STATS)
        graphs = [] if is_stats else self._nested_messages(top, _GRAPH)
        graphs += (
            [] if is_stats else self._nested_messages(self._nested_messages(top, _FUNCTION), _INNER)
        )
        self.graphs = _Parsed(data, "GraphDef", [c for g in graphs for c in self._cuts(g)[0]])
        if graphs and not self.graphs:
            self.graphs = _Parsed(data, "GraphDef", [(0, 0)])  # a graph without nodes

    def devices(self) -> Iterator[Device]:
        """The devices of the step statistics."""
        for span in self._nested_messages(self._stats, _INNER):
            cuts, last = self._cuts(span)
            name = b"" if last is None else self._data[last.start : last.end]
            yield Device(name, _Parsed(self._data, "DeviceStepStats", cuts))

    def _nested_messages(self, spans: Iterable[_Span], number: int) -> list[_Span]:
        """The messages in a field of messages."""
        return [
            _Span(field.start, min(field.end, span.end), field.end > span.end)
            for span in spans
            for field in self._fields(span)
            if field.number == number and field.is_message
        ]

    def _cuts(self, span: _Span) -> tuple[list[Cut], Field | None]:
        """Byte ranges of the chunks of a message, in whole fields, and its last field 1.

        In the statistics of a device, field 1 is its name.
        """
        cuts, begin, end = [], span.start, span.start
        last = None
        for field in self._fields(span):
            if field.end > span.end:
                break
            end = field.end
            if field.number == _INNER and field.is_message:
                last = field
            if end - begin >= _CHUNK:
                cuts.append((begin, end))
                let_go(self._data, begin, end)
                begin = end
        return ([*cuts, (begin, end)] if end > begin else cuts), last

    def _fields(self, span: _Span) -> Iterator[Field]:
        """The fields of a message; only the last field of a truncated one may end after it."""
        end = span.start
        for field in fields(self._data, span.start, span.end):
            end = field.end
            if field.number > _LARGEST_NUMBER or (end > span.end and not span.is_torn):
                raise DamagedError(field.number)
            yield field
        if end < span.end and not span.is_torn:
            raise DamagedError(end)


class _Parsed:
    """Parses the chunks of a message lazily; can be iterated several times.

    Args:
        data: The file.
        name: Name of the message.
        cuts: Byte ranges of the chunks.
    """

    def __init__(self, data: Data, name: str, cuts: list[Cut]) -> None:
        self._data, self._name, self._cuts = data, name, cuts

    def __len__(self) -> int:
        """Number of chunks."""
        return len(self._cuts)

    def __iter__(self) -> Iterator[Any]:
        """The messages.

        Raises:
            DamagedError: A chunk is not a valid message.
        """
        for begin, end in self._cuts:
            message = parse_message(self._name, self._data[begin:end])
            if message is None:
                raise DamagedError(self._name)
            yield message
            let_go(self._data, begin, end)
