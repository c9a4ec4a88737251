"""The step log of a PyTorch loop: a few integers per step, formatted and written in batches.

Between two steps the training evicts the observer's code from the CPU caches, so that what takes
2 us in a tight loop takes 20 us there. The loop therefore only appends integers; log lines are made
of many at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.meters import load_members
from stepwhy.capture.pacing import ChangeDetector, WritePace
from stepwhy.capture.process import lifetime

if TYPE_CHECKING:
    from stepwhy.capture.recorder import Recorder

    # A light step is its end alone. Others: end, profiled, input wait, CPU time, load.
    Note = int | tuple[int, int, int, int, tuple[int, int]]

UNKNOWN = -1
BATCH_STEPS = 512
LONG_STEP_NS = 100_000_000
"""A step of this duration is written when it ends, which takes less than 0.1 % of the next one."""
# How long a light step leaves the writing to the next observed step, at most.
_GRACE_NS = 100_000_000


class StepLog:
    """The steps since the last batch was written.

    Args:
        recorder: Writes the lines.

    Attributes:
        notes: One per step, in order; the loop appends to it.
        due_ns: When the next batch is due.
        late_ns: When even a light step writes it.
        changed: Whether the step time has changed for good; reset by the reader.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Runs before the recorder's handler, since handlers run in reverse order.
        lifetime.on_end(self.write)
        lifetime.on_flush(self.write)
        self.forget()

    def forget(self) -> None:
        """Start over, as in a process that has seen no step (after a fork)."""
        self.notes: list[Note] = []
        self.due_ns = self.late_ns = 0
        self._pace = WritePace()
        self.changed = False
        self._compiled: dict[int, str] = {}
        self._change = ChangeDetector()
        self._start_ns = 0

    def begin(self, start_ns: int) -> None:
        """The next step starts at `start_ns`; what came before belongs to none."""
        self.write()
        self._start_ns = start_ns

    def compiled(self, members: str) -> None:
        """Add compilations to the last noted step.

        Args:
            members: Members of its log line.
        """
        self._compiled[len(self.notes) - 1] = members

    def write(self) -> None:
        """Write the noted steps."""
        notes, compiled = self.notes, self._compiled
        self.due_ns = self._pace.next_ns(now_ns())
        self.late_ns = self.due_ns + min(self._pace.pending_ns, _GRACE_NS)
        if not notes:
            return
        self.notes, self._compiled = [], {}
        lines, start_ns = [], self._start_ns
        for number, note in enumerate(notes):
            end_ns, profiled = (note, 0) if isinstance(note, int) else note[:2]
            lines.append(_line(start_ns, note, compiled.get(number, "")))
            if not profiled:
                self._compare(start_ns, end_ns)
            start_ns = end_ns
        self._start_ns = start_ns
        self._recorder.steps(lines)

    def _compare(self, start_ns: int, end_ns: int) -> None:
        """Detect a lasting change of the step time."""
        if self._change.add(end_ns - start_ns):
            self.changed = True
            self._recorder.event("change", name="step", start_ns=start_ns, end_ns=now_ns())


def _line(start_ns: int, note: Note, compiled: str) -> str:
    """One line of `steps.jsonl`; unknown times are null."""
    if isinstance(note, int):
        return (
            f'{{"kind":"step","start_ns":{start_ns},"end_ns":{note},"profiled":0,"light":1'
            f"{compiled}}}"
        )
    end_ns, profiled, wait_ns, cpu_ns, load = note
    return (
        f'{{"kind":"step","start_ns":{start_ns},"end_ns":{end_ns},"profiled":{profiled},'
        f'"input_wait_ns":{"null" if wait_ns < 0 else wait_ns},'
        f'"cpu_ns":{"null" if cpu_ns < 0 else cpu_ns}{load_members(*load)}{compiled}}}'
    )
