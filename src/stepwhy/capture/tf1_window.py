"""What a traced `Session.run` leaves behind: metadata, the graph as written, its sources."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stepwhy.capture.recorder import Recorder, write_json
from stepwhy.capture.tf1_sources import sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

METADATA_FILE = "run_metadata.pb"
GRAPH_FILE = "graph.pb"
SOURCES_FILE = "sources.json"


class WindowWriter:
    """Writes one window per traced run; windows of an unchanged graph share its files.

    Args:
        recorder: Where windows go.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._graph: tuple[int, int] | None = None
        self._shared: Path | None = None

    def write(self, about: Mapping[str, Any], metadata: Any, graph: Any) -> None:
        """Add the window of one run.

        Args:
            about: What `window.json` says.
            metadata: The run's `RunMetadata`.
            graph: The session's `tf.Graph`.
        """
        version = (id(graph), graph.version)
        shared = self._shared if version == self._graph else None

        def fill(folder: Path) -> None:
            (folder / METADATA_FILE).write_bytes(metadata.SerializeToString())
            if shared is not None:
                for name in (GRAPH_FILE, SOURCES_FILE):
                    os.link(shared / name, folder / name)
            else:
                _write_graph(folder, graph)

        self._shared = self._recorder.window(about, fill)
        self._graph = version


def _write_graph(folder: Path, graph: Any) -> None:
    """Write the graph as the program built it, and where in the program each op comes from."""
    definition = graph.as_graph_def()
    (folder / GRAPH_FILE).write_bytes(definition.SerializeToString())
    write_json(folder / SOURCES_FILE, {"ops": sources_of(graph)})
