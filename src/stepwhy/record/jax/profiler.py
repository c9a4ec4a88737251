"""JAX's profiler, adapted to the window of a loop."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.record.windows.xplane_window import call_before_instances

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


class JaxProfiler:
    """JAX's profiler: ops on the host and kernels on devices, without Python frames.

    Attributes:
        annotated: Whether the training marks its steps itself.
    """

    name = "jax.profiler"

    def __init__(self) -> None:
        self.annotated = False
        self._session: Any = None
        self._restore: Callable[[], None] | None = None

    def busy(self) -> bool:
        """Whether the training runs a profiler of its own."""
        from jax._src import profiler

        return profiler._profile_state.profile_session is not None

    def start(self, on_conflict: Callable[[], None]) -> None:
        """Start; see `Profiler`."""
        from jax._src import profiler

        options = profiler.ProfileOptions()
        options.python_tracer_level = 0
        # A second session starts without an error and records nothing, so callers check `busy`.
        self._session = profiler._profiler.ProfilerSession(options)
        self._restore = call_before_instances(profiler._profiler, "ProfilerSession", on_conflict)

    def stop(self) -> bytes:
        """Stop; a serialised `XSpace`."""
        session, self._session = self._session, None
        if self._restore is not None:
            self._restore()
        return bytes(session.stop())

    def discard(self) -> None:
        """Stop and keep nothing."""
        self.stop()

    def write_beside(self, folder: Path) -> None:
        """Write nothing: the trace itself has the lines of the program."""

    def mark(self, step: int) -> Callable[[], None]:
        """Begin the mark of a step; the returned function ends it."""
        from jax._src import profiler

        if self.annotated:
            return _nothing
        mark = profiler._profiler.TraceMe("train", step_num=step, _r=1)
        mark.__enter__()
        return functools.partial(mark.__exit__, None, None, None)


def _nothing() -> None:
    """End a mark that the training has made itself."""
