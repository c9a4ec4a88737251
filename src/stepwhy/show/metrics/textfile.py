"""Metrics in a file, for the textfile collector of Prometheus' node_exporter.

The collector reads files that end with '.prom'; the file appears complete or not at all.

Source: README of node_exporter, "Textfile Collector".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.errors import OutputError
from stepwhy.base.whole_files import write_whole
from stepwhy.show.metrics.prometheus import check_installed, text_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepwhy.show.metrics.model import Run


class Textfile:
    """Writes the metrics to a file every few seconds.

    Args:
        path: The file; it is replaced each time.
    """

    what = "metrics in a file"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()

    def prepare(self) -> None:
        """Check the library and the path.

        Raises:
            MissingPackageError: prometheus-client is not installed.
            OutputError: The path is a folder, or in one that does not exist.
        """
        check_installed()
        if self._path.is_dir():
            raise OutputError(f"{self._path.name} is a folder", "Name a file with --metrics-file")
        if not self._path.parent.is_dir():
            raise OutputError(
                f"the folder of {self._path.name} does not exist", "Create it for --metrics-file"
            )

    def start(self, read: Callable[[], Run]) -> None:
        """Write what is known at the start."""
        self.publish(read())

    def publish(self, run: Run) -> None:
        """Replace the file.

        Raises:
            OSError: It cannot be written.
        """
        write_whole(self._path, text_of(run))

    def close(self, run: Run) -> None:
        """Write the last numbers; the file stays."""
        self.publish(run)
