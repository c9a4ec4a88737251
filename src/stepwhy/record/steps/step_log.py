"""The steps of a loop: a few integers per step, formatted and written in batches.

Between two steps the training evicts the observer's code from the CPU caches, so that what takes
2 us in a tight loop takes 20 us there. Loops therefore only append integers; log lines are made of
many at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stepwhy.record.core.clock import now_ns
from stepwhy.record.core.pacing import WritePace
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps.meters import measured_members

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwhy.record.core.recorder import Recorder

    # A light step is its end alone. Others: end, profiled, input wait, CPU time, load.
    Note = int | tuple[int, int, int, int, tuple[int, int]]

BATCH_STEPS = 512
LONG_STEP_NS = 100_000_000
"""A step of this duration is written when it ends, which takes less than 0.1 % of the next one."""
RECENT_STEPS = 64
"""Enough for the median of the latest steps."""
# How long a light step leaves the writing to the next observed step, at most.
_GRACE_NS = 100_000_000


class StepLog:
    """The steps since the last batch was written.

    Args:
        recorder: Writes the lines.
        compare: Receives start and end of each step that was not profiled.

    Attributes:
        notes: One per step, in order; the loop appends to it.
        start_ns: When the first of them began; 0 for no step.
        due_ns: When the next batch is due.
        late_ns: When even a light step writes it.
        recent_ns: Durations of the latest steps that were written.
    """

    def __init__(self, recorder: Recorder, compare: Callable[[int, int], object]) -> None:
        self._recorder = recorder
        self._compare = compare
        # Runs before the recorder's handler, since handlers run in reverse order.
        lifetime.on_end(self.write)
        lifetime.on_flush(self.write)
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        self.notes: list[Note] = []
        self.start_ns = self.due_ns = self.late_ns = 0
        self.recent_ns: deque[int] = deque(maxlen=RECENT_STEPS)
        self._pace = WritePace()
        self._added: dict[int, str] = {}
        self._written = 0

    @property
    def count(self) -> int:
        """Number of steps so far."""
        return self._written + len(self.notes)

    def begin(self, start_ns: int) -> None:
        """The next step starts at `start_ns`; what came before belongs to none."""
        self.write()
        self.start_ns = start_ns

    @property
    def last_end_ns(self) -> int:
        """When the last step ended; 0 if none has. Any thread may ask."""
        notes = self.notes
        last = notes[-1] if notes else self.start_ns
        return last if isinstance(last, int) else last[0]

    def add(self, members: str) -> None:
        """Add to the log line of the last noted step.

        Args:
            members: Its further members, such as compilations.
        """
        last = len(self.notes) - 1
        self._added[last] = self._added.get(last, "") + members

    def write(self) -> None:
        """Write the noted steps."""
        notes, added = self.notes, self._added
        self.due_ns = self._pace.next_ns(now_ns())
        self.late_ns = self.due_ns + min(self._pace.pending_ns, _GRACE_NS)
        if not notes:
            return
        self.notes, self._added = [], {}
        self._written += len(notes)
        lines: list[str] = []
        start_ns, compare, recent_ns = self.start_ns, self._compare, self.recent_ns
        for note in notes:
            if isinstance(note, int):
                end_ns, profiled, members = note, 0, ',"light":1'
            else:
                end_ns, profiled, wait_ns, cpu_ns, load = note
                members = measured_members(wait_ns, cpu_ns, load)
            if added:
                members += added.get(len(lines), "")
            lines.append(
                f'{{"kind":"step","start_ns":{start_ns},"end_ns":{end_ns},'
                f'"profiled":{profiled}{members}}}'
            )
            recent_ns.append(end_ns - start_ns)
            if not profiled:
                compare(start_ns, end_ns)
            start_ns = end_ns
        self.start_ns = start_ns
        self._recorder.steps(lines)
