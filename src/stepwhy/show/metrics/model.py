"""The numbers of a run that monitoring systems show; None for what was not recorded."""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BOUNDS_NS = (
    *(factor * 10**exponent for exponent in range(6, 11) for factor in (1, 2, 5)),
    100 * 10**9,
)
"""Upper bounds of the buckets of step times: 1 ms, 2 ms, 5 ms, ... 50 s, 100 s."""


class Durations(NamedTuple):
    """A histogram of durations with the bounds of `BOUNDS_NS`; the last bucket has no bound.

    Attributes:
        counts: Number of durations in each bucket.
        sums_ns: Their sum in each bucket, ns.
    """

    counts: tuple[int, ...]
    sums_ns: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of all durations."""
        return sum(self.counts)

    @property
    def total_ns(self) -> int:
        """Sum of all durations, ns."""
        return sum(self.sums_ns)


class DurationCounter:
    """Counts durations in the buckets of a histogram."""

    __slots__ = ("_counts", "_sums_ns")

    def __init__(self, durations_ns: Iterable[int] = ()) -> None:
        self._counts = [0] * (len(BOUNDS_NS) + 1)
        self._sums_ns = [0] * (len(BOUNDS_NS) + 1)
        for duration_ns in durations_ns:
            self.add(duration_ns)

    def add(self, duration_ns: int) -> None:
        """Count one duration, ns."""
        bucket = bisect_left(BOUNDS_NS, duration_ns)
        self._counts[bucket] += 1
        self._sums_ns[bucket] += duration_ns

    def durations(self) -> Durations:
        """The histogram so far."""
        return Durations(tuple(self._counts), tuple(self._sums_ns))


class Queue(NamedTuple):
    """The last sample of a queue or buffer between input and training.

    Attributes:
        name: Its name.
        kind: 'tf1-queue', 'tf.data' or 'dataloader'.
        elements: Elements in it.
        capacity: Maximum number of elements; None if unbounded or unknown.
        time_ns: Time of the sample, ns since the epoch.
    """

    name: str
    kind: str
    elements: int
    capacity: int | None
    time_ns: int


class Usage(NamedTuple):
    """The last sample of what a process uses.

    Attributes:
        time_ns: Time of the sample, ns since the epoch.
        resident_bytes: Resident memory.
        swap_bytes: Swapped memory.
        cpu_ns: CPU time of the process so far, ns.
        gpu_bytes: Memory in use by all programs, by the index of the GPU in its driver.
    """

    time_ns: int
    resident_bytes: int | None = None
    swap_bytes: int | None = None
    cpu_ns: int | None = None
    gpu_bytes: Mapping[int, int] = {}


class Process(NamedTuple):
    """One process of a run: a rank, or the only one that trains.

    Attributes:
        framework: 'pytorch', 'tensorflow', 'jax' or ''.
        rank: Its rank; None without one.
        steps: Steps that have ended.
        durations: Wall time of the steps without a profiler.
        input_wait_ns: Time in which these steps waited for input, as far as it was observed, ns.
        observed_ns: Wall time of the steps whose waits were observed, ns.
        last_step_ns: End of the last step, ns since the epoch.
        queues: The queues and buffers.
        usage: What the process uses.
    """

    framework: str
    rank: int | None = None
    steps: int | None = None
    durations: Durations | None = None
    input_wait_ns: int | None = None
    observed_ns: int | None = None
    last_step_ns: int | None = None
    queues: tuple[Queue, ...] = ()
    usage: Usage | None = None


class Run(NamedTuple):
    """A run.

    Attributes:
        name: Its name, redacted.
        processes: Its processes.
        is_running: Whether the command still runs.
        breakdown: Time of the mean step by category, ns.
        costs_ns: Cost of the findings per mean step by their ids, ns.
        peak_bytes: Peak of the memory by the name of its allocator, device or process.
    """

    name: str
    processes: tuple[Process, ...] = ()
    is_running: bool = False
    breakdown: Mapping[str, int] = {}
    costs_ns: Mapping[str, int] = {}
    peak_bytes: Mapping[str, int] = {}
