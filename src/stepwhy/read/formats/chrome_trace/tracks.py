"""The tracks of a Chrome trace, whatever its processes and threads are numbered or called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.base.patterns import regex
from stepwhy.read.shared.nvtx import without_homes
from stepwhy.trace import NULL, Role

if TYPE_CHECKING:
    from collections.abc import Hashable

    from stepwhy.read.formats.chrome_trace.rows import Row
    from stepwhy.trace import TraceBuilder

# No operating system numbers its processes and threads this high.
_FIRST_NAMED = 2**48
# Names of threads that may hold more than a name (a host, a path, a command) stay out.
_PLAIN_TITLE = regex(r"[\w ,#:()<>\[\]-]{1,80}")


class Tracks:
    """Tracks of a trace, each added at first sight.

    Args:
        builder: The trace that they are added to.
    """

    def __init__(self, builder: TraceBuilder) -> None:
        self._builder = builder
        self._numbers: dict[Hashable, int] = {}
        self._tracks: dict[Row, int] = {}

    def of(self, row: Row) -> int:
        """The track of a row of ranges."""
        if row not in self._tracks:
            device = self._builder.device(row.device, row.kind) if row.device else NULL
            self._tracks[row] = self._builder.track(
                Role.STREAM if row.device else Role.HOST_THREAD,
                self._title(row),
                process=self._number(row.process),
                thread=self._number(row.thread),
                device=device,
            )
        return self._tracks[row]

    def lane(self, process: Hashable, category: str, lane: int) -> int:
        """A track for ranges that lie on no thread."""
        title = " ".join(filter(None, ("async", without_homes(category), str(lane))))
        return self._builder.track(Role.HOST_THREAD, title, process=self._number(process))

    def _number(self, written: Hashable) -> int:
        """An id as a number; those that are none get one that no system uses."""
        if written is None:
            return NULL
        if isinstance(written, int) and 0 <= written < _FIRST_NAMED:
            return written
        return self._numbers.setdefault(written, _FIRST_NAMED + len(self._numbers))

    def _title(self, row: Row) -> str:
        if row.title and _PLAIN_TITLE.fullmatch(row.title):
            return row.title
        if row.thread is None:
            return "device" if row.device else "process"
        return f"{'stream' if row.device else 'thread'} {self._number(row.thread)}"
