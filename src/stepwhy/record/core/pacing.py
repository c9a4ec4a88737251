"""Pace the observation over a run of any length: light steps, sampling intervals, changes."""

from __future__ import annotations

# A period begins with so many observed steps. Its other steps are light: only their start and end
# are noted, and the difference to the observed ones is the cost of the observation.
_OBSERVED = 24
# A quarter of the steps resolves microseconds within a few thousand, and leaves most observed.
_FEWEST_LIGHT = 8
# The first steps include compilation and decide about windows, so more of them are observed.
_FIRST_OBSERVED = 32
# Observing a step takes up to 20 us, timing it up to 5 us. A period lasts at least this long, so
# that observing adds less than 0.2 % to a training whose steps are shorter than 10 ms ...
_PERIOD_NS = 320_000_000
# ... and less than 0.1 % where they are shorter than this: what evicted code takes, up to 80 us in
# JAX, and noting the light ones weigh more there.
_SHORT_STEP_NS = 3_000_000
_SHORT_STEPS_PERIOD_NS = 2_000_000_000
# Until then, periods of short steps last 32 steps, too: a short run must be described as well.
# Not longer: on a busy machine an observed step costs much more than that, because each reading of
# the thread's CPU time lets the kernel (6.18) end an expired time slice at once, not at the next
# tick. That doubled the interruptions, and made steps of 0.23 ms take 0.32 ms of CPU time.
_DENSE_NS = 1_000_000_000

_SHORTEST_NS = 20_000_000
# The interval grows with the run, so that the number of samples grows with its logarithm.
_SHARE_OF_RUN = 1 / 2000

# Appending to a log takes up to 0.1 ms, so 1 % of a run's first third of a second and less of the
# rest. A process that is killed loses what is pending: less than half a second.
_SHORTEST_PENDING_NS = 10_000_000
_LONGEST_PENDING_NS = 400_000_000
_PENDING_SHARE = 32

_BLOCK_STEPS = 8
_BLOCK_NS = 200_000_000
# A step time that differs by less may be noise of a shared machine.
_LASTING_CHANGE = 0.25
# Blocks in a row, all slower or all faster: a pause or a checkpoint is no lasting change.
_LASTING_BLOCKS = 8
_REFERENCE_BLOCKS = 4
# The first steps are of another loop, such as one that trains a part of the model before, if the
# reference is that many times as long or short. They are those that a window shows.
_FIRST_STEPS = 8
_OTHER_LOOP = 2.0


class StepPace:
    """Decide which steps are observed, and which are light: only timed.

    Attributes:
        light: Whether the current step is light.
        due_ns: When the next period begins at the earliest.
    """

    __slots__ = ("_began_ns", "_count", "_observed", "_since_ns", "due_ns", "light")

    def __init__(self) -> None:
        self.light = False
        self._began_ns = self._since_ns = self._count = self.due_ns = 0
        self._observed = _FIRST_OBSERVED

    def observe(self) -> None:
        """Observe the step that begins, which is the first of a period."""
        self.light = False
        self._since_ns = self._count = self.due_ns = 0

    def next_step(self, time_ns: int) -> bool:
        """Begin a step, and decide whether it is light.

        Args:
            time_ns: The time, on the clock of `now_ns`.
        """
        self._began_ns = self._began_ns or time_ns
        self._since_ns = self._since_ns or time_ns
        self._count += 1
        if not self.light:
            if self._count >= self._observed:
                self.due_ns = self._next_period_ns(time_ns)
                self.light, self._count, self._observed = True, 0, _OBSERVED
        elif self._count >= _FEWEST_LIGHT and time_ns >= self.due_ns:
            self.light, self._count, self._since_ns = False, 0, time_ns
        return self.light

    def _next_period_ns(self, time_ns: int) -> int:
        """When the next period begins at the earliest; 0 if after a few steps."""
        if time_ns - self._began_ns < _DENSE_NS:
            return 0
        observed_ns = time_ns - self._since_ns
        are_short = observed_ns < self._count * _SHORT_STEP_NS
        return self._since_ns + (_SHORT_STEPS_PERIOD_NS if are_short else _PERIOD_NS)


