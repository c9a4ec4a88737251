"""Log pauses in which Python's cyclic garbage collector searches for unreachable objects.

The collector holds the interpreter's lock, so all threads wait for it. Collections of the youngest
generation are frequent and short, and are not looked at. Nothing is written inside a collection,
which may interrupt the observer itself: events are written at the end.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from linecache import getline
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.compiled_code import never_compiled
from stepwhy.record.core.process import lifetime
from stepwhy.record.core.recorder import Recorder
from stepwhy.record.core.user_code import line_of

if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

# Shorter pauses do not matter for a step, and would fill the log.
_SHORTEST_NS = 500_000


@functools.cache
def observe_garbage(run_dir: str) -> GarbageLog:
    """Begin to log the pauses of this process, once."""
    return GarbageLog(Recorder(run_dir, "", "", "garbage"))


class GarbageLog:
    """Log collections of the older generations.

    Args:
        recorder: Writes their events, into the directory that another recorder has opened.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._start_ns = 0
        lifetime.on_begin(self.listen)
        lifetime.on_end(self.ignore)
        self.listen()

    def listen(self) -> None:
        """Let Python call back at collections."""
        if self._called not in gc.callbacks:
            gc.callbacks.append(self._called)

    def ignore(self) -> None:
        """Let Python call back no more."""
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._called)

    @never_compiled
    def _called(self, phase: str, info: dict[str, Any]) -> None:
        if not info["generation"]:
            return
        if phase == "start":
            self._start_ns = now_ns()
            return
        start_ns, end_ns = self._start_ns, now_ns()
        if end_ns - start_ns >= _SHORTEST_NS:
            self._recorder.guard(lambda: self._log(info, start_ns, end_ns))

    def _log(self, info: dict[str, Any], start_ns: int, end_ns: int) -> None:
        # Never parsed: a collection may interrupt a parser, of which Python has only one.
        at: FrameType | None = sys._getframe(1)
        while at is not None and not line_of(at):
            at = at.f_back
        text = getline(at.f_code.co_filename, at.f_lineno) if at is not None else ""
        self._recorder.event(
            "gc",
            name=f"generation {info['generation']}",
            start_ns=start_ns,
            end_ns=end_ns,
            source=line_of(at) if at is not None else "",
            reason="gc.collect()" if "collect(" in text else "",
            count=info["collected"],
        )
