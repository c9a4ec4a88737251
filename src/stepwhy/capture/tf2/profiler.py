"""The profiler of TensorFlow, as the window of a loop needs it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from stepwhy.capture.xplane_window import ProfilerInUseError, announce

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


class TensorFlowProfiler:
    """The profiler of TensorFlow, at its usual level: ops on the host, kernels on devices.

    Args:
        scratch: Makes the folder for what it exports, which holds whole paths; a run that is
            killed leaves it to the run directory.
    """

    name = "tf.profiler"

    def __init__(self, scratch: Callable[[], Path]) -> None:
        self._scratch = scratch
        self._session: Any = None
        self._restore: Callable[[], None] | None = None
        self._folder: Path | None = None

    def busy(self) -> bool:
        """Whether the training runs a profiler of its own."""
        from tensorflow.python.profiler import profiler_v2

        return profiler_v2._profiler is not None

    def start(self, give_way: Callable[[], None]) -> None:
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
        self._restore = announce(_pywrap_profiler, "ProfilerSession", give_way)

    def stop(self) -> bytes:
        """Stop; a serialised `XSpace`, which this profiler only hands out as a file."""
        session, folder = self._take()
        try:
            session.export_to_tb()
            (path,) = folder.glob("**/*.xplane.pb")
            return path.read_bytes()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def discard(self) -> None:
        """Stop and keep nothing."""
        session, folder = self._take()
        try:
            session.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _take(self) -> tuple[Any, Path]:
        """The session that ends and its folder; others may start one again.

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
        """Begin the mark of a step; what is returned ends it."""
        from tensorflow.python.profiler.internal import _pywrap_traceme

        mark = _pywrap_traceme.TraceMe("train", step_num=step, _r=1)
        return mark.Stop  # type: ignore[no-any-return]
