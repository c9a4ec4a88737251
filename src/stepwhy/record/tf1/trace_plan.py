"""Decide which steps of a session loop are traced, which observed, and which only timed.

A step lasts from one run of the training fetches to the next. A window traces five steps with all
their runs, and leaves out one or two steps in turn between them: where a loop trains twice, with
something else after the second time only, every other step would be of one kind. A lasting change
of the step time opens another window.
"""

from __future__ import annotations

from stepwhy.record.core.pacing import ChangeDetector, StepPace
from stepwhy.record.steps.run_times import RunTimes, leading

# Enough for a median, few enough to cost a training of minutes nothing.
_TRACED_STEPS = 5
# A step with more runs contains an evaluation; only its first runs are traced.
_WHOLE_STEP = 64
_PART_OF_STEP = 8
# Limits per window. Most of the bytes are partition graphs, whatever the length of the run.
_RUNS = 128
_BYTES = 64 << 20
_TIME_NS = 20_000_000_000
_WINDOWS = 3
# By then, a loop can be distinguished from set-up. The first traced step may not be warm, but it is
# better than none in a short script; readers prefer later ones.
_EARLIEST = 3
# Another kind of run marks the steps only if it takes this many times as long in total. Comparing
# all kinds takes a while, so a frequent kind is compared at every sixteenth run.
_LEADS_BY = 2.0
_OFTEN = 32
_COMPARED_EVERY = 16
# After so many runs that begin no step, the loop may be another one, and the decisions about the
# current step no longer apply.
_LONGEST_STEP = 1024


class Budget:
    """Used part of the limits of a window."""

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


class TracePlan:
    """Follow the steps of a loop, and decide about each.

    Attributes:
        kinds: Run times of all kinds of runs, by the number of their signature.
        opens: Whether the current run begins a step.
        tracing: Whether the current step is traced.
        early: Whether the loop may not have warmed up yet.
        light: Whether the current step is only timed.
        after_trace: Whether the previous step was traced, so that slow work is best done now.
        change: Start and end of the step in which a lasting change was detected.
    """

    def __init__(self) -> None:
        self.kinds: list[RunTimes] = []
        self.opens = self.tracing = self.early = self.light = self.after_trace = False
        self.change: tuple[int, int] | None = None
        self._leader: RunTimes | None = None
        self._budget = Budget()
        self._windows = 1
        self._change = ChangeDetector()
        self._pace = StepPace()
        self._runs = self._usual_runs = 0
        self._start_ns = self._untraced = 0

    def run_times(self, signature: int) -> RunTimes:
        """The run times of a kind of runs."""
        while len(self.kinds) <= signature:
            self.kinds.append(RunTimes())
        return self.kinds[signature]

    def leads(self, kind: RunTimes) -> bool:
        """Whether a run of this kind begins a step."""
        leader = self._leader
        if kind is leader:
            return True
        is_update = leader is not None and kind.for_effect > leader.for_effect
        if leader is not None and not is_update and kind.total_ns <= _LEADS_BY * leader.total_ns:
            return False
        if kind.count >= _OFTEN and kind.count % _COMPARED_EVERY:
            return False
        return kind.count >= _EARLIEST and self._takes_over(kind)

    def _takes_over(self, kind: RunTimes) -> bool:
        """Make this kind the leader if it is; whether it is."""
        if leading(self.kinds) is not kind:
            return False
        if self._leader is not None:
            self._renew()
        else:
            self._runs //= kind.count
        self._leader = kind
        self._start_ns = 0
        return True

    @property
    def is_compared(self) -> bool:
        """Whether the current run follows a traced step of several runs."""
        return self.opens and self.after_trace and self._usual_runs > 1

    @property
    def only_timed_until_ns(self) -> int:
        """Until when all steps are light; 0 if this one is not, or steps have several runs."""
        return self._pace.due_ns if self.light and self.opens and self._usual_runs == 1 else 0

    def timed(self, start_ns: int) -> None:
        """A light step of one run has begun, which was not passed to `open`.

        Args:
            start_ns: The time.
        """
        self._follow_step_time(start_ns)
        self._usual_runs, self._runs = self._runs, 1

    def follow(self) -> None:
        """Count a run that begins no step."""
        self._runs += 1
        self.opens = False
        if self._runs > _LONGEST_STEP:
            self.light = self.tracing = False

    def open(self, kind: RunTimes, time_ns: int) -> None:
        """Begin a step with a run that is about to start.

        Args:
            kind: Run times of its kind.
            time_ns: The time.
        """
        self._usual_runs, self._runs = self._runs, 1
        self._follow_step_time(time_ns)
        self.after_trace = self.tracing
        self.opens = True
        self._untraced = 0 if self.tracing else self._untraced + 1
        # The steps between are for comparison.
        traced = self._budget.steps
        is_apart = self._untraced >= (2 if traced and not traced % 2 else 1)
        self.tracing = is_apart and traced < _TRACED_STEPS and self._traces(kind)
        self.light = self._pace.next_step(time_ns) and not self.tracing

    def _follow_step_time(self, time_ns: int) -> None:
        """Compare the time of the step that ends with those before."""
        self.change = None
        if not self.tracing and self._start_ns and self._change.add(time_ns - self._start_ns):
            self.change = self._start_ns, time_ns
            self._renew()
        self._start_ns = time_ns

    def _traces(self, kind: RunTimes) -> bool:
        """Whether to trace the step that begins; if so, count it."""
        settled = kind.settled()
        self.early = not settled
        is_due = settled or kind.count == _EARLIEST
        if not is_due or not self._budget.allows_step(min(self._usual_runs, self._most_runs())):
            return False
        self._budget.steps += 1
        return True

    def postpone(self) -> None:
        """Trace a later step instead of the one that begins."""
        self.tracing = False
        self._budget.steps -= 1

    def _renew(self) -> None:
        """Open one more window, within the limit, for a loop that has changed."""
        self._change.restart()
        if self._windows < _WINDOWS:
            self._windows += 1
            self._budget = Budget()

    def traces_run(self) -> bool:
        """Whether to trace the run that is about to start."""
        return self.tracing and self._runs <= self._most_runs() and self._budget.allows_run()

    def _most_runs(self) -> int:
        """Limit of traced runs per step, given the number in the last one."""
        return _WHOLE_STEP if self._usual_runs <= _WHOLE_STEP else _PART_OF_STEP

    def traced(self, duration_ns: int, size: int) -> None:
        """Count a traced run that has ended.

        Args:
            duration_ns: Its wall time.
            size: Bytes of its trace.
        """
        self._budget.runs += 1
        self._budget.time_ns += duration_ns
        self._budget.bytes += size

    def stop(self) -> None:
        """Trace no more, since a window could not be written."""
        self._windows = _WINDOWS
        self._budget.steps = _TRACED_STEPS
