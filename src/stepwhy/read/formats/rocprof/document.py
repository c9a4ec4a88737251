"""The JSON of rocprofv3 as processes with their records, damaged files included."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from stepwhy.base.errors import CorruptInputError
from stepwhy.base.patterns import regex
from stepwhy.read.shared.chrome_json.text import valid_text
from stepwhy.read.shared.repaired_json import repaired
from stepwhy.trace import NULL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepwhy.read.inputs.source import Source
    from stepwhy.trace import Health

_KEY = "rocprofiler-sdk-tool"
NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
LARGEST_ID = 2**62
"""No id of a healthy file is as large."""
T = TypeVar("T")


class Handle(msgspec.Struct, gc=False):
    """An id of an agent, a queue or a stream."""

    handle: int = NULL


class Correlation(msgspec.Struct, gc=False):
    """What joins a call with the work that it caused."""

    internal: int = NULL


class DispatchInfo(msgspec.Struct, gc=False):
    """Which kernel was dispatched where."""

    agent_id: Handle | None = None
    queue_id: Handle | None = None
    kernel_id: int = NULL


class Record(msgspec.Struct, gc=False):
    """A record of any buffer; fields that its buffer lacks are None or NULL."""

    kind: int = NULL
    operation: int = NULL
    thread_id: int = NULL
    start_timestamp: int = 0
    end_timestamp: int = 0
    correlation_id: Correlation | None = None
    dispatch_info: DispatchInfo | None = None
    stream_id: Handle | None = None
    src_agent_id: Handle | None = None
    dst_agent_id: Handle | None = None
    bytes: int = NULL


class Agent(msgspec.Struct, gc=False):
    """A CPU or a GPU: type 1 or 2."""

    id: Handle | None = None
    type: int = NULL
    name: str = ""
    product_name: str = ""
    node_id: int = NULL
    logical_node_type_id: int = NULL


class Symbol(msgspec.Struct, gc=False):
    """A kernel's names, from what the user asked for to what the linker calls it."""

    kernel_id: int = NULL
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    truncated_kernel_name: str = ""
    kernel_name: str = ""


class KindNames(msgspec.Struct, gc=False):
    """A kind of record and the names of its operations."""

    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct, gc=False):
    """The text of a marker, by its correlation id."""

    key: int = NULL
    value: str = ""


class Metadata(msgspec.Struct, gc=False):
    """The process id; hosts, users and paths are not read."""

    pid: int = NULL


class Buffer:
    """The records of one domain, a list of them at a time, as often as it is iterated.

    Args:
        parts: JSON lists, or lists of plain objects, that together are the domain's.
        has_streams: Whether a record names a stream other than number 0; None where that is not
            known.
    """

    def __init__(self, parts: Iterable[Any], *, has_streams: bool | None = None) -> None:
        self._parts, self._has_streams = parts, has_streams
        self.malformed = 0
        """Of those that were iterated last, records that fit no layout."""

    def __iter__(self) -> Iterator[list[Record]]:
        """The records that fit the layout.

        Raises:
            DecodeError: A part is not JSON.
        """
        self.malformed = 0
        for part in self._parts:
            records, malformed = _items(part, Record)
            self.malformed += malformed
            yield records

    def has_streams(self) -> bool:
        """Whether streams were traced: where they were not, all of them are number 0."""
        if self._has_streams is None:
            handles = (r.stream_id for records in self for r in records if r.stream_id is not None)
            self._has_streams = any(0 < h.handle < LARGEST_ID for h in handles)
        return self._has_streams


class Process(msgspec.Struct, frozen=True):
    """What one process wrote.

    Args:
        pid: Process id, NULL when not recorded.
        agents: CPUs and GPUs.
        symbols: Kernels.
        kinds: Kinds of records with the names of their operations; `Record.kind` is an index.
        messages: Text of every marker, by correlation id.
        buffers: Records by domain ('kernel_dispatch', 'hip_api', ...).
        counter_collections: Kernels that were recorded together with performance counters.
    """

    pid: int
    agents: list[Agent]
    symbols: list[Symbol]
    kinds: list[KindNames]
    messages: dict[int, str]
    buffers: dict[str, Buffer]
    counter_collections: int


class Document(msgspec.Struct, frozen=True):
    """The processes of a file; `complete` is False when it ends early."""

    processes: list[Process]
    complete: bool


def read_processes(source: Source, health: Health) -> Document:
    """Read every process of a file.

    Raises:
        CorruptInputError: Nothing of the file can be decoded.
    """
    data, complete = source.data.removeprefix(b"\xef\xbb\xbf"), True
    try:
        processes = decode_processes(data)
        _check(processes)
    except NOT_JSON:
        processes, complete = _decode_damaged(data, health, source)
    _count_torn(health, complete=complete)
    return Document(processes, complete)


def decode_processes(data: bytes, lists: Mapping[str, Buffer] | None = None) -> list[Process]:
    """Decode the processes of a file.

    Args:
        data: The file.
        lists: Records that were removed from the text, by their placeholder.

    Raises:
        DecodeError, UnicodeDecodeError, RecursionError: It is not JSON.
    """
    return [_process(e, lists or {}) for e in msgspec.json.decode(data, type=_Top).entries]


