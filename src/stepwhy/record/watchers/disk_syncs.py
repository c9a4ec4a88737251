"""Log calls in which the main thread waits until a file is on disk: `os.fsync`, `os.fdatasync`.

Such a wait leaves no record in a framework's trace, and a stack sample of it looks like Python that
computes. Calls of other threads block no step.
"""

from __future__ import annotations

import functools
import os
import threading
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled, wrapper
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.user_code import user_line
from stepwhy.record.core.wrappers import Builtin, wraps

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Call = Callable[..., Any]

# Shorter calls cost no step anything.
_SHORTEST_NS = 20_000
# Steps repeat their calls, so the first ones show the rest.
_MOST_CALLS = 1000
_NAMES = ("fsync", "fdatasync")


@functools.cache
def observe_syncs(run_dir: str) -> SyncLog:
    """Begin to log the calls of this process, once."""
    log = SyncLog(Recorder(run_dir, "", "", "disk-syncs"))
    for name in _NAMES:
        if hasattr(os, name):
            observed = _observed(getattr(os, name), f"os.{name}", log)
            setattr(os, name, Builtin(observed, "os", name))
    return log


class SyncLog:
    """Log the calls of the main thread.

    Args:
        recorder: Writes their events, into the directory that another recorder has opened.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._calls = 0

    @never_compiled
    def ended(self, name: str, start_ns: int) -> None:
        """A call has ended; never raises.

        Args:
            name: Its function.
            start_ns: When it began.
        """
        end_ns = now_ns()
        if (
            end_ns - start_ns >= _SHORTEST_NS
            and self._calls < _MOST_CALLS
            and threading.get_ident() == threading.main_thread().ident
        ):
            self._calls += 1
            self._recorder.guard(lambda: self._log(name, start_ns, end_ns))

    def _log(self, name: str, start_ns: int, end_ns: int) -> None:
        self._recorder.event(
            "fsync", name=name, start_ns=start_ns, end_ns=end_ns, source=user_line()
        )


def _observed(original: Call, name: str, log: SyncLog) -> Call:
    """The function, with its calls logged."""

    @wrapper
    @wraps(original)
    def sync(*args: Any, **kwargs: Any) -> Any:
        start_ns = now_ns()
        try:
            return original(*args, **kwargs)
        finally:
            log.ended(name, start_ns)

    return sync