class SamplingPace:
    """Decide when the next sample is due, at intervals that grow with the run."""

    __slots__ = ("_due_ns", "_started_ns")

    def __init__(self) -> None:
        self._started_ns = self._due_ns = 0

    def due(self, time_ns: int) -> bool:
        """Whether a sample is due; if so, the caller takes it.

        Args:
            time_ns: The time, on the clock of `now_ns`.
        """
        if time_ns < self._due_ns:
            return False
        self._started_ns = self._started_ns or time_ns
        age_ns = time_ns - self._started_ns
        self._due_ns = time_ns + max(_SHORTEST_NS, int(age_ns * _SHARE_OF_RUN))
        return True


class WritePace:
    """Decide when pending records are written next, at intervals that grow with the run.

    Attributes:
        pending_ns: The latest interval.
    """

    __slots__ = ("_started_ns", "pending_ns")

    def __init__(self) -> None:
        self._started_ns = self.pending_ns = 0

    def next_ns(self, time_ns: int) -> int:
        """When to write again.

        Args:
            time_ns: The time of this writing, on any clock.
        """
        self._started_ns = self._started_ns or time_ns
        share_ns = (time_ns - self._started_ns) // _PENDING_SHARE
        self.pending_ns = min(max(share_ns, _SHORTEST_PENDING_NS), _LONGEST_PENDING_NS)
        return time_ns + self.pending_ns


class ChangeDetector:
    """Detect when the step time has changed for good.

    Steps are grouped into blocks of at least 8 steps and 0.2 s. After `restart`, the median
    block of the first four is the reference; eight blocks in a row that are all slower, or all
    faster, than it by a quarter are a lasting change. So is a first reference that is twice the
    median of the first eight steps, or half of it: another loop came before.

    Args:
        least: The smallest change, as a share.

    Attributes:
        reference_ns: The reference; 0 until there is one.
    """

    __slots__ = (
        "_blocks",
        "_count",
        "_first",
        "_least",
        "_side",
        "_streak",
        "_total_ns",
        "reference_ns",
    )

    def __init__(self, least: float = _LASTING_CHANGE) -> None:
        self._least = least
        self.restart()

    def restart(self) -> None:
        """Forget all steps; the next blocks make a new reference."""
        self._first: list[float] | None = []
        self._blocks: list[float] = []
        self.reference_ns = 0.0
        self._count = self._total_ns = 0
        self._side = self._streak = 0

    @property
    def pending_steps(self) -> int:
        """Number of steps of the block that is not full yet."""
        return self._count

    def add(self, duration_ns: int, steps: int = 1) -> bool:
        """Add an unprofiled step, or several.

        Args:
            duration_ns: Its wall time, or that of all of them.
            steps: Number of steps.

        Returns:
            Whether the step time has changed for good; the reference is then reset.
        """
        if self._first is not None and len(self._first) < _FIRST_STEPS:
            self._first.append(duration_ns / steps)
        self._count += steps
        self._total_ns += duration_ns
        if self._count < _BLOCK_STEPS or self._total_ns < _BLOCK_NS:
            return False
        mean_ns = self._total_ns / self._count
        self._count = self._total_ns = 0
        return self._compare(mean_ns)

    def _compare(self, mean_ns: float) -> bool:
        """Compare a block with the reference."""
        if not self.reference_ns:
            self._blocks.append(mean_ns)
            if len(self._blocks) == _REFERENCE_BLOCKS:
                self.reference_ns = sorted(self._blocks)[_REFERENCE_BLOCKS // 2]
                return self._follows_another_loop()
            return False
        difference = mean_ns / self.reference_ns - 1
        side = (difference > self._least) - (1 / (1 + difference) - 1 > self._least)
        self._streak = self._streak + 1 if side and side == self._side else abs(side)
        self._side = side
        if self._streak < _LASTING_BLOCKS:
            return False
        self.restart()
        return True

    def _follows_another_loop(self) -> bool:
        """Whether the first steps took a different time from the first reference."""
        first, self._first = self._first, None
        if not first:
            return False
        ratio = self.reference_ns / max(sorted(first)[len(first) // 2], 1.0)
        return not 1 / _OTHER_LOOP <= ratio <= _OTHER_LOOP
