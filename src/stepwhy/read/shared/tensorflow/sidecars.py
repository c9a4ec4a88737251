"""Files that a capture leaves beside a RunMetadata: what the program asked for, and from where.

- ``graph.pb``: the GraphDef as the program built it;
- ``sources.json.gz``: source line and device scopes of every op, the session's devices, and source
  lines of ops in functions; earlier versions wrote ``sources.json``;
- ``window.json``: when the driving thread was inside ``Session.run``.

Each file is optional. A damaged or refused one is counted, and its information is missing.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stepwhy.base.errors import InputError
from stepwhy.read.inputs.side_files import MOST_BYTES, decompressed
from stepwhy.read.shared.tensorflow.device_spec import (
    DeviceSpec,
    canonical,
    conflicts,
    merge,
    parse_device,
)
from stepwhy.read.shared.tensorflow.graphs import nodes_of
from stepwhy.read.shared.tensorflow.messages import parse_message
from stepwhy.read.shared.tensorflow.node_lines import NodeLines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepwhy.read.inputs.source import Source
    from stepwhy.read.shared.tensorflow.graphs import Node
    from stepwhy.trace import Health

T = TypeVar("T")


class Scope(msgspec.Struct, frozen=True):
    """A `tf.device` block around the line that created an op; '' clears the outer ones."""

    device: str | None = ""
    line: str | None = None


class OpSource(msgspec.Struct, frozen=True):
    """Where an op was created and inside which device scopes, outermost first."""

    source: str | None = None
    requested: str | None = None
    scopes: tuple[Scope, ...] = ()


class SessionValue(msgspec.Struct, frozen=True):
    """A value that was fed to a run or fetched from it: its type, shape and size.

    Equal values that were fed have the same fingerprint.
    """

    name: str
    python_type: str | None = msgspec.field(name="given", default=None)
    graph_type: str | None = msgspec.field(name="wanted", default=None)
    shape: tuple[int, ...] | None = None
    bytes: int | None = None
    fingerprint: int | None = None


class Window(msgspec.Struct, frozen=True):
    """When `Session.run` was entered and left, ns on the epoch clock, from where, with what."""

    kind: str
    start_ns: int
    end_ns: int
    step: int | None = None
    source: str = ""
    feeds: tuple[SessionValue, ...] = ()
    fetches: tuple[SessionValue, ...] = ()


class Decision(msgspec.Struct, frozen=True):
    """Which scope decided a device request.

    Args:
        outer: Device that enclosing scopes asked for before one inside contradicted them, or ''.
        line: Source line of the scope that decided, or ''.
    """

    outer: str = ""
    line: str = ""


class Sources(msgspec.Struct, frozen=True):
    """What the program's process knew.

    Args:
        ops: Source and device scopes by op name.
        devices: Names of the session's devices, also of those that did nothing.
        callers: Source of the call of each function, by its name.
        functions: Of each function, by source and scope, the names of ops, separated by spaces.
    """

    ops: dict[str, OpSource] = msgspec.field(default_factory=dict)
    devices: tuple[str, ...] = ()
    callers: dict[str, str] = msgspec.field(default_factory=dict)
    functions: dict[str, dict[str, dict[str, str]]] = msgspec.field(default_factory=dict)

    def node_lines(self, graph: Mapping[str, Node]) -> NodeLines:
        """Finds the line of the program that causes a node.

        Args:
            graph: The nodes of the program's graph by name, as far as they are recorded.
        """
        # Of nodes of one name, that of the first function counts, which was traced last.
        lines = {
            (f"{scope}/{name}" if scope else name): line
            for function in reversed(self.functions.values())
            for line, scopes in function.items()
            for scope, names in scopes.items()
            for name in names.split(" ")
        }
        lines |= {node: about.source for node, about in self.ops.items() if about.source}
        bound = {node.name: node.colocated for node in graph.values() if node.colocated}
        return NodeLines(lines, bound)


def requested_graph(source: Source, health: Health) -> dict[str, Node]:
    """Nodes of the program's graph by name, from 'graph.pb'; empty when it is not there."""
    data = _read_beside(source, "graph.pb", health)
    graph = parse_message("GraphDef", data) if data is not None else None
    if data is not None and graph is None:
        _count_unreadable(health)
    return {} if graph is None else {n.name: n for n in nodes_of([graph])}


def program_sources(source: Source, health: Health) -> Sources:
    """The content of 'sources.json.gz', or of 'sources.json'; empty if there is no such file."""
    packed = _read_beside(source, "sources.json.gz", health)
    data = _read_beside(source, "sources.json", health) if packed is None else _unpacked(packed)
    return _decode(data, Sources, health) or Sources()


def _unpacked(data: bytes) -> bytes:
    """The content of a compressed file, empty if it is damaged."""
    try:
        return decompressed(data, MOST_BYTES)
    except zlib.error:
        return b""


def run_window(source: Source, health: Health) -> Window | None:
    """The run's window from 'window.json'; None when it is not there or holds another kind."""
    window = _decode(_read_beside(source, "window.json", health), Window, health)
    if window is None or window.kind != "tf1-run":
        return None
    if 0 <= window.start_ns <= window.end_ns < 1 << 62:
        return window
    _count_unreadable(health)
    return None


def decide(
    scopes: Sequence[Scope], requested: str = "", answers: Mapping[Scope, str] | None = None
) -> Decision:
    """Which of nested device scopes decided, and what it overruled.

    The scope that last contradicted what was asked for outside of it decides; without a
    contradiction the innermost one does. If no scope shows what contradicts the device that the op
    finally asked for, the outermost function did, because TensorFlow calls it last.

    Args:
        scopes: Outermost first.
        requested: Device that the op finally asked for; '' if none or unknown.
        answers: Devices that functions among the scopes choose, where they are known.
    """
    known = answers or {}
    asked, decision, overruled = DeviceSpec(), Decision(), False
    for scope in scopes:
        line = scope.line or ""
        spec = parse_device(known.get(scope, scope.device or "")) or DeviceSpec()
        if not scope.device:
            asked, decision, overruled = DeviceSpec(), Decision(line=line), False
        elif conflicts(asked, spec):
            decision, overruled = Decision(canonical(asked), line), True
        elif not overruled:
            decision = Decision(line=line)
        asked = merge(asked, spec)
    function = next((scope for scope in scopes if is_function(scope)), None)
    if function is not None and conflicts(asked, parse_device(requested) or DeviceSpec()):
        return Decision(canonical(asked), function.line or "")
    return decision


def is_function(scope: Scope) -> bool:
    """Whether a device scope holds a function; its answer for an op is not recorded."""
    return bool(scope.device) and parse_device(scope.device or "") is None


def _read_beside(source: Source, name: str, health: Health) -> bytes | None:
    """The content of a file beside the trace, None where there is none or it is refused."""
    try:
        return source.beside(name)
    except InputError:
        health.count(
            "side-file-refused",
            "warning",
            "A file beside the trace (graph.pb, sources.json.gz or window.json) was not read: it "
            "is a pipe, a device or a link out of the folder, or it is too large or not readable. "
            "Requested devices, source lines or the step's wall time are missing.",
            dropped=False,
        )
        return None


def _decode(data: bytes | None, kind: type[T], health: Health) -> T | None:
    if data is None:
        return None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        _count_unreadable(health)
        return None


def _count_unreadable(health: Health) -> None:
    health.count(
        "unreadable-sidecar",
        "warning",
        "A file beside the trace (graph.pb, sources.json.gz or window.json) is damaged: requested "
        "devices, source lines or the step's wall time are missing.",
        dropped=False,
    )
