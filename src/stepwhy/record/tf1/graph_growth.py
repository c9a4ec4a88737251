"""Detect that the graph of a session grows while it trains.

The next run sends added operations to the session, and every new fetch is prepared: pruned, placed
and optimised. Reading the version of a graph takes 0.1 us.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.user_code import UserFiles, source_of, user_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.record.core.recorder import Recorder

# Reading where an operation was made takes 50 us, and listing the operations of a graph takes up to
# milliseconds. So only this many events name a line, from this many operations each.
_NAMED_EVENTS = 6
_NAMED_SESSIONS = 20
_SAMPLED_OPERATIONS = 8
_LISTED_TYPES = 4


class _Watched:
    """One session: the version of its graph, and what it has run.

    Attributes:
        version: Version of the graph at the last observed run; None after light steps.
        logged: Version up to which growth was logged; None before the loop.
        ran: Numbers of the signatures that it has run.
    """

    __slots__ = ("logged", "ran", "version")

    def __init__(self, version: int) -> None:
        self.version: int | None = version
        self.logged: int | None = None
        self.ran: set[int] = set()


class GraphGrowth:
    """Detect which runs need preparation, and log what is added to the graph between steps.

    Args:
        recorder: Writes the events.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has run nothing yet (after a fork)."""
        self._sessions: weakref.WeakKeyDictionary[Any, _Watched] = weakref.WeakKeyDictionary()
        self._last: Any = _no_session
        self._watched = _Watched(0)
        self._named = self._made = 0
        self._files: UserFiles | None = None
        self._step_start_ns = 0

    def is_fresh(self, session: Any, signature: int) -> bool:
        """Whether the next run needs preparation, due to new fetches or a grown graph.

        Args:
            session: The session that runs it.
            signature: Number of its fetches and feeds.
        """
        version: int = session.graph.version
        if self._last() is not session:
            if session not in self._sessions:
                self._log_session()
            self._watched = self._sessions.setdefault(session, _Watched(version))
            self._last = weakref.ref(session)
        watched = self._watched
        if watched.version == version and signature in watched.ran:
            return False
        grew = watched.version is not None and version > watched.version
        fresh = grew or signature not in watched.ran
        watched.version = version
        watched.ran.add(signature)
        return fresh

    def skip(self) -> None:
        """Skip a light step; growth within it cannot be assigned to a run."""
        self._watched.version = None

    def _log_session(self) -> None:
        """Log that a session runs for the first time."""
        self._made += 1
        time_ns, source = now_ns(), ""
        if self._made <= _NAMED_SESSIONS:
            with contextlib.suppress(Exception):
                source = user_line()
        self._recorder.event(
            "session", name="tf.Session", start_ns=time_ns, end_ns=time_ns, source=source
        )

    def begin_step(self, session: Any, time_ns: int) -> None:
        """Log how much the graph has grown since the previous step.

        Args:
            session: The session that runs it; `is_fresh` was called before.
            time_ns: The time.
        """
        watched, start_ns = self._watched, self._step_start_ns
        self._step_start_ns = time_ns
        if watched.version is None or watched.version == watched.logged:
            return
        logged, watched.logged = watched.logged, watched.version
        if logged is not None and logged < watched.version:
            self._log(session.graph, logged, watched.version, start_ns, time_ns)

    def _log(self, graph: Any, logged: int, version: int, start_ns: int, end_ns: int) -> None:
        """Log one event."""
        source = reason = ""
        if self._named < _NAMED_EVENTS:
            self._named += 1
            # Log growth even if its origin cannot be read.
            with contextlib.suppress(Exception):
                source, reason = self._origin(graph.get_operations()[logged - version :])
        self._recorder.event(
            "graph",
            name="graph",
            start_ns=start_ns,
            end_ns=end_ns,
            reason=reason,
            source=source,
            count=version - logged,
        )

    def _origin(self, added: Sequence[Any]) -> tuple[str, str]:
        """The line that added most of the operations, and their first types."""
        self._files = self._files or UserFiles()
        sampled = added[:: -(-len(added) // _SAMPLED_OPERATIONS) or 1]
        lines = Counter(source_of(each, self._files) for each in sampled)
        types = list(dict.fromkeys(each.type for each in added))
        more = ["..."] if len(types) > _LISTED_TYPES else []
        return lines.most_common(1)[0][0] if lines else "", ", ".join(types[:_LISTED_TYPES] + more)


def _no_session() -> None:
    """Stand-in for a weak reference to no session."""
