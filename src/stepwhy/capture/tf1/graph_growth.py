"""Noticing that the graph of a session grows while it trains.

Every operation that is added is sent to the session at its next run, and a new fetch is prepared
anew: pruned, placed and optimised. Reading a graph's version costs a tenth of a microsecond.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from typing import TYPE_CHECKING

from stepwhy.capture.user_code import UserFiles, source_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from stepwhy.capture.recorder import Recorder

# Asking an operation where it was made costs 50 us, and asking the graph for its operations up to
# milliseconds: so few events name a line, and so few of their operations are asked.
_NAMED_EVENTS = 6
_ASKED_OPERATIONS = 8
_TOLD_TYPES = 4


class _Watched:
    """One session: the version of its graph, and what it has run.

    Attributes:
        version: Of the graph at the last run that was looked at; None for no more than timed ones.
        told: Version up to which growth was told; None before the loop.
        ran: Numbers of the signatures that it has run.
    """

    __slots__ = ("ran", "told", "version")

    def __init__(self, version: int) -> None:
        self.version: int | None = version
        self.told: int | None = None
        self.ran: set[int] = set()


class GraphGrowth:
    """Says which runs were prepared anew, and logs what was added between two training steps.

    Args:
        recorder: Takes the events.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has run nothing yet."""
        self._sessions: weakref.WeakKeyDictionary[Any, _Watched] = weakref.WeakKeyDictionary()
        self._last: Any = _nothing
        self._watched = _Watched(0)
        self._named = 0
        self._files: UserFiles | None = None
        self._step_start_ns = 0

    def prepares(self, session: Any, signature: int) -> bool:
        """Whether the run that is about to start is prepared anew: its fetches, or a grown graph.

        Args:
            session: What runs it.
            signature: Number of its fetches and feeds.
        """
        version: int = session.graph.version
        if self._last() is not session:
            self._change_to(session, version)
        watched = self._watched
        if watched.version == version and signature in watched.ran:
            return False
        grew = watched.version is not None and version > watched.version
        fresh = grew or signature not in watched.ran
        watched.version = version
        watched.ran.add(signature)
        return fresh

    def look_away(self) -> None:
        """The step is only timed: what grows in it cannot be assigned to a run."""
        self._watched.version = None

    def _change_to(self, session: Any, version: int) -> None:
        """Another session runs."""
        self._watched = self._sessions.setdefault(session, _Watched(version))
        self._last = weakref.ref(session)

    def begin_step(self, session: Any, time_ns: int) -> None:
        """A training step begins: tell by how much the graph has grown since the one before.

        Args:
            session: What runs it; `prepares` was asked about it.
            time_ns: The time.
        """
        watched, start_ns = self._watched, self._step_start_ns
        self._step_start_ns = time_ns
        if watched.version is None or watched.version == watched.told:
            return
        told, watched.told = watched.told, watched.version
        if told is not None and told < watched.version:
            self._tell(session.graph, told, watched.version, start_ns, time_ns)

    def _tell(self, graph: Any, told: int, version: int, start_ns: int, end_ns: int) -> None:
        """Log one event."""
        source = reason = ""
        if self._named < _NAMED_EVENTS:
            self._named += 1
            # What cannot be named has grown all the same.
            with contextlib.suppress(Exception):
                source, reason = self._origin(graph.get_operations()[told - version :])
        self._recorder.event(
            "graph",
            name="graph",
            start_ns=start_ns,
            end_ns=end_ns,
            reason=reason,
            source=source,
            count=version - told,
        )

    def _origin(self, added: Sequence[Any]) -> tuple[str, str]:
        """The line that added most of some operations, and their first types."""
        self._files = self._files or UserFiles()
        asked = added[:: -(-len(added) // _ASKED_OPERATIONS) or 1]
        lines = Counter(source_of(each.traceback or (), self._files) or "" for each in asked)
        types = list(dict.fromkeys(each.type for each in added))
        more = ["..."] if len(types) > _TOLD_TYPES else []
        return lines.most_common(1)[0][0] if lines else "", ", ".join(types[:_TOLD_TYPES] + more)


def _nothing() -> None:
    """The weak reference to no session."""


__all__ = ["GraphGrowth"]
