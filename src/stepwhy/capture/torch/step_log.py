"""The step log of a PyTorch loop: noted in the loop as a few integers, written in large batches.

Between two notes the training evicts the observer's code from the processor's caches, so that what
takes 2 us in a tight loop takes 20 us there. So the loop does no more than append integers; lines
are made of many notes at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwhy.capture.clock import now_ns
from stepwhy.capture.pacing import Change
from stepwhy.capture.process import lifetime

if TYPE_CHECKING:
    from stepwhy.capture.recorder import Recorder

    # A light step is its end alone. Others: end, profiled, input wait, CPU time.
    Note = int | tuple[int, int, int, int]

UNKNOWN = -1
BATCH_STEPS = 128
_BATCH_NS = 400_000_000


class StepLog:
    """The steps since the last batch.

    Args:
        recorder: Where the lines go.

    Attributes:
        notes: One per step, in order; the loop appends to it.
        due_ns: When they have to be written.
        changed: Whether the step time has changed for good; whoever reacts to it resets it.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        # Runs before the recorder's own: handlers run in reverse order.
        lifetime.on_end(self.write)
        lifetime.on_flush(self.write)
        self.forget()

    def forget(self) -> None:
        """Begin as in a process that has seen no step (after a fork)."""
        self.notes: list[Note] = []
        self.due_ns = 0
        self.changed = False
        self._compiled: dict[int, str] = {}
        self._change = Change()
        self._start_ns = 0

    def begin(self, start_ns: int) -> None:
        """The next step starts here; what came before it was no step."""
        self.write()
        self._start_ns = start_ns

    def compiled(self, members: str) -> None:
        """The last noted step contains compilations.

        Args:
            members: What its line says about them.
        """
        self._compiled[len(self.notes) - 1] = members

    def write(self) -> None:
        """Write what was noted."""
        notes, compiled = self.notes, self._compiled
        self.due_ns = now_ns() + _BATCH_NS
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
        """Notice a lasting change of the step time."""
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
    end_ns, profiled, wait_ns, cpu_ns = note
    return (
        f'{{"kind":"step","start_ns":{start_ns},"end_ns":{end_ns},"profiled":{profiled},'
        f'"input_wait_ns":{"null" if wait_ns < 0 else wait_ns},'
        f'"cpu_ns":{"null" if cpu_ns < 0 else cpu_ns}{compiled}}}'
    )
