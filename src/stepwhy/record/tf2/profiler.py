"""TensorFlow's profiler, adapted to the window of a loop."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from stepwhy.record.core.recorder import write_json
from stepwhy.record.tf2.traced_graphs import callers, function_lines
from stepwhy.record.windows.traced_window import ProfilerInUseError
from stepwhy.record.windows.xplane_window import call_before_instances

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

SOURCES_FILE = "sources.json.gz"


class TensorFlowProfiler:
    """TensorFlow's profiler at its default level: ops on the host, kernels on devices.

    Args:
        scratch: Makes the folder for its export, which contains full paths. It lies in the run
            directory, which is cleaned even after a kill.
    """

    name = "tf.profiler"
    annotated = False

    def __init__(self, scratch: Callable[[], Path]) -> None:
        self._scratch = scratch
        self._session: Any = None
        self._restore: Callable[[], None] | None = None
        self._folder: Path | None = None

    def busy(self) -> bool:
        """Whether the training runs a profiler of its own."""
        from tensorflow.python.profiler import profiler_v2

        return profiler_v2._profiler is not None

    def start(self, on_conflict: Callable[[], None]) -> None:
        """Start; see `Profiler`."""
        from tensorflow.python.framework.errors_impl import AlreadyExistsError
        from tensorflow.python.profiler.internal import _pywrap_profiler

        session = _pywrap_profiler.ProfilerSession()
        folder = self._scratch()
        try:
            session.start(str(folder), {})
        except AlreadyExistsError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ProfilerInUseError from error
        self._session, self._folder = session, folder
        self._restore = call_before_instances(_pywrap_profiler, "ProfilerSession", on_conflict)

    def stop(self) -> bytes:
        """Stop; a serialised `XSpace`, which TensorFlow exports only as a file."""
        session, folder = self._detach()
        try:
            session.export_to_tb()
            (path,) = folder.glob("**/*.xplane.pb")
            return path.read_bytes()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def discard(self) -> None:
        """Stop and keep nothing."""
        session, folder = self._detach()
        try:
            session.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def write_beside(self, folder: Path) -> None:
        """Write the lines of the program behind the nodes of the functions that were traced."""
        lines = function_lines()
        if lines:
            write_json(folder / SOURCES_FILE, {"callers": callers(), "functions": lines})

    def _detach(self) -> tuple[Any, Path]:
        """Release the session and its folder, and let others start one without notice.

        Raises:
            RuntimeError: There is none.
        """
        session, self._session = self._session, None
        folder, self._folder = self._folder, None
        if folder is None:
            raise RuntimeError
        if self._restore is not None:
            self._restore()
        return session, folder

    def mark(self, step: int) -> Callable[[], None]:
        """Begin the mark of a step; the returned function ends it."""
        from tensorflow.python.profiler.internal import _pywrap_traceme

        mark = _pywrap_traceme.TraceMe("train", step_num=step, _r=1)
        return mark.Stop  # type: ignore[no-any-return]