def _check(processes: list[Process]) -> None:
    """See that the records are JSON.

    Raises:
        DecodeError: They are not.
    """
    for process in processes:
        for buffer in process.buffers.values():
            for _ in buffer:
                pass


def _count_torn(health: Health, *, complete: bool) -> None:
    if not complete:
        health.count(
            "json-truncated",
            "error",
            "The file ends before its records do: later ones are missing. Totals and steps cover "
            "the readable part only. Copy the file again or let rocprofv3 finish writing.",
            dropped=False,
        )


class _Top(msgspec.Struct):
    entries: list[dict[str, msgspec.Raw]] = msgspec.field(name=_KEY)


def _decoded(text: bytes) -> list[Process]:
    top = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    if bytes(top.get(_KEY, b""))[:1] == b"{":  # the only process
        text = msgspec.json.encode({_KEY: [top[_KEY]]})
    processes = decode_processes(text)
    _check(processes)
    return processes


def _decode_damaged(data: bytes, health: Health, source: Source) -> tuple[list[Process], bool]:
    """The processes of a text that is not JSON, and whether its end is there.

    Statistics may be NaN, a record may be damaged, a copy may end early.
    """
    text = valid_text(data, health)[:]
    closed, ends_early = _closed(text)
    # Plain objects of all records would take fifteen times the text.
    for candidate, complete in ((text, True), (closed, False))[: 1 + ends_early]:
        with suppress(*NOT_JSON):
            return _decoded(candidate), complete
    found = repaired(text, health)
    if found is not None:
        with suppress(*NOT_JSON):
            return _decoded(found.text), found.complete
    raise CorruptInputError(
        f"{source.origin} is a rocprofv3 result of which nothing can be decoded",
        "Copy the file again, or record again with 'rocprofv3 --output-format json'",
    )


# A repeated choice would keep a hundred bytes for each character of a text.
_TOKEN = regex(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]')
_CLOSING = {b"{": b"}", b"[": b"]"}
# Results nest ten levels; what nests deeper is damage.
_DEEPEST = 100


def _closed(text: bytes) -> tuple[bytes, bool]:
    """A text that ends early, cut after its last whole item of a list and closed.

    Returns:
        The text, and whether it ends early.
    """
    stack: list[bytes] = []
    end, closing = 0, b""
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if len(stack) > _DEEPEST:
            break
        if mark in _CLOSING:
            stack.append(_CLOSING[mark])
        elif mark[:1] != b'"' and stack:
            stack.pop()
            if stack and stack[-1] == b"]":
                end, closing = token.end(), b"".join(reversed(stack))
    return text[:end] + closing, bool(stack)


def _process(fields: Mapping[str, Any], lists: Mapping[str, Buffer] | None = None) -> Process:
    """One process.

    Raises:
        DecodeError: A part of it is not JSON.
    """
    strings = _fields(fields.get("strings"))
    metadata, _ = _items([_plain(fields.get("metadata"))], Metadata)
    messages, _ = _items(strings.get("marker_api"), Message)
    buffers = _fields(fields.get("buffer_records"))
    callbacks = _fields(fields.get("callback_records"))
    return Process(
        pid=metadata[0].pid if metadata else NULL,
        agents=_items(fields.get("agents"), Agent)[0],
        symbols=_items(fields.get("kernel_symbols"), Symbol)[0],
        kinds=_items(strings.get("buffer_records"), KindNames)[0],
        messages={m.key: m.value for m in messages},
        buffers={name: _buffer(value, lists or {}) for name, value in buffers.items()},
        counter_collections=len(_items(callbacks.get("counter_collection"), Record)[0]),
    )


def _buffer(value: Any, lists: Mapping[str, Buffer]) -> Buffer:
    if lists and isinstance(value, msgspec.Raw):
        text = bytes(value).decode(errors="replace")
        return lists.get(text) or Buffer([value])
    return Buffer([value])


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _fields(value: Any) -> dict[str, Any]:
    """The fields of an object, undecoded where it is; none of anything else."""
    if isinstance(value, msgspec.Raw):
        try:
            return dict(msgspec.json.decode(value, type=dict[str, msgspec.Raw]))
        except msgspec.ValidationError:
            return {}
    return value if isinstance(value, dict) else {}


def _items(value: Any, kind: type[T]) -> tuple[list[T], int]:
    """The items of a list that fit a layout, and how many do not."""
    if isinstance(value, msgspec.Raw):
        try:
            return msgspec.json.decode(value, type=list[kind]), 0  # type: ignore[valid-type]
        except msgspec.ValidationError:
            value = _plain(value)
    plain = value if isinstance(value, list) else []
    items, malformed = [], 0
    for item in plain:
        try:
            items.append(msgspec.convert(item, kind, strict=False))
        except (msgspec.ValidationError, RecursionError):
            malformed += 1
    return items, malformed
