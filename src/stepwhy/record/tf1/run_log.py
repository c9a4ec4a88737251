"""The log of session runs: noted as integers, formatted and written in batches.

Between two runs the training evicts the observer's code from the CPU caches, so that formatting a
line, which takes 2 us in a tight loop, takes several times that there.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from stepwhy.record.core.pacing import WritePace
from stepwhy.record.core.process import lifetime
from stepwhy.record.steps.meters import UNKNOWN, load_members
from stepwhy.record.steps.step_log import RECENT_STEPS

if TYPE_CHECKING:
    from typing import Any

    from stepwhy.record.core.recorder import Recorder
    from stepwhy.record.steps.run_times import RunTimes

    # Kind, start, end, profiled, further members, CPU time since the run before and in the run,
    # load in the step before.
    Note = tuple[int, int, int, int, str, int, int, tuple[int, int]]

_BATCH_RUNS = 128


class PendingRun:
    """A run that has started and not ended.

    Attributes:
        run_times: Those of its kind.
        signature: Number of its kind.
        options: The traced run's `RunOptions`; None if it is not traced.
        metadata: The traced run's `RunMetadata`; None if it is not traced.
        start_ns: Its start.
        cpu_ns: CPU time of the thread at the start; 0 if not measured.
        gap_cpu_ns: CPU time of the thread since the previous run; negative if unknown.
        load: What `ProcessLoad` has read of the step before, in the first run of a step.
        members: Further members of its log line.
        is_traced: Whether the training itself traces the run.
        is_step: Whether its record stands for a step, whoever traces it.
        own: The `RunMetadata` of a run that the training itself traces, if it is to be kept.
        values: The traced run's fetches, feeds and result; None until it succeeds.
    """

    __slots__ = (
        "cpu_ns",
        "gap_cpu_ns",
        "is_step",
        "is_traced",
        "load",
        "members",
        "metadata",
        "options",
        "own",
        "run_times",
        "signature",
        "start_ns",
        "values",
    )

    def __init__(self, signature: int, run_times: RunTimes) -> None:
        self.signature = signature
        self.run_times = run_times
        self.options: Any = None
        self.metadata: Any = None
        self.values: Any = None
        self.start_ns = self.cpu_ns = 0
        self.gap_cpu_ns = UNKNOWN
        self.load = UNKNOWN, UNKNOWN
        self.members = ""
        self.is_traced = self.is_step = False
        self.own: Any = None


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
