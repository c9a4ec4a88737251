"""Read a ProfileProto message in chunks.

A protobuf message is the concatenation of its fields, so any run of whole fields is a valid message
too.

Source: "Encoding" in the Protocol Buffers documentation; `tfprof_log.proto`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepwhy.read.inputs.source import let_go
from stepwhy.read.inputs.wire import fields
from stepwhy.read.shared.program_files import is_program_file, shown_line
from stepwhy.read.shared.tensorflow.graphs import text
from stepwhy.read.shared.tensorflow.messages import parse_message

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator, Mapping

# Minimum size of a chunk, bytes; it ends with the field that reaches this size.
_CHUNK = 1 << 19
# Bytes before a chunk that reading it maps into memory.
_AROUND = 1 << 16

# Number 0 stands for 'not known'.
_NO_TEXT = 0


class ProfileChunks:
    """The nodes of a profile, without damaged entries.

    Args:
        data: The file.

    Attributes:
        names: Names of all nodes by id.
        code: Lines of code that nodes refer to.
        damaged: Number of damaged entries.
        is_torn: Whether the file ends before its message does.
    """

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self._data = data
        self._cuts: list[tuple[int, int]] = []
        self.is_torn = self._cut() != len(data)
        self.damaged = 0
        self.names: dict[int, str] = {}
        texts: dict[int, str] = {}
        for profile in self._chunks():
            self.names.update((entry.key, text(entry.value.name)) for entry in profile.nodes)
            texts.update((entry.key, text(entry.value)) for entry in profile.id_to_string)
        self.code = CodeDefs(texts)

    def __iter__(self) -> Iterator[Any]:
        """All nodes as `ProfileNode` messages."""
        return (entry.value for profile in self._chunks() for entry in profile.nodes)

    def _cut(self) -> int:
        """Find the byte ranges of the chunks; returns the end of the last field."""
        begin = end = 0
        for field in fields(self._data):
            end = field.end
            if end - begin >= _CHUNK and end <= len(self._data):
                self._cuts.append((begin, end))
                let_go(self._data, begin, end)
                begin = end
        self._cuts.append((begin, min(end, len(self._data))))
        return end

    def _chunks(self) -> Iterator[Any]:
        """`ProfileProto` messages that together contain all readable entries."""
        self.damaged = 0
        for begin, end in self._cuts:
            profile = parse_message("ProfileProto", self._data[begin:end])
            if profile is not None:
                yield profile
            else:
                yield from self._readable_entries(begin, end)
            let_go(self._data, max(begin - _AROUND, 0), end)

    def _readable_entries(self, begin: int, end: int) -> Iterator[Any]:
        """The readable entries of a damaged or truncated chunk, one by one."""
        for field in fields(self._data, begin, end):
            profile = parse_message("ProfileProto", self._data[field.key : field.end])
            if profile is not None:
                yield profile
            else:
                self.damaged += field.end <= len(self._data)


class CodeDefs:
    """Finds the innermost line of the program's own code, where a node of the graph was made.

    Source: `CodeDef` of tfprof_log.proto, `tfprof_logger.py` (frames outermost first, texts by
    number).

    Args:
        texts: `id_to_string` of the profile: texts by their numbers.
    """

    def __init__(self, texts: Mapping[int, str]) -> None:
        self._texts = texts

    def line(self, code: Any) -> str:
        """'train.py(41): tower' of a `CodeDef`; '' where none of its frames is the program's."""
        for frame in reversed(code.traces):
            file = self._text(frame.file_id, frame.file)
            if frame.lineno > 0 and is_program_file(file):
                function = self._text(frame.function_id, frame.function)
                return shown_line(file, frame.lineno, function)
        return ""

    def _text(self, number: int, written: bytes) -> str:
        """A text by its number, or as early releases wrote it in its place."""
        return text(written) if number == _NO_TEXT else self._texts.get(number, "")
