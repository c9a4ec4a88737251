"""The log of session runs: noted as integers, formatted and written in batches.

Between two runs the training evicts the observer's code from the CPU caches, so that formatting a
line, which takes 2 us in a tight loop, takes several times that there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stepwhy.record.core.pacing import WritePace
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps.meters import load_members
from stepwhy.record.steps.step_log import RECENT_STEPS

if TYPE_CHECKING:
    from stepwhy.record.core.recorder import Recorder

    # Kind, start, end, profiled, further members, CPU time since the run before and in the run,
    # load in the step before.
    Note = tuple[int, int, int, int, str, int, int, tuple[int, int]]

_BATCH_RUNS = 128


class RunLog:
    """The runs since the last batch was written.

    Args:
        recorder: Writes the lines.

    Attributes:
        recent_ns: Durations of the latest runs.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Runs before the recorder's handler, since handlers run in reverse order.
        lifetime.on_end(self.write)
        lifetime.on_flush(self.write)
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has run nothing yet (after a fork)."""
        self._notes: list[Note] = []
        self.recent_ns: deque[int] = deque(maxlen=RECENT_STEPS)
        self._due_ns = 0
        self._pace = WritePace()

    @property
    def due_ns(self) -> int:
        """When the next batch is due."""
        return self._due_ns

    def add(self, note: Note) -> None:
        """Note a run; it is written with the next batch.

        Args:
            note: The run; negative CPU times are unknown.
        """
        self._notes.append(note)
        self.recent_ns.append(note[2] - note[1])
        if note[2] >= self._due_ns or len(self._notes) >= _BATCH_RUNS:
            self._due_ns = self._pace.next_ns(note[2])
            self.write()

    def write(self) -> None:
        """Write the noted runs."""
        notes, self._notes = self._notes, []
        if notes:
            self._recorder.steps([_line(note) for note in notes])


def _line(note: Note) -> str:
    """One line of `steps.jsonl`."""
    kind, start_ns, end_ns, profiled, about, gap_cpu_ns, cpu_ns, load = note
    gap = "" if gap_cpu_ns < 0 else f',"gap_cpu_ns":{gap_cpu_ns}'
    cpu = "" if cpu_ns < 0 else f',"cpu_ns":{cpu_ns}'
    return (
        f'{{"kind":"run","signature":{kind},"start_ns":{start_ns},"end_ns":{end_ns},'
        f'"profiled":{profiled}{about}{gap}{cpu}{load_members(*load)}}}'
    )
