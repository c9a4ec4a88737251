"""Which steps of a session's loop are traced, which are watched, and which are only timed.

A step lasts from one run of the training fetches to the next. Five are traced per window, every
other one, in full: all runs. A lasting change of the step time opens another window.
"""

from __future__ import annotations

from stepwhy.capture.pacing import Change, is_light
from stepwhy.capture.run_times import Rhythm, leading

# Enough for a median, few enough to cost a training of minutes nothing.
_TRACED_STEPS = 5
# An evaluation of more batches between two training runs is no step to trace in full; of such a
# step the first runs are.
_WHOLE_STEP = 64
_PART_OF_STEP = 8
# Per window. Partition graphs make most of the bytes, whatever the length of the run.
_RUNS = 128
_BYTES = 64 << 20
_TIME_NS = 20_000_000_000
_WINDOWS = 3
# By then a loop can be told from what came before it. Its first traced step may not be warm, but
# for a short script it is better than none; the reader prefers the later ones.
_EARLIEST = 3
# Another kind of run begins the steps only when it takes this many times as long in all. Weighing
# all kinds takes a while, so that one that has run often is weighed at every sixteenth run.
_LEADS_BY = 2.0
_OFTEN = 32
_WEIGHED_EVERY = 16
# After so many runs that begin no step, the loop may be another one: what holds for the step under
# way holds no longer.
_LONGEST_STEP = 1024


class Budget:
    """What a window may still cost."""

    __slots__ = ("bytes", "runs", "steps", "time_ns")

    def __init__(self) -> None:
        self.steps = self.runs = self.bytes = self.time_ns = 0

    def allows_step(self, runs: int) -> bool:
        """Whether another step of this many runs may be traced."""
        return (
            self.steps < _TRACED_STEPS
            and self.allows_run()
            and (not self.runs or self.runs + runs <= _RUNS)
        )

    def allows_run(self) -> bool:
        """Whether another run may be traced."""
        return self.runs < _RUNS and self.bytes < _BYTES and self.time_ns < _TIME_NS


class Plan:
    """Follows the steps of a loop.

    Attributes:
        rhythms: Of all kinds of runs, by the number of their signature.
        opens: Whether the run under way begins a step.
        tracing: Whether the step under way is traced.
        early: Whether it was too early to know that the loop is warm.
        light: Whether the step under way is only timed.
        after_trace: Whether the step before was traced: what is slow is best done then.
        change: Start and end of a step that made it clear that the step time has changed for good.
    """

    def __init__(self) -> None:
        self.rhythms: list[Rhythm] = []
        self.opens = self.tracing = self.early = self.light = self.after_trace = False
        self.change: tuple[int, int] | None = None
        self._leader: Rhythm | None = None
        self._budget = Budget()
        self._windows = 1
        self._change = Change()
        self._runs = self._usual_runs = 0
        self._start_ns = 0

    def rhythm(self, signature: int) -> Rhythm:
        """The rhythm of a kind of runs."""
        rhythms = self.rhythms
        while len(rhythms) <= signature:
            rhythms.append(Rhythm())
        return rhythms[signature]

    def leads(self, rhythm: Rhythm) -> bool:
        """Whether a run of this kind begins a step."""
        leader = self._leader
        if rhythm is leader:
            return True
        if leader is not None and rhythm.total_ns <= _LEADS_BY * leader.total_ns:
            return False
        if rhythm.count >= _OFTEN and rhythm.count % _WEIGHED_EVERY:
            return False
        return rhythm.count >= _EARLIEST and self._takes_over(rhythm)

    def _takes_over(self, rhythm: Rhythm) -> bool:
        """Whether this kind begins the steps from here on."""
        if leading(self.rhythms) is not rhythm:
            return False
        if self._leader is not None:
            self._renew()
        else:
            self._runs //= rhythm.count
        self._leader = rhythm
        self._start_ns = 0
        return True

    def follow(self) -> None:
        """A run that begins no step is about to start."""
        self._runs += 1
        self.opens = False
        if self._runs > _LONGEST_STEP:
            self.light = self.tracing = False

    def open(self, rhythm: Rhythm, time_ns: int) -> None:
        """A run that begins a step is about to start.

        Args:
            rhythm: Of its kind.
            time_ns: The time.
        """
        self._usual_runs, self._runs = self._runs, 1
        self.change = None
        if not self.tracing and self._start_ns and self._change.add(time_ns - self._start_ns):
            self.change = self._start_ns, time_ns
            self._renew()
        self._start_ns = time_ns
        self.after_trace = self.tracing
        self.opens = True
        # Every other step is not traced, for comparison; most come when no more may be.
        self.tracing = (
            not self.after_trace and self._budget.steps < _TRACED_STEPS and self._traces(rhythm)
        )
        self.light = not self.tracing and is_light(rhythm.count)

    def _traces(self, rhythm: Rhythm) -> bool:
        """Whether the step that begins is one to trace; it counts then."""
        settled = rhythm.settled()
        self.early = not settled
        wanted = settled or rhythm.count == _EARLIEST
        if not wanted or not self._budget.allows_step(min(self._usual_runs, self._most_runs())):
            return False
        self._budget.steps += 1
        return True

    def postpone(self) -> None:
        """The step that begins must not be traced after all: another one will be."""
        self.tracing = False
        self._budget.steps -= 1

    def _renew(self) -> None:
        """The loop is another one: open one more window, if there may be one."""
        self._change.restart()
        if self._windows < _WINDOWS:
            self._windows += 1
            self._budget = Budget()

    def traces_run(self) -> bool:
        """Whether the run that is about to start is one to trace."""
        return self.tracing and self._runs <= self._most_runs() and self._budget.allows_run()

    def _most_runs(self) -> int:
        """How many runs of a step may be traced, given how many there were in the last one."""
        return _WHOLE_STEP if self._usual_runs <= _WHOLE_STEP else _PART_OF_STEP

    def traced(self, duration_ns: int, size: int) -> None:
        """A traced run has ended.

        Args:
            duration_ns: Its wall time.
            size: Bytes of what it left.
        """
        self._budget.runs += 1
        self._budget.time_ns += duration_ns
        self._budget.bytes += size

    def stop(self) -> None:
        """Trace no more: a window could not be written."""
        self._windows = _WINDOWS
        self._budget.steps = _TRACED_STEPS


__all__ = ["Budget", "Plan"]
