"""Trace a `Session.run`, and write its window.

A traced run is the user's own run with a trace level and partition graphs added to its options.

Source of the options: tensorflow/core/protobuf/config.proto, `RunOptions` and `RunMetadata`.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from stepwhy.record.core.recorder import Recorder, write_json
from stepwhy.record.core.user_code import UserFiles, source_of
from stepwhy.record.watchers.batch_lines import log_batch_lines
from stepwhy.record.watchers.graph_lines import GraphLines, called_graphs, stack_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

METADATA_FILE = "run_metadata.pb"
GRAPH_FILE = "graph.pb"
SOURCES_FILE = "sources.json.gz"
_PROFILER = "tensorflow.python.profiler.profiler_v2"


def own_profiler(session: Any, options: Any) -> str:
    """The training's own profiler that prevents the trace of a run; '' if there is none.

    Args:
        session: The session that runs it.
        options: The user's `RunOptions`, or None.
    """
    # MonitoredSession always passes options. A level above zero is the user's own trace.
    if options is not None and options.trace_level != 0:
        return "RunOptions.trace_level"
    profiler = getattr(sys.modules.get(_PROFILER), "_profiler", None)
    return "tf.profiler" if profiler is not None and _is_remote(session) else ""


def traced_options(protos: Any, session: Any, options: Any) -> Any:
    """Options that trace a run, including the user's own.

    Args:
        protos: The module that holds `RunOptions`.
        session: The session that runs it.
        options: The user's `RunOptions`, or None.
    """
    traced = protos.RunOptions()
    if options is not None:
        traced.CopyFrom(options)
    # A distributed master collects nothing below FULL_TRACE. In one process that level conflicts
    # with other profilers, and SOFTWARE_TRACE shows the same nodes.
    level = "FULL_TRACE" if _is_remote(session) else "SOFTWARE_TRACE"
    traced.trace_level = protos.RunOptions.TraceLevel.Value(level)
    traced.output_partition_graphs = True
    return traced


def _is_remote(session: Any) -> bool:
    """Whether a session runs on a server."""
    return bool(getattr(session, "_target", b""))


def copy_metadata(ours: Any, theirs: Any, options: Any) -> None:
    """Fill the user's `RunMetadata` as an untraced run would have.

    Args:
        ours: That of the traced run.
        theirs: That of the user, or None.
        options: The user's `RunOptions`, or None.
    """
    if theirs is None:
        return
    theirs.CopyFrom(ours)
    theirs.ClearField("step_stats")
    theirs.ClearField("cost_graph")
    if options is None or not options.output_partition_graphs:
        theirs.ClearField("partition_graphs")


class WindowWriter:
    """Writes one window per traced run; windows of an unchanged graph share its files.

    Args:
        recorder: Writes the windows.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._graph: tuple[int, int] | None = None
        self._shared: Path | None = None

    def write(self, about: Mapping[str, Any], metadata: Any, session: Any) -> int:
        """Add the window of one run.

        Args:
            about: Members of `window.json`.
            metadata: The run's `RunMetadata`.
            session: The session that ran it.

        Returns:
            Bytes of the metadata.
        """
        graph = session.graph
        number = getattr(graph, "version", None)  # unknown: it may have changed
        version = None if number is None else (id(graph), number)
        shared = self._shared if version is not None and version == self._graph else None

        data: bytes = metadata.SerializeToString()

        def fill(folder: Path) -> None:
            (folder / METADATA_FILE).write_bytes(data)
            if shared is not None:
                for name in (GRAPH_FILE, SOURCES_FILE):
                    os.link(shared / name, folder / name)
            else:
                _write_graph(folder, session)

        self._shared = self._recorder.window(about, fill)
        if shared is None:
            log_batch_lines(graph, "graph", stack_lines, self._recorder)
        self._graph = version
        return len(data)


def _write_graph(folder: Path, session: Any) -> None:
    """Write the graph as the program built it, the source of each op, and the devices."""
    graph = session.graph
    definition = graph.as_graph_def()
    (folder / GRAPH_FILE).write_bytes(definition.SerializeToString())
    # XLA adds devices of its own for each.
    own = [one.name for one in session.list_devices() if not one.device_type.startswith("XLA_")]
    sources = {"devices": own, "ops": sources_of(graph)}
    functions = GraphLines().of(called_graphs(graph))
    if functions:
        sources["functions"] = functions
    write_json(folder / SOURCES_FILE, sources)


def _device(scope: Any) -> str:
    """Argument of a device scope: '' for None; for a function, its name without path."""
    name = str(scope.obj)
    if name == "None":
        return ""
    return name if "<" not in name else name.partition("<")[0] + "()"


def _scopes(operation: Any, files: UserFiles) -> Iterator[dict[str, str]]:
    """The device scopes around an op, outermost first."""
    for scope in reversed(operation._device_assignments):
        name = files.user_name(scope.filename or "<unknown>")
        line = {"line": f"{name}({scope.lineno})"} if name else {}
        yield {"device": _device(scope), **line}


def sources_of(graph: Any) -> dict[str, dict[str, Any]]:
    """For each op of a `tf.Graph`: source, requested device and enclosing device scopes.

    Args:
        graph: The graph as the program built it.

    Returns:
        By op name: `source` ('train.py(41): tower'; missing when no user frame is known),
        `requested` ('' when no device was asked for) and `scopes`, outermost first, each with
        `device` as written in the program and `line` ('train.py(38)'; missing when unknown).
    """
    files = UserFiles()
    answers: dict[str, dict[str, Any]] = {}
    for operation in graph.get_operations():
        answer: dict[str, Any] = {"requested": operation.device}
        source = source_of(operation, files)
        if source:
            answer["source"] = source
        answer["scopes"] = list(_scopes(operation, files))
        answers[operation.name] = answer
    return answers
