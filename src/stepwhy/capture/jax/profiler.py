"""The profiler of JAX, as the window of a loop needs it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from stepwhy.capture.xplane_window import announce

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class JaxProfiler:
    """The profiler of JAX: ops on the host and kernels on devices, without Python frames.

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

    def start(self, give_way: Callable[[], None]) -> None:
        """Start; see `Profiler`."""
        from jax._src import profiler

        options = profiler.ProfileOptions()
        options.python_tracer_level = 0
        # A second session starts without a complaint and sees nothing: `busy` was asked before.
        self._session = profiler._profiler.ProfilerSession(options)
        self._restore = announce(profiler._profiler, "ProfilerSession", give_way)

    def stop(self) -> bytes:
        """Stop; a serialised `XSpace`."""
        session, self._session = self._session, None
        if self._restore is not None:
            self._restore()
        return bytes(session.stop())

    def discard(self) -> None:
        """Stop and keep nothing."""
        self.stop()

    def mark(self, step: int) -> Callable[[], None]:
        """Begin the mark of a step; what is returned ends it."""
        from jax._src import profiler

        if self.annotated:
            return _nothing
        mark = profiler._profiler.TraceMe("train", step_num=step, _r=1)
        mark.__enter__()
        return functools.partial(mark.__exit__, None, None, None)


def _nothing() -> None:
    """The end of a mark that the training makes itself."""
